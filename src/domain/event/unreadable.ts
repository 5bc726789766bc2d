/**
 * Explains why bytes are no JSON, in words that follow "the payload": compressed, in another encoding, in
 * another format, or broken at a byte. Only unreadable bytes cost this, and at most MAX_LOOKED_AT of them are
 * examined.
 */
import { isUtf8 } from 'node:buffer';
import { type ForeignFormat, foreignFormatOf } from '../../lib/foreign-text';
import { scanBody } from './body-scan';

/** The most bytes that are searched for the place of a fault: the size limit of a request's body. */
const MAX_LOOKED_AT = 1024 ** 2;

const UTF_16 = 'is UTF-16: send UTF-8';

const REMEDIES: Readonly<Record<ForeignFormat, string>> = {
  'utf-8 with a mark': 'begins with a byte order mark, so it is no JSON: send UTF-8 without one',
  'utf-16': UTF_16,
  'utf-16le': UTF_16,
  'utf-16be': UTF_16,
  gzip: 'is compressed with gzip: send it uncompressed',
  zstd: 'is compressed with zstd: send it uncompressed',
  zip: 'is a zip file: send its content, one event each',
};

/** @param bytes no JSON text, or not UTF-8 */
export function whyUnreadable(bytes: Buffer): string {
  if (bytes.length === 0) return 'is empty';
  const format = foreignFormatOf(bytes);
  if (format !== undefined) return REMEDIES[format];
  return isUtf8(bytes) ? whyNoJson(bytes) : whyNoUtf8(bytes);
}

function whyNoUtf8(bytes: Buffer): string {
  const at = endOfUtf8(bytes.subarray(0, MAX_LOOKED_AT));
  if (at === MAX_LOOKED_AT) return `is not valid UTF-8, after byte ${MAX_LOOKED_AT}`;
  const byte = (bytes[at] ?? 0).toString(16).toUpperCase().padStart(2, '0');
  return `is not valid UTF-8 at byte ${at} (0x${byte})`;
}

/** The position of the first byte that is not part of a whole character. */
function endOfUtf8(bytes: Buffer): number {
  // Halves the range: every byte before `valid` is valid, and some byte before `invalid` is not. A cut may
  // split a character of four bytes.
  let [valid, invalid] = [0, bytes.length];
  while (invalid - valid > 4) {
    const middle = beginOfCharacter(bytes, (valid + invalid) >> 1);
    if (middle <= valid) break;
    if (isUtf8(bytes.subarray(valid, middle))) valid = middle;
    else invalid = middle;
  }
  for (let length = 1; valid < invalid; ) {
    if (isUtf8(bytes.subarray(valid, valid + length))) {
      valid += length;
      length = 1;
    } else if (++length > 4) return valid;
  }
  return valid;
}

/** The start of the character at `at`. A character has at most three continuation bytes. */
function beginOfCharacter(bytes: Buffer, at: number): number {
  for (let begin = at; begin > at - 4 && begin > 0; begin--)
    if (((bytes[begin] ?? 0) & 0xc0) !== 0x80) return begin;
  return at;
}

function whyNoJson(bytes: Buffer): string {
  const looked = bytes.subarray(0, MAX_LOOKED_AT);
  const scan = scanBody(looked, Number.POSITIVE_INFINITY, 0);
  // The fault is beyond the bytes that were examined.
  if (scan.type !== 'invalid' || (scan.at === looked.length && looked.length < bytes.length))
    return `is no JSON, after byte ${looked.length}`;
  const { at } = scan;
  if (isBlank(bytes)) return 'holds only blanks';
  if (at >= bytes.length) return `ends too early, at byte ${bytes.length}: it was cut off`;
  const first = String.fromCharCode(bytes.find((byte) => byte > 0x20) ?? 0);
  if (first === '<') return 'begins with "<": it is XML or HTML, not JSON';
  if (followsLine(bytes, at))
    return `holds several JSON values like NDJSON, the second one at byte ${at}: send each by itself`;
  if (isCsv(bytes, at)) return 'looks like CSV, not JSON: send each event as a JSON object';
  return `is no JSON from byte ${at} on${hintAt(bytes, at)}`;
}

function isBlank(bytes: Buffer): boolean {
  return bytes.every((byte) => byte <= 0x20);
}

/** Whether a JSON value ended on an earlier line, and another one begins here. */
function followsLine(bytes: Buffer, at: number): boolean {
  if (!'[{'.includes(String.fromCharCode(bytes[at] ?? 0))) return false;
  const before = bytes.toString('latin1', Math.max(0, at - 8), at);
  return /[\]}]\r?\n\s*$/.test(before);
}

/** Whether the first line has no bracket, and its names are separated by commas, semicolons or tabs. */
function isCsv(bytes: Buffer, at: number): boolean {
  if (at > MAX_FIRST_VALUE) return false;
  const [line = ''] = bytes.toString('latin1', 0, MAX_LINE).split('\n');
  return !/[{}[\]:]/.test(line) && /^[^,;\t]+([,;\t][^,;\t]*)+$/.test(line);
}

/**
 * The scan may read the first name or number of a line of CSV as a JSON value, so the fault is found behind
 * it.
 */
const MAX_FIRST_VALUE = 200;
const MAX_LINE = 2_000;

function hintAt(bytes: Buffer, at: number): string {
  const byte = bytes[at] ?? 0;
  if (byte === 0x27) return ': a text is written with ", not with \'';
  if (byte < 0x20)
    return ': write a line feed, tab or other control character in a text as \\n, \\t or \\u001f';
  if ((byte === 0x7d || byte === 0x5d) && /,\s*$/.test(bytes.toString('latin1', Math.max(0, at - 8), at)))
    return ': there is a comma before the closing bracket';
  return byte < 0x7f ? `: "${String.fromCharCode(byte)}" is not allowed here` : '';
}
