/**
 * A player's tag: a hash that shows whether two deliveries, or two events of a round, name different players
 * (docs/rules.md, K6).
 *
 * The tag is keyed. The store has a random key for each month, and retention drops the key with the month.
 * Without the key a tag confirms no guess of a player. Erasure drops the tags of the erased player
 * themselves, since their key remains.
 */

import { hash as sha256 } from 'node:crypto';

/** The key of one month: four words of 32 bits. */
export type PlayerKey = readonly [number, number, number, number];

const KEY_BYTES = 16;

/** @returns undefined where the bytes are no key */
export function playerKeyOf(bytes: Buffer): PlayerKey | undefined {
  if (bytes.length !== KEY_BYTES) return undefined;
  return [bytes.readInt32LE(0), bytes.readInt32LE(4), bytes.readInt32LE(8), bytes.readInt32LE(12)];
}

/** Months are counted from January 2020; the numbers repeat after August 2062. */
const FIRST_YEAR = 2020;
const MONTHS = 512;

/**
 * The number of a month, from 0 to 511.
 * @param month from 1 to 12
 */
export function monthNo(year: number, month: number): number {
  return ((year - FIRST_YEAR) * 12 + month - 1) % MONTHS;
}

/**
 * The number of the month (UTC) of a time.
 * @param micros microseconds since 1970
 */
export function monthOf(micros: bigint): number {
  const date = new Date(Number(micros / 1000n));
  return monthNo(date.getUTCFullYear(), date.getUTCMonth() + 1);
}

/**
 * A tag is the number of its month followed by 44 bits of hash. It is below 2^53, so it is exact as a number.
 */
const HASH_RANGE = 2 ** 44;
const HIGH_BITS = 0xfff;

export function monthOfTag(tag: number): number {
  return Math.floor(tag / HASH_RANGE);
}

/** An event whose player has a tag. */
export interface Tagged {
  readonly eventId: string;
  readonly fields: { readonly roundId: string | null; readonly playerRef: string | null };
  /** The event's tag, cached because both the round and the event's key use it. Null until it is made. */
  playerTag: number | null;
}

/**
 * The salt, which makes the tags of one player differ: the round, whose events share a tag, or else the
 * event.
 */
const saltOf = ({ eventId, fields: { roundId } }: Tagged) => roundId ?? eventId;

/** Makes the tags of one batch. */
export class PlayerTags {
  /** The month of the batch. Null where that month has no key; then no tags are made. */
  readonly month: number | null;

  /**
   * @param keys by number of month
   * @param month the month in which the batch is decided
   */
  constructor(
    private readonly keys: ReadonlyMap<number, PlayerKey>,
    month: number,
  ) {
    this.month = keys.has(month) ? month : null;
  }

  /**
   * The tag of a new event or round.
   *
   * @param salt makes the tags of one player differ
   * @returns null without a player, and in a month without tags
   */
  make(salt: string, player: string | null): number | null {
    return this.month === null ? null : this.makeFor(this.month, salt, player);
  }

  /** The tag of an event; null without a player, and in a month without tags. */
  of(event: Tagged): number | null {
    const { month } = this;
    if (month === null) return null;
    // A retried batch may be decided in the next month.
    if (event.playerTag === null || monthOfTag(event.playerTag) !== month)
      event.playerTag = this.makeFor(month, saltOf(event), event.fields.playerRef);
    return event.playerTag;
  }

  /**
   * The tag that the event would have in another month; null without a player, and where the month has no key
   * any more.
   */
  ofMonth(month: number, event: Tagged): number | null {
    return month === this.month ? this.of(event) : this.makeFor(month, saltOf(event), event.fields.playerRef);
  }

  /** The tag of a player in any month; null without a player, and where the month has no key any more. */
  makeFor(month: number, salt: string, player: string | null): number | null {
    const key = player === null ? undefined : this.keys.get(month);
    return key === undefined || player === null ? null : tagOf(key, month, salt, player);
  }

  /** Whether a stored tag is this player's; null where its key is gone. */
  matches(tag: number, salt: string, player: string): boolean | null {
    const made = this.makeFor(monthOfTag(tag), salt, player);
    return made === null ? null : made === tag;
  }
}

/** The tags of a store without keys. */
export const NO_TAGS = new PlayerTags(new Map(), 0);

/**
 * An id may be as long as a record. Hashing the digest of a longer id than this takes a tenth of the time.
 */
const MAX_SALT = 1_000;

function tagOf(key: PlayerKey, month: number, salt: string, player: string): number {
  const words = addText(addText(0, salt.length > MAX_SALT ? sha256('sha256', salt) : salt), player);
  sipHash(key, message, words, half);
  return month * HASH_RANGE + (half.high & HIGH_BITS) * 2 ** 32 + (half.low >>> 0);
}

/** One message for all tags. A valid player has at most 255 bytes. */
const message = new Int32Array(1_024);
const half = { high: 0, low: 0 };

/**
 * Writes a text into the message: one byte a character where all are ASCII, else two bytes a UTF-16 unit. The
 * length and the form follow, so that 'ab', 'c' differs from 'a', 'bc'.
 *
 * @returns the number of words that the message has now
 */
function addText(words: number, text: string): number {
  const { length } = text;
  let at = words;
  let all = 0;
  let word = 0;
  for (let i = 0; i < length; i++) {
    const unit = text.charCodeAt(i);
    all |= unit;
    word |= unit << ((i & 3) << 3);
    if ((i & 3) === 3) {
      message[at++] = word;
      word = 0;
    }
  }
  const isWide = all > MAX_ASCII;
  if (isWide) {
    at = words;
    for (let i = 0; i < length; i += 2)
      message[at++] = text.charCodeAt(i) | (i + 1 < length ? text.charCodeAt(i + 1) << 16 : 0);
  } else if ((length & 3) !== 0) message[at++] = word;
  message[at++] = length * 2 + (isWide ? 1 : 0);
  return at;
}

const MAX_ASCII = 0x7f;

/**
 * SipHash-1-3 with a key of 128 bits (https://www.aumasson.jp/siphash/siphash.pdf): a keyed hash that does
 * not reveal its key. It takes a tenth of the time of an HMAC.
 *
 * Each 64-bit word is two signed halves, in variables of one function: V8 keeps them in registers.
 *
 * @param count the number of 32-bit words of the message
 */
export function sipHash(
  [k0, k1, k2, k3]: PlayerKey,
  words: Int32Array,
  count: number,
  hash: { high: number; low: number },
): void {
  let a0 = k0 ^ 0x70736575;
  let a1 = k1 ^ 0x736f6d65;
  let b0 = k2 ^ 0x6e646f6d;
  let b1 = k3 ^ 0x646f7261;
  let c0 = k0 ^ 0x6e657261;
  let c1 = k1 ^ 0x6c796765;
  let d0 = k2 ^ 0x79746573;
  let d1 = k3 ^ 0x74656462;
  // The last block ends with the number of bytes. Each block takes one round; three more follow at the end.
  const blocks = (count >> 1) + 1;
  for (let round = 0; round < blocks + 3; round++) {
    let m0 = 0;
    let m1 = 0;
    if (round < blocks) {
      const at = round << 1;
      const isLast = round === blocks - 1;
      m0 = at < count ? (words[at] ?? 0) : 0;
      m1 = isLast ? ((count << 2) & 0xff) << 24 : (words[at + 1] ?? 0);
      d0 ^= m0;
      d1 ^= m1;
    } else if (round === blocks) c0 ^= 0xff;

    let low = (a0 >>> 0) + (b0 >>> 0);
    a1 = (a1 + b1 + (low > MAX_WORD ? 1 : 0)) | 0;
    a0 = low | 0;
    let turned = (b1 << 13) | (b0 >>> 19);
    b0 = ((b0 << 13) | (b1 >>> 19)) ^ a0;
    b1 = turned ^ a1;
    turned = a0;
    a0 = a1;
    a1 = turned;

    low = (c0 >>> 0) + (d0 >>> 0);
    c1 = (c1 + d1 + (low > MAX_WORD ? 1 : 0)) | 0;
    c0 = low | 0;
    turned = (d1 << 16) | (d0 >>> 16);
    d0 = ((d0 << 16) | (d1 >>> 16)) ^ c0;
    d1 = turned ^ c1;

    low = (a0 >>> 0) + (d0 >>> 0);
    a1 = (a1 + d1 + (low > MAX_WORD ? 1 : 0)) | 0;
    a0 = low | 0;
    turned = (d1 << 21) | (d0 >>> 11);
    d0 = ((d0 << 21) | (d1 >>> 11)) ^ a0;
    d1 = turned ^ a1;

    low = (c0 >>> 0) + (b0 >>> 0);
    c1 = (c1 + b1 + (low > MAX_WORD ? 1 : 0)) | 0;
    c0 = low | 0;
    turned = (b1 << 17) | (b0 >>> 15);
    b0 = ((b0 << 17) | (b1 >>> 15)) ^ c0;
    b1 = turned ^ c1;
    turned = c0;
    c0 = c1;
    c1 = turned;

    a0 ^= m0;
    a1 ^= m1;
  }
  hash.low = a0 ^ b0 ^ c0 ^ d0;
  hash.high = a1 ^ b1 ^ c1 ^ d1;
}

const MAX_WORD = 0xffffffff;
