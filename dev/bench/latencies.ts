/**
 * Latency of records, from their scheduled send to the answered commit. Joins the sends of a producer with
 * the log of a worker.
 */
import type { Weighted } from './statistics';

/** Consecutive records of one tick and one partition. */
export interface Sent {
  /** Milliseconds since 1970. */
  readonly scheduledAt: number;
  readonly partition: number;
  readonly baseOffset: number;
  readonly count: number;
}

/** A decided batch of a partition: every record before `nextOffset`. */
export interface DecidedUpTo {
  /** Milliseconds since 1970, after the commit was answered. */
  readonly at: number;
  readonly partition: number;
  readonly nextOffset: number;
}

/**
 * @returns latencies in milliseconds, one entry for the records of a tick in a batch
 * @throws if a record was not decided
 */
export function latenciesOf(sent: readonly Sent[], decided: readonly DecidedUpTo[]): Weighted[] {
  const latencies: Weighted[] = [];
  const batchesOf = Map.groupBy(decided, ({ partition }) => partition);
  for (const [partition, sends] of Map.groupBy(sent, (each) => each.partition)) {
    const batches = (batchesOf.get(partition) ?? []).toSorted((a, b) => a.at - b.at);
    let index = 0;
    for (const { scheduledAt, baseOffset, count } of sends.toSorted((a, b) => a.baseOffset - b.baseOffset)) {
      const end = baseOffset + count;
      for (let offset = baseOffset; offset < end; ) {
        const batch = batches[index];
        if (batch === undefined)
          throw new Error(`offset ${offset} of partition ${partition} was not decided`);
        if (batch.nextOffset <= offset) index++;
        else {
          const next = Math.min(end, batch.nextOffset);
          latencies.push({ value: batch.at - scheduledAt, count: next - offset });
          offset = next;
        }
      }
    }
  }
  return latencies;
}
