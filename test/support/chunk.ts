/** Chunks of records as a source hands them over. */

import type { Chunk } from '../../src/kafka/port';
import type { StreamRecord } from '../../src/kafka/protocol/record';
import type { TopicPartition } from '../../src/lib/topic-partition';

/** The fields of a record that follow from its value. */
export const aValue = (
  value: Buffer | null,
): Pick<StreamRecord, 'value' | 'size' | 'firstByte' | 'payload'> => ({
  value,
  size: value?.length ?? 0,
  firstByte: value?.[0],
  payload: { type: 'json', bytes: value },
});

/** The same as if the value were framed, so that the test's decoder gets it. */
export const aFramedValue = (value: Buffer | null): ReturnType<typeof aValue> => ({
  ...aValue(value),
  firstByte: value === null ? undefined : 0,
});

/** A record without key and headers. */
export const streamRecord = (offset: number, value: Buffer | null = Buffer.from('{}')): StreamRecord => ({
  offset,
  ...aFramedValue(value),
  key: null,
  headers: [],
  claims: [],
  timestamp: '0',
});

/**
 * A chunk with as many bytes as the values of its records.
 * @param openedBytes additional bytes once it is decompressed
 */
export function chunkOf(
  source: TopicPartition,
  records: readonly StreamRecord[],
  nextOffset = (records.at(-1)?.offset ?? -1) + 1,
  openedBytes = 0,
): Chunk {
  return {
    ...source,
    bytes: records.reduce((sum, { value }) => sum + (value?.length ?? 0), 0),
    nextOffset,
    open(from = 0) {
      const left = records.filter(({ offset }) => offset >= from).values();
      return { bytes: openedBytes, next: () => left.next().value ?? null };
    },
  };
}
