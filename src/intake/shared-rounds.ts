/**
 * Notices whether records of different partitions share rounds, as with random Kafka keys. A sample of rounds
 * is remembered with the partition of their last event.
 */
import type { Item } from '../domain/verdict/decide';

/** One round of this many is in the sample. */
const SAMPLED_OF = 16;
/** The places of the sample. A round keeps its place until another round takes it. */
const SAMPLED_ROUNDS = 512;
/** A longer id is not remembered: a sender chooses its length. */
const MAX_ID_LENGTH = 256;
/** The characters of a round id that choose its place: the last ones, which differ most. */
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
  /** Rounds with the partitions of their last events. */
  const sample: { readonly roundId: string; readonly partitionNo: number }[] = [];
  let changing = 0;
  return {
    observe(items) {
      for (const item of items) {
        if (item.type !== 'keyed' || item.source === null) continue;
        const { roundId } = item.fields;
        if (roundId === null || roundId.length > MAX_ID_LENGTH) continue;
        const place = hashOf(roundId) % (SAMPLED_ROUNDS * SAMPLED_OF);
        if (place >= SAMPLED_ROUNDS) continue;
        const { partitionNo } = item.source;
        const before = sample[place];
        if (before?.roundId === roundId)
          changing += ((before.partitionNo === partitionNo ? 0 : 1) - changing) * WEIGHT;
        sample[place] = { roundId, partitionNo };
      }
    },
    areShared: () => changing >= SHARED_FROM,
  };
}

function hashOf(roundId: string): number {
  let hash = 0;
  for (let index = Math.max(0, roundId.length - HASHED_CHARS); index < roundId.length; index++)
    hash = (Math.imul(hash, 31) + roundId.charCodeAt(index)) | 0;
  return hash >>> 0;
}
