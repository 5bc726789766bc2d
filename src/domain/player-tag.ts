/**
 * A player's tag: a hash by which two deliveries, or two events of a round, are told to name another player (docs/rules.md, K6).
 *
 * The tag is keyed. Each month has a random key in the store, and retention drops the key with the month. Without the key a tag confirms no
 * guess of a player. Erasure drops the tags of the erased player themselves, since their key stays.
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

/** Number of a month, from 0 to 511. @param month from 1 to 12 */
export function monthNo(year: number, month: number): number {
  return ((year - FIRST_YEAR) * 12 + month - 1) % MONTHS;
}

/** Number of the month (UTC) of a time. @param micros microseconds since 1970 */
export function monthOf(micros: bigint): number {
  const date = new Date(Number(micros / 1000n));
  return monthNo(date.getUTCFullYear(), date.getUTCMonth() + 1);
}

/** A tag is 44 bits of hash behind the number of its month: fewer than 2^53, so that it is exact as a number. */
const HASH_RANGE = 2 ** 44;
const HIGH_BITS = 0xfff;

export function monthOfTag(tag: number): number {
  return Math.floor(tag / HASH_RANGE);
}

/** Makes the tags of one batch. */
export class PlayerTags {
  /** The month of the batch; null where that month has no key, and no tags are made. */
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
   * @param salt tells the tags of one player apart
   * @returns null without a player, and in a month without tags
   */
  make(salt: string, player: string | null): number | null {
    return this.month === null ? null : this.makeFor(this.month, salt, player);
  }

  /** The tag that another month would have made; null without a player, and where the month's key is gone. */
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

/** Tags of a store that has no keys. */
export const NO_TAGS = new PlayerTags(new Map(), 0);

/** An id may be as long as a record. Beyond this many characters its digest is in its place, which takes a tenth of the time. */
const MAX_SALT = 1_000;

function tagOf(key: PlayerKey, month: number, salt: string, player: string): number {
  hash.begin(key);
  hash.text(salt.length > MAX_SALT ? sha256('sha256', salt) : salt);
  hash.text(player);
  hash.end();
  return month * HASH_RANGE + (hash.high & HIGH_BITS) * 2 ** 32 + (hash.low >>> 0);
}

/**
 * SipHash-1-3 with a key of 128 bits (https://www.aumasson.jp/siphash/siphash.pdf): a keyed hash that does not give away its key, and takes
 * a tenth of the time of an HMAC. Each 64-bit word is two signed 32-bit halves, which V8 keeps without an object for each.
 */
export class SipHash {
  private a0 = 0;
  private a1 = 0;
  private b0 = 0;
  private b1 = 0;
  private c0 = 0;
  private c1 = 0;
  private d0 = 0;
  private d1 = 0;
  private bytes = 0;
  /** Units that wait for their word to be full, and how many. */
  private wait0 = 0;
  private wait1 = 0;
  private waiting = 0;
  /** The hash, once it has ended. */
  low = 0;
  high = 0;

  begin([k0, k1, k2, k3]: PlayerKey): void {
    this.a0 = k0 ^ 0x70736575;
    this.a1 = k1 ^ 0x736f6d65;
    this.b0 = k2 ^ 0x6e646f6d;
    this.b1 = k3 ^ 0x646f7261;
    this.c0 = k0 ^ 0x6e657261;
    this.c1 = k1 ^ 0x6c796765;
    this.d0 = k2 ^ 0x79746573;
    this.d1 = k3 ^ 0x74656462;
    this.bytes = 0;
    this.wait0 = 0;
    this.wait1 = 0;
    this.waiting = 0;
  }

  /** Adds the UTF-16 units of a text, two bytes each with the lower one first, and then its length, so that 'ab', 'c' is not 'a', 'bc'. */
  text(text: string): void {
    const { length } = text;
    for (let i = 0; i < length; i++) this.unit(text.charCodeAt(i));
    this.unit(length & 0xffff);
    this.unit(length >>> 16);
  }

  /** Adds two bytes. */
  unit(unit: number): void {
    switch (this.waiting) {
      case 0:
        this.wait0 = unit;
        this.waiting = 1;
        return;
      case 1:
        this.wait0 |= unit << 16;
        this.waiting = 2;
        return;
      case 2:
        this.wait1 = unit;
        this.waiting = 3;
        return;
      default:
        this.word(this.wait0, this.wait1 | (unit << 16));
        this.wait0 = 0;
        this.wait1 = 0;
        this.waiting = 0;
    }
  }

  private word(m0: number, m1: number): void {
    this.bytes += 8;
    this.d0 ^= m0;
    this.d1 ^= m1;
    this.rounds(1);
    this.a0 ^= m0;
    this.a1 ^= m1;
  }

  end(): void {
    const length = this.bytes + 2 * this.waiting;
    this.word(this.wait0, (this.waiting === 3 ? this.wait1 : 0) | ((length & 0xff) << 24));
    this.c0 ^= 0xff;
    this.rounds(3);
    this.low = this.a0 ^ this.b0 ^ this.c0 ^ this.d0;
    this.high = this.a1 ^ this.b1 ^ this.c1 ^ this.d1;
  }

  private rounds(count: number): void {
    let { a0, a1, b0, b1, c0, c1, d0, d1 } = this;
    for (let round = 0; round < count; round++) {
      let low = (a0 >>> 0) + (b0 >>> 0);
      a1 = (a1 + b1 + (low > 0xffffffff ? 1 : 0)) | 0;
      a0 = low | 0;
      let high = (b1 << 13) | (b0 >>> 19);
      b0 = ((b0 << 13) | (b1 >>> 19)) ^ a0;
      b1 = high ^ a1;
      high = a0;
      a0 = a1;
      a1 = high;

      low = (c0 >>> 0) + (d0 >>> 0);
      c1 = (c1 + d1 + (low > 0xffffffff ? 1 : 0)) | 0;
      c0 = low | 0;
      high = (d1 << 16) | (d0 >>> 16);
      d0 = ((d0 << 16) | (d1 >>> 16)) ^ c0;
      d1 = high ^ c1;

      low = (a0 >>> 0) + (d0 >>> 0);
      a1 = (a1 + d1 + (low > 0xffffffff ? 1 : 0)) | 0;
      a0 = low | 0;
      high = (d1 << 21) | (d0 >>> 11);
      d0 = ((d0 << 21) | (d1 >>> 11)) ^ a0;
      d1 = high ^ a1;

      low = (c0 >>> 0) + (b0 >>> 0);
      c1 = (c1 + b1 + (low > 0xffffffff ? 1 : 0)) | 0;
      c0 = low | 0;
      high = (b1 << 17) | (b0 >>> 15);
      b0 = ((b0 << 17) | (b1 >>> 15)) ^ c0;
      b1 = high ^ c1;
      high = c0;
      c0 = c1;
      c1 = high;
    }
    this.a0 = a0;
    this.a1 = a1;
    this.b0 = b0;
    this.b1 = b1;
    this.c0 = c0;
    this.c1 = c1;
    this.d0 = d0;
    this.d1 = d1;
  }
}

/** One for all, begun anew for each tag. */
const hash = new SipHash();
