/** Packs messages into one record batch for each partition. */
import type { PartitionChooser } from './partition-chooser';
import type { EncodedMessage, RecordBatch } from './protocol/record-batch-writer';

/** The message to send for an item; null to send none. */
export type Encode<T> = (item: T) => EncodedMessage | null;

export interface PartitionBatch<T> {
  readonly partition: number;
  readonly items: T[];
  readonly records: RecordBatch;
}

/** Half of the default limit of brokers, so that only a single message can be too large for them. */
export const MOST_BATCH_BYTES = 512 * 1024;

/**
 * The messages of the first items by partition, until one batch is full: at most MOST_BATCH_BYTES, or one
 * larger message.
 *
 * @param newBatch an empty batch with room for its likely bytes
 * @returns the batches, and the number of items in them
 */
export function firstBatches<T>(
  items: readonly T[],
  encode: Encode<T>,
  choose: PartitionChooser,
  newBatch: () => RecordBatch,
): { batches: readonly PartitionBatch<T>[]; taken: number } {
  const byPartition = new Map<number, PartitionBatch<T>>();
  for (const [index, item] of items.entries()) {
    const message = encode(item);
    if (message === null) continue;
    const { bytes, keyFrom, keyTo } = message;
    const partition = message.partition ?? choose(keyFrom === null ? null : bytes, keyFrom ?? 0, keyTo);
    let batch = byPartition.get(partition);
    if (batch === undefined) {
      batch = { partition, items: [], records: newBatch() };
      byPartition.set(partition, batch);
    } else if (batch.records.bytes + bytes.length > MOST_BATCH_BYTES)
      return { batches: [...byPartition.values()], taken: index };
    batch.items.push(item);
    batch.records.add(message);
  }
  return { batches: [...byPartition.values()], taken: items.length };
}
