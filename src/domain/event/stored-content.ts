/**
 * The content of a decided event as the store keeps it with the event's key: 64 bits, in one of two formats
 * (docs/rules.md, K4, K6).
 *
 * - Zero or more: the 53 bits of `contentHash`, which cover the player. It is the format of events decided
 * before the first month with a key for tags.
 * - Negative: 9 bits of month, 30 bits over everything but the player, 24 bits of the player's tag. A tag of
 * 0 means that there is no player, or that the player is erased.
 *
 * `promo.erase_player` removes the tag from the second format, and replaces the first format by FORGOTTEN.
 */
import { contentHashOf, type Hashed } from './content-hash';
import type { Fields } from './event';
import type { PlayerTags, Tagged } from './player-tag';

/** The parts of a delivery that are compared to find whether two deliveries have the same content. */
export interface Content extends Tagged, Hashed {
  readonly fields: Fields;
  /** A hash of everything but the player, from 0 to 2^30 - 1. */
  readonly restHash: number;
}

/**
 * Nothing is known of the content. It is the lowest number; no event's content has it, since its month would
 * be January 2020.
 */
export const FORGOTTEN = -(2n ** 63n);

const TAG_RANGE = 2 ** 24;
/** The number of values of `restHash`'s lowest bits, which share a half with the tag. */
const REST_LOW_RANGE = 2 ** 8;

/** The stored content as two halves of 32 bits. A bigint for each event costs more. */
export interface Halves {
  high: number;
  low: number;
}

/** Writes the stored form of an event's content into `halves`. */
export function packContent(content: Content, tags: PlayerTags, halves: Halves): void {
  const { month } = tags;
  if (month === null) {
    const contentHash = contentHashOf(content);
    halves.high = Math.floor(contentHash / 2 ** 32);
    halves.low = contentHash >>> 0;
    return;
  }
  const { restHash } = content;
  halves.high = 0x80000000 | (month << 22) | (restHash >>> 8);
  halves.low = ((restHash % REST_LOW_RANGE) * TAG_RANGE + shortTag(tags.of(content))) >>> 0;
}

/** The lowest bits of a tag, never 0. 0 means no tag. */
function shortTag(tag: number | null): number {
  return tag === null ? 0 : tag % TAG_RANGE || 1;
}

/**
 * Whether a delivery certainly differs from a stored content. Erased parts, and parts dropped with their
 * month, are not compared.
 */
export function differsFromStored(stored: bigint, content: Content, tags: PlayerTags): boolean {
  if (stored >= 0n) return Number(stored) !== contentHashOf(content);
  if (stored === FORGOTTEN) return false;
  if (Number(BigInt.asUintN(30, stored >> 24n)) !== content.restHash) return true;
  const stored24 = Number(BigInt.asUintN(24, stored));
  const month = Number(BigInt.asUintN(9, stored >> 54n));
  if (stored24 === 0) return false;
  const tag = tags.ofMonth(month, content);
  return tag !== null && shortTag(tag) !== stored24;
}
