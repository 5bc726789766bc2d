/** The text of a file that people write: its bytes have to be UTF-8, and not too many. */
import { isUtf8 } from 'node:buffer';
import { FaultReport, type FileFault } from './report';
import type { Tree } from './tree';
import { MAX_LENGTH, readTree, SHORTER } from './yaml';

/**
 * Reads YAML or JSON: the text as a tree, and the tree by `read`. Never throws: every text gives a result, or
 * all faults in the order of the text. For a text that is not YAML, only its syntax errors are reported.
 *
 * @param fileName for the messages
 * @param whenEmpty the remedy for a file without data
 * @param read its result counts only where it reported no fault; undefined where there is none
 */
export function parseText<T>(
  text: string,
  { fileName, whenEmpty }: { readonly fileName: string; readonly whenEmpty: string },
  read: (tree: Tree, faults: FaultReport, content: string) => T | undefined,
): T | { readonly faults: readonly FileFault[] } {
  const content = text.startsWith('\uFEFF') ? text.slice(1) : text;
  const faults = new FaultReport(content);
  const tree = readTree(content, fileName, faults, whenEmpty);
  const result = tree === undefined ? undefined : read(tree, faults, content);
  return result !== undefined && faults.isEmpty() ? result : { faults: faults.inOrder() };
}

/**
 * The most bytes that are read of a file. A longer file has more than MAX_LENGTH characters in any case, so
 * it is refused unread.
 */
export const MAX_REFERENCE_BYTES = 3 * MAX_LENGTH;

/** The text of a file, or its fault. @param bytes null for a file of more than MAX_REFERENCE_BYTES */
export function decodeFile(bytes: Buffer | null, fileName: string): string | FileFault {
  if (bytes === null) return tooLong(fileName);
  const text = bytes.toString('utf8');
  return isUtf8(bytes) ? text : notUtf8(bytes, text);
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
