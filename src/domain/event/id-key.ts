/**
 * Digests: the key that represents an id, and the hashes that distinguish contents and players
 * (docs/rules.md, K1-K5).
 */
import { createHash, hash } from 'node:crypto';

/** The longest key. */
export const MAX_ID_KEY_BYTES = 20;
const UUID_BYTES = 16;
const UUID_CHARS = 36;

/**
 * Writes the key of an event_id or round_id, its representation in the store, and returns the number of
 * bytes. The key has at most 20 bytes for an id of any length, so it fits any index.
 *
 * - an id of fewer than 16 bytes of UTF-8 is its own key;
 * - a UUID in its usual lower-case text is its 16 bytes, which keep the order of time-ordered UUIDs;
 * - every other id is the first 160 bits of its SHA-256.
 *
 * The three forms have different lengths, so they cannot collide. `promo_store.id_key` is the same function
 * in SQL.
 */
export function writeIdKey(id: string, bytes: Buffer, start: number): number {
  if (id.length === UUID_CHARS && writeUuid(id, bytes, start)) return UUID_BYTES;
  if (id.length < UUID_BYTES && Buffer.byteLength(id) < UUID_BYTES) return bytes.write(id, start);
  return hash('sha256', id, 'buffer').copy(bytes, start, 0, MAX_ID_KEY_BYTES);
}

/** The same key in a Buffer of its own. */
export function idKey(id: string): Buffer {
  const bytes = Buffer.allocUnsafe(MAX_ID_KEY_BYTES);
  return bytes.subarray(0, writeIdKey(id, bytes, 0));
}

/** The format of a key in a row. */
export const ID_KEY = { maxBytes: MAX_ID_KEY_BYTES, write: writeIdKey };

/**
 * Returns a function that finds the id of a key in Postgres' text format, among the ids that the query had.
 * Most keys contain their id. Digests do not: the long ids are digested once the first digest occurs.
 *
 * @returns undefined for a key that the query did not have
 */
export function idFinder(ids: readonly string[]): (key: string) => string | undefined {
  let digested: Map<string, string> | undefined;
  return (key) => {
    const digits = key.slice(HEX_PREFIX.length);
    if (digits.length < UUID_DIGITS) return Buffer.from(digits, 'hex').toString();
    if (digits.length === UUID_DIGITS) return uuidOf(digits);
    digested ??= new Map(ids.map((id) => [keyText(id), id]));
    return digested.get(key);
  };
}

const HEX_PREFIX = '\\x';
const UUID_DIGITS = 32;

function uuidOf(hex: string): string {
  const part = (from: number, to: number) => hex.slice(from, to);
  return `${part(0, 8)}-${part(8, 12)}-${part(12, 16)}-${part(16, 20)}-${part(20, 32)}`;
}

/** The key of an id in Postgres' text format. */
function keyText(id: string): string {
  const bytes = Buffer.allocUnsafe(MAX_ID_KEY_BYTES);
  return HEX_PREFIX + bytes.toString('hex', 0, writeIdKey(id, bytes, 0));
}

/** The longest id that rounds and duplicates store whole, in bytes of UTF-8. */
const MAX_WHOLE_ID_BYTES = 65_536;
const KEPT_CHARACTERS = 1_000;

/**
 * An id as rounds and duplicates store it. An id of more than 65,536 bytes becomes its first 1,000 characters
 * and its SHA-256 (K5).
 *
 * Views and indexes hold less: `promo.stored_id` shortens an id of more than 1,000 bytes. It returns the same
 * text for the whole id and for the one shortened here.
 *
 * Do not change this function: a worker of an older version compares its own result with the stored one.
 */
export function storedId(id: string): string {
  if (id.length * 3 <= MAX_WHOLE_ID_BYTES || Buffer.byteLength(id) <= MAX_WHOLE_ID_BYTES) return id;
  return `${firstCharacters(id, KEPT_CHARACTERS)}... sha256:${hash('sha256', id)}`;
}

/** The longest id that views show whole, in bytes of UTF-8. */
const MAX_SHOWN_ID_BYTES = 1_000;
const SHOWN_CHARACTERS = 200;

/** An id as views show it: `promo.stored_id` is the same function in SQL. */
export function shownId(id: string): string {
  if (id.length * 3 <= MAX_SHOWN_ID_BYTES || Buffer.byteLength(id) <= MAX_SHOWN_ID_BYTES) return id;
  const [, begin = '', digest = ''] = STORED.exec(id) ?? [];
  if (digest !== '') return firstCharacters(begin, SHOWN_CHARACTERS) + digest;
  return `${firstCharacters(id, SHOWN_CHARACTERS)}... sha256:${hash('sha256', id)}`;
}

/** An id that `storedId` has shortened. */
const STORED = /^(.{1000})(\.\.\. sha256:.{64})$/su;

function firstCharacters(text: string, count: number): string {
  // A character has at most two units.
  return Array.from(text.slice(0, 2 * count))
    .slice(0, count)
    .join('');
}

/** The digit's value by character code; 0xff for any other character than a lower-case hexadecimal digit. */
const HEX_DIGITS = new Uint8Array(128).fill(0xff);
for (let digit = 0; digit < 16; digit++) HEX_DIGITS[digit.toString(16).charCodeAt(0)] = digit;

const DASH = '-';

/** @returns false where the text is no UUID in its usual form; the bytes written are then meaningless */
function writeUuid(text: string, bytes: Buffer, start: number): boolean {
  if (text[8] !== DASH || text[13] !== DASH || text[18] !== DASH || text[23] !== DASH) return false;
  let wrong = 0;
  let at = 0;
  for (let byte = 0; byte < UUID_BYTES; byte++) {
    if (byte === 4 || byte === 6 || byte === 8 || byte === 10) at++;
    const high = HEX_DIGITS[text.charCodeAt(at)] ?? 0xff;
    const low = HEX_DIGITS[text.charCodeAt(at + 1)] ?? 0xff;
    wrong |= high | low;
    bytes[start + byte] = (high << 4) | low;
    at += 2;
  }
  return wrong < 16;
}

/** Bound once: in Jest's sandbox, looking up a global takes longer than the arithmetic. */
const { imul } = Math;

/** Signed 32-bit integers, which V8 keeps without allocating an object for each. */
const FIRST_A = 0xdeadbeef | 0;
const FIRST_B = 0x41c6ce57;

/**
 * A hash of 53 bits over a sequence of values, for comparing contents, never for identity. It mixes two
 * 32-bit lanes as in cyrb53 (https://github.com/bryc/code/blob/master/jshash/experimental/cyrb53.js, public
 * domain).
 *
 * A mark ends each value, so that 'ab', 'c' differs from 'a', 'bc'.
 */
export class ContentHash {
  private a = FIRST_A;
  private b = FIRST_B;

  /** Discards the values that were added. */
  begin(): this {
    this.a = FIRST_A;
    this.b = FIRST_B;
    return this;
  }

  private mix(word: number): void {
    this.a = imul(this.a ^ word, 2654435761);
    this.b = imul(this.b ^ word, 1597334677);
  }

  text(text: string): this {
    let { a, b } = this;
    for (let i = 0; i < text.length; i++) {
      const unit = text.charCodeAt(i);
      a = imul(a ^ unit, 2654435761);
      b = imul(b ^ unit, 1597334677);
    }
    this.a = a;
    this.b = b;
    this.mix(TEXT_END);
    return this;
  }

  /** @param integer up to 2^53 */
  integer(integer: number): this {
    const low = integer | 0;
    const high = Math.floor(integer / 2 ** 32) | 0;
    // In halves of 16 bits: a multiplication carries nothing out of the highest bit, so two of those bits
    // could cancel out.
    this.mix(low & 0xffff);
    this.mix(low >>> 16);
    this.mix(high & 0xffff);
    this.mix(high >>> 16);
    this.mix(INTEGER_END);
    return this;
  }

  /** From 0 to 2^30 - 1. */
  value30(): number {
    const { a, b } = this;
    const mixed = imul(a ^ (a >>> 16), 2246822507) ^ imul(b ^ (b >>> 13), 3266489909);
    return (mixed ^ (mixed >>> 15)) >>> 2;
  }

  /** From 0 to 2^53 - 1. */
  value(): number {
    let { a, b } = this;
    a = imul(a ^ (a >>> 16), 2246822507) ^ imul(b ^ (b >>> 13), 3266489909);
    b = imul(b ^ (b >>> 16), 2246822507) ^ imul(a ^ (a >>> 13), 3266489909);
    return 2 ** 32 * (b & 0x1fffff) + (a >>> 0);
  }
}

/** Beyond any UTF-16 code unit. */
const TEXT_END = 0x10000;
const INTEGER_END = 0x10001;

/** The first 64 bits of the SHA-256 of bytes, as the signed number that the store keeps. */
export function hash64OfBytes(bytes: Uint8Array): bigint {
  return createHash('sha256').update(bytes).digest().readBigInt64BE(0);
}
