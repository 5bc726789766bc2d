/** Record batches as the product writes them. */

import type { StreamRecord } from '../../src/kafka/protocol/record';
import {
  type Compressor,
  MessageEncoder,
  type OutgoingMessage,
  RecordBatch,
} from '../../src/kafka/protocol/record-batch-writer';

/** The time of all written batches. */
export const WRITTEN_AT = 1_760_000_000_123;

/** The same messages in a batch of the right capacity, and in one that has to grow. */
export async function batchOf(messages: readonly OutgoingMessage[], compressor: Compressor | null = null) {
  const encoder = new MessageEncoder();
  const [roomy, narrow] = [new RecordBatch(100_000), new RecordBatch(0)];
  for (const message of messages) {
    roomy.add(encoder.encode(message));
    narrow.add(encoder.encode(message));
  }
  const batch = await roomy.take(WRITTEN_AT, compressor);
  expect((await narrow.take(WRITTEN_AT, compressor)).equals(batch)).toBe(true);
  return batch;
}

export const bytesOf = (content: string | Buffer) =>
  typeof content === 'string' ? Buffer.from(content) : content;

/** Bytes as a text, which Jest compares at once and not byte by byte. */
const latin = (content: string | Buffer | null | undefined) =>
  content === null || content === undefined ? null : bytesOf(content).toString('latin1');

/** The bytes that a reader has to get. */
export function asWritten({ key, value, headers }: OutgoingMessage) {
  return {
    key: latin(key),
    value: latin(value),
    headers: [...headers].map(([name, each]) => [name, latin(each)]),
  };
}

/** The bytes that a reader got. */
export function asRead(record: Pick<StreamRecord, 'key' | 'value' | 'headers'>) {
  return {
    key: latin(record.key),
    value: latin(record.value),
    headers: [...record.headers].map(([name, each]) => [name.toString(), latin(each)]),
  };
}
