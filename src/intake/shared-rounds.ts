/**
 * Notices whether records of different partitions share rounds, as with random Kafka keys. A sample of rounds
 * is remembered with the partition of their last event.
 */
import type { Item } from '../domain/verdict/decide';

/** One round of this many is in the sample. */
const SAMPLED_OF = 16;
/** Rounds that are remembered; the one seen first is forgotten first. */
const MAX_ROUNDS = 512;
/** A longer id is not remembered: a sender chooses its length. */
const MAX_ID_LENGTH = 256;
/** The characters of a round id that choose the sample: the last ones, which differ most. */
const HASHED_CHARS = 12;
/**
 * Rounds are shared where this part of the events that continue a round come by another partition. Without
 * keys, a producer sends some 50 records to a partition before the next, and so splits few rounds. Batches
 * side by side would still wait for one another in each.
 */
const SHARED_FROM = 1 / 32;
/** The weight of an event that continues a sampled round, in the moving average. */
const WEIGHT = 1 / 64;

export interface SharedRounds {
  /** Notes the rounds of a batch, part by part. */
  observe(items: readonly Item[]): void;
  areShared(): boolean;
}

export function makeSharedRounds(): SharedRounds {
  /** The partition of the last event, by round. */
  const partitionOf = new Map<string, number>();
  let changing = 0;
  return {
    observe(items) {
      for (const item of items) {
        if (item.type !== 'keyed' || item.source === null) continue;
        const { roundId } = item.fields;
        if (roundId === null || roundId.length > MAX_ID_LENGTH || !isSampled(roundId)) continue;
        const { partitionNo } = item.source;
        const before = partitionOf.get(roundId);
        if (before !== undefined) changing += ((before === partitionNo ? 0 : 1) - changing) * WEIGHT;
        partitionOf.set(roundId, partitionNo);
        if (partitionOf.size > MAX_ROUNDS)
          for (const oldest of partitionOf.keys()) {
            partitionOf.delete(oldest);
            break;
          }
      }
    },
    areShared: () => changing >= SHARED_FROM,
  };
}

function isSampled(roundId: string): boolean {
  let hash = 0;
  for (let index = Math.max(0, roundId.length - HASHED_CHARS); index < roundId.length; index++)
    hash = (Math.imul(hash, 31) + roundId.charCodeAt(index)) | 0;
  return (hash >>> 0) % SAMPLED_OF === 0;
}
