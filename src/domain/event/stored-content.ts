/**
 * The content of a decided event as its key has it: 64 bits, in one of two formats (docs/rules.md, K4, K6).
 *
 * - Zero or more: the 53 bits of `contentHash`, which cover the player. Events decided before the first month that has a key for tags.
 * - Negative: 9 bits of month, 30 bits over everything but the player, 24 bits of the player's tag. A tag of 0 says nothing of the player:
 *   there is none, or the player is erased.
 *
 * `promo.erase_player` takes the tag out of the second format, and replaces the first by FORGOTTEN.
 */
import { contentHashOf, type Hashed } from './content-hash';
import type { Fields } from './event';
import type { PlayerTags, Tagged } from './player-tag';

/** What decides whether two deliveries have the same content. */
export interface Content extends Tagged, Hashed {
  readonly fields: Fields;
  /** Over everything but the player, from 0 to 2^30 - 1. */
  readonly restHash: number;
}

/** The lowest of all: nothing is known of the content. No event has it, since its month would be January 2020. */
export const FORGOTTEN = -(2n ** 63n);

const TAG_RANGE = 2 ** 24;
/** The rest's lowest bits, which are in the same half as the tag. */
const REST_LOW_RANGE = 2 ** 8;

/** What is stored, as two halves of 32 bits: a bigint for each event costs more. */
export interface Halves {
  high: number;
  low: number;
}

/** Writes what is stored of an event's content into `halves`. */
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

/** The lowest bits of a tag, never 0; 0 for no tag. */
function shortTag(tag: number | null): number {
  return tag === null ? 0 : tag % TAG_RANGE || 1;
}

/** Whether a delivery is known to differ from a stored content. What was erased, or dropped with its month, is not compared. */
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
