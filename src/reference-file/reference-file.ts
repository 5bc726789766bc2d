/**
 * The reference data file: its text turned into a document, or into everything that is wrong with it.
 *
 * What applying a changed file would do is in src/reference-file/changes.ts, what the store keeps of a document in stored.ts.
 */
import { isUtf8 } from 'node:buffer';
import type { ReferenceDocument } from '../domain/reference';
import { type FileFault, Report } from './report';
import { DocumentReader } from './rules';
import { MAX_LENGTH, readTree, SHORTER } from './yaml';

export { type Change, describeChanges, printChanges, removals } from './changes';
export { describeFileFault, type FileFault } from './report';

export type ParsedReference =
  | { readonly document: ReferenceDocument; readonly warnings: readonly FileFault[] }
  | { readonly faults: readonly FileFault[] };

/** More bytes are more characters than a file may have, whatever they are: nobody need read further. */
export const MAX_REFERENCE_BYTES = 3 * MAX_LENGTH;

/**
 * Reads the bytes of a file, which have to be UTF-8. Never throws, as `parseReference`.
 *
 * @param bytes null where there are more than MAX_REFERENCE_BYTES
 */
export function readReference(bytes: Buffer | null, fileName: string): ParsedReference {
  if (bytes === null) return { faults: [tooLong(fileName)] };
  const text = bytes.toString('utf8');
  return isUtf8(bytes) ? parseReference(text, fileName) : { faults: [notUtf8(bytes, text)] };
}

function tooLong(fileName: string): FileFault {
  const message = `${fileName} has more than ${MAX_LENGTH} characters, which is the limit.`;
  return { line: 1, column: 1, path: '', message, remedy: SHORTER };
}

/** What bytes that are no UTF-8 are read as. A file may also hold it as a character of its own. */
const REPLACEMENT = '\uFFFD';
const REPLACEMENT_BYTES = Buffer.from(REPLACEMENT);

/** @param text of the bytes, with a replacement for what is none */
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
 * Reads reference data from YAML or JSON. Never throws: whatever the text is, the answer is a document or its faults.
 *
 * All faults are reported at once, in the order of the text. A text that is not even YAML gets its syntax errors alone.
 * @param fileName for the messages
 */
export function parseReference(text: string, fileName: string): ParsedReference {
  const content = text.startsWith('\uFEFF') ? text.slice(1) : text;
  const report = new Report(content);
  const tree = readTree(content, fileName, report);
  if (tree === undefined) return { faults: report.inOrder() };
  const warnings = new Report(content);
  const document = new DocumentReader(report, warnings).read(tree);
  return report.isEmpty() ? { document, warnings: warnings.inOrder() } : { faults: report.inOrder() };
}
