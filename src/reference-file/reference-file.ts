/**
 * The reference data file: turns its text into a document, or into all faults of the text.
 *
 * changes.ts describes the effect of applying a changed file. stored.ts has the stored form of a document.
 */
import { isUtf8 } from 'node:buffer';
import type { ReferenceDocument } from '../domain/reference';
import { FaultReport, type FileFault } from './report';
import { DocumentReader } from './rules';
import { MAX_LENGTH, readTree, SHORTER } from './yaml';

export { type Change, describeChanges, printChanges, removals } from './changes';
export { describeFileFault, type FileFault } from './report';

export type ParsedReference =
  | { readonly document: ReferenceDocument; readonly warnings: readonly FileFault[] }
  | { readonly faults: readonly FileFault[] };

/**
 * The most bytes that are read of a file. A longer file has more than MAX_LENGTH characters in any case, so
 * it is refused unread.
 */
export const MAX_REFERENCE_BYTES = 3 * MAX_LENGTH;

/**
 * Reads the bytes of a file, which have to be UTF-8. Never throws, as `parseReference`.
 *
 * @param bytes null for a file of more than MAX_REFERENCE_BYTES
 */
export function readReference(bytes: Buffer | null, fileName: string): ParsedReference {
  if (bytes === null) return { faults: [tooLong(fileName)] };
  const text = bytes.toString('utf8');
  return isUtf8(bytes) ? parseReference(text, fileName) : { faults: [notUtf8(bytes, text)] };
}

function tooLong(fileName: string): FileFault {
  const message = `${fileName} has more than ${MAX_LENGTH} characters, the limit.`;
  return { line: 1, column: 1, path: '', message, remedy: SHORTER };
}

/**
 * The character that decoding puts in place of invalid bytes. A file may also contain this character itself.
 */
const REPLACEMENT = '\uFFFD';
const REPLACEMENT_BYTES = Buffer.from(REPLACEMENT);

/** @param text the decoded bytes, with the replacement character for each invalid part */
function notUtf8(bytes: Buffer, text: string): FileFault {
  let at = text.indexOf(REPLACEMENT);
  let offset = Buffer.byteLength(text.slice(0, at));
  while (bytes.subarray(offset, offset + REPLACEMENT_BYTES.length).equals(REPLACEMENT_BYTES)) {
    const next = text.indexOf(REPLACEMENT, at + 1);
    offset += Buffer.byteLength(text.slice(at, next));
    at = next;
  }
  const byte = bytes[offset]?.toString(16).padStart(2, '0');
  const message = `The file is not UTF-8: byte ${offset + 1}, 0x${byte}, belongs to no character.`;
  const before = text.slice(0, at);
  const line = before.split('\n').length;
  const column = at - before.lastIndexOf('\n');
  return { line, column, path: '', message, remedy: 'Save it as UTF-8.' };
}

/**
 * Reads reference data from YAML or JSON. Never throws: every text gives a document or its faults.
 *
 * All faults are reported at once, in the order of the text. For a text that is not YAML, only its syntax
 * errors are reported.
 * @param fileName for the messages
 */
export function parseReference(text: string, fileName: string): ParsedReference {
  const content = text.startsWith('\uFEFF') ? text.slice(1) : text;
  const report = new FaultReport(content);
  const tree = readTree(content, fileName, report);
  if (tree === undefined) return { faults: report.inOrder() };
  const warnings = new FaultReport(content);
  const document = new DocumentReader(report, warnings).read(tree);
  return report.isEmpty() ? { document, warnings: warnings.inOrder() } : { faults: report.inOrder() };
}
