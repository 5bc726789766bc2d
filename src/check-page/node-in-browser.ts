/**
 * The parts of Node's Buffer and node:buffer that the rules use, for the browser. The build puts them in
 * place of Node's. A test compares them with Node's own.
 */

const encoder = new TextEncoder();
const decoder = new TextDecoder('utf-8', { ignoreBOM: true });
const strictDecoder = new TextDecoder('utf-8', { ignoreBOM: true, fatal: true });
/** An argument list that every engine takes. */
const MOST_ARGUMENTS = 8_192;

class Bytes extends Uint8Array {
  equals(other: Uint8Array): boolean {
    return this.length === other.length && this.every((byte, at) => byte === other[at]);
  }

  latin1Slice(start: number, end: number): string {
    let text = '';
    for (let from = start; from < end; from += MOST_ARGUMENTS)
      text += String.fromCharCode(...this.subarray(from, Math.min(end, from + MOST_ARGUMENTS)));
    return text;
  }

  override toString(encoding = 'utf8', start = 0, end = this.length): string {
    if (encoding === 'latin1') return this.latin1Slice(start, Math.min(end, this.length));
    if (encoding === 'utf8') return decoder.decode(this.subarray(start, end));
    throw new Error(`the page has no encoding ${encoding}`);
  }
}

function bytesOf(source: ArrayLike<number>): Bytes {
  const made = new Bytes(source.length);
  made.set(source);
  return made;
}

export const Buffer = {
  alloc: (length: number, fill = 0): Bytes => new Bytes(length).fill(fill),
  byteLength: (text: string): number => encoder.encode(text).length,
  concat(parts: readonly Uint8Array[]): Bytes {
    const whole = new Bytes(parts.reduce((length, part) => length + part.length, 0));
    let at = 0;
    for (const part of parts) {
      whole.set(part, at);
      at += part.length;
    }
    return whole;
  },
  from: (source: string | ArrayLike<number>): Bytes =>
    bytesOf(typeof source === 'string' ? encoder.encode(source) : source),
};

export function isUtf8(bytes: Uint8Array): boolean {
  try {
    strictDecoder.decode(bytes);
    return true;
  } catch {
    return false;
  }
}
