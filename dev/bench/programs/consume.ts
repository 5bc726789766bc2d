/**
 * The common part of the contenders that are plain kafkajs programs. A group reads a topic once, with the
 * worker's fetch settings. It prints when its partitions were assigned and when the last record was handled.
 */
import type { EachBatchPayload } from 'kafkajs';
import { FETCH } from '../../../src/kafka/consumer/membership';
import { quietKafka } from '../../servers/guest';
import { setting } from './settings';
import { type Span, writeSpan } from './span';

const STOPPED_EXIT_CODE = 143;

/**
 * @param handle handles a batch of one partition, and returns its number of records
 * @returns once `records` records were handled and their offsets are committed
 */
export async function consume(
  records: number,
  partitionsAtOnce: number,
  handle: (payload: EachBatchPayload) => Promise<number>,
): Promise<Span> {
  const kafka = quietKafka({ brokers: setting('KAFKA_BROKERS').split(',') });
  const consumer = kafka.consumer({ groupId: setting('KAFKA_GROUP_ID'), ...FETCH });
  let assignedAt = Number.NaN;
  consumer.on(consumer.events.GROUP_JOIN, () => {
    assignedAt = Date.now();
  });
  let seen = 0;
  let done = (): void => undefined;
  const all = new Promise<void>((resolve) => {
    done = resolve;
  });
  // On SIGTERM it leaves the group: a group without this member can be removed at once.
  process.once('SIGTERM', () => {
    consumer.disconnect().finally(() => process.exit(STOPPED_EXIT_CODE));
  });
  await consumer.connect();
  await consumer.subscribe({ topic: setting('TOPIC'), fromBeginning: true });
  await consumer.run({
    autoCommit: false,
    eachBatchAutoResolve: false,
    partitionsConsumedConcurrently: partitionsAtOnce,
    eachBatch: async (payload) => {
      const handled = await handle(payload);
      payload.resolveOffset(payload.batch.lastOffset());
      const offset = String(BigInt(payload.batch.lastOffset()) + 1n);
      const { topic, partition } = payload.batch;
      await payload.commitOffsetsIfNecessary({
        topics: [{ topic, partitions: [{ partition, offset }] }],
      });
      seen += handled;
      if (seen >= records) done();
    },
  });
  await all;
  const endedAt = Date.now();
  await consumer.disconnect();
  return { assignedAt, endedAt };
}

/** Runs a contender and prints its span as one line of JSON. */
export function play(contender: () => Promise<Span>): void {
  contender().then(writeSpan, (error: unknown) => {
    console.error(error);
    process.exit(1);
  });
}
