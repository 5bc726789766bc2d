/** The text of a file that people write: its bytes have to be UTF-8, and not too many. */
import { isUtf8 } from 'node:buffer';
import type { FileFault } from './report';
import { MAX_LENGTH, SHORTER } from './yaml';

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
