/**
 * Finds the parts of a text that is known to be JSON, so that each part can be passed on as the sender wrote
 * it.
 */

export interface Span {
  readonly start: number;
  readonly end: number;
}

/** The highest byte of white space. */
const SPACE = 0x20;
const OPEN_ARRAY = 0x5b;
export const QUOTE = 0x22;
export const BACKSLASH = 0x5c;
export const COMMA = 0x2c;

/** Whether the byte opens an array or an object. */
export function isOpening(byte: number | undefined): boolean {
  return byte === OPEN_ARRAY || byte === 0x7b;
}

/** Whether the byte closes an array or an object. */
export function isClosing(byte: number | undefined): boolean {
  return byte === 0x5d || byte === 0x7d;
}

/**
 * The members of the array or object that begins at `start` of a valid JSON text, each as the sender wrote
 * it.
 */
export function membersOf(bytes: Buffer, start: number): Span[] {
  const spans: Span[] = [];
  let depth = 0;
  let from = start + 1;
  const add = (to: number) => {
    let end = to;
    while (from < end && (bytes[from] ?? 0) <= SPACE) from++;
    while (from < end && (bytes[end - 1] ?? 0) <= SPACE) end--;
    if (from < end) spans.push({ start: from, end });
    from = to + 1;
  };
  for (let at = start; at < bytes.length; at++) {
    const byte = bytes[at] ?? 0;
    if (byte === QUOTE) at = endOfString(bytes, at);
    else if (isOpening(byte)) depth++;
    else if (byte === COMMA && depth === 1) add(at);
    else if (isClosing(byte) && --depth === 0) {
      add(at);
      break;
    }
  }
  return spans;
}

/** The last byte of the string that begins at `start`. */
export function endOfString(bytes: Buffer, start: number): number {
  let at = start + 1;
  while (at < bytes.length && bytes[at] !== QUOTE) at += bytes[at] === BACKSLASH ? 2 : 1;
  return at;
}

/**
 * The start of the array that a key of the object at `start` holds. The last of equal keys counts, as in
 * JSON.parse.
 */
export function lastArrayOf(bytes: Buffer, start: number, key: string): number {
  const arrays = membersOf(bytes, start).flatMap((member) => {
    const end = endOfString(bytes, member.start) + 1;
    const name: unknown = JSON.parse(bytes.toString('utf8', member.start, end));
    return name === key ? [bytes.indexOf(OPEN_ARRAY, end)] : [];
  });
  return arrays.at(-1) ?? start;
}
