/** Where a group stands in its partitions, for `verify`: what it committed, what Kafka still has, and which records lie between two offsets. */
import { randomBytes } from 'node:crypto';
import type { Kafka } from 'kafkajs';
import type { Logger } from 'pino';
import { NEVER, systemClock } from '../clock';
import type { Source } from '../intake';
import { makeCommittedOffsets, watermarks } from './drain';
import { connectedAdmin } from './kafka';
import { makeKafkaSource } from './kafka-source';
import { type Chunk, keyOf } from './record-source';

/** Reading what lies between two offsets, joining a group included. */
const READ_WITHIN_MS = 60_000;
const READ_CHECK_MS = 50;

export interface Position extends Source {
  /** The first offset that Kafka still has, and one past the last. */
  readonly low: number;
  readonly high: number;
  /** How far the group has committed; null where it has not. */
  readonly committed: number | null;
}

/** The positions of a group in those of the topics that exist. What it committed is read first: the ends can only be beyond it. */
export async function readPositions(
  kafka: Kafka,
  groupId: string,
  topics: readonly string[],
): Promise<Position[]> {
  const existing = [...new Set((await watermarks(kafka, topics)).map(({ topic }) => topic))];
  const offsets = makeCommittedOffsets(kafka, groupId);
  try {
    const found = existing.length === 0 ? [] : await offsets.read(existing);
    const committed = new Map(found.map((position) => [keyOf(position), position.offset]));
    const ends = await watermarks(kafka, existing);
    return ends.map(({ topic, partition, low, offset: high }) => {
      const offset = committed.get(keyOf({ topic, partition })) ?? -1;
      return { topic, partition, low, high, committed: offset < 0 ? null : offset };
    });
  } finally {
    await offsets.close();
  }
}

/** Offsets of a partition from `from` on, up to but without `to`. */
export interface Range extends Source {
  readonly from: number;
  readonly to: number;
}

/**
 * The offsets of the records in the ranges that a worker would read: no markers, no records of aborted transactions.
 *
 * Reads as a group of its own, which is gone afterwards, so that the worker's own group is not disturbed.
 *
 * @returns by `keyOf`
 * @throws where Kafka does not give them within a minute
 */
export async function readableOffsets(
  kafka: Kafka,
  groupId: string,
  ranges: readonly Range[],
  logger: Logger,
): Promise<Map<string, number[]>> {
  const group = `${groupId}.verify-${randomBytes(6).toString('hex')}`;
  const topics = [...new Set(ranges.map(({ topic }) => topic))];
  const wanted = new Map(ranges.map((range) => [keyOf(range), range]));
  const found = new Map<string, number[]>(ranges.map((range) => [keyOf(range), []]));
  const reached = new Map<string, number>();
  const admin = await connectedAdmin(kafka);
  try {
    const ends = await watermarks(kafka, topics);
    for (const topic of topics) {
      const partitions = ends
        .filter((end) => end.topic === topic)
        // Nothing of the partitions that are not asked for.
        .map((end) => ({
          partition: end.partition,
          offset: String(wanted.get(keyOf(end))?.from ?? end.offset),
        }));
      await admin.setOffsets({ groupId: group, topic, partitions });
    }
    let opening: Promise<void> = Promise.resolve();
    const take = async (chunk: Chunk) => {
      const range = wanted.get(keyOf(chunk));
      if (range === undefined) return;
      const cursor = await chunk.open();
      for (let record = cursor.next(); record !== null; record = cursor.next()) {
        if (record.offset < range.to) found.get(keyOf(range))?.push(record.offset);
      }
      reached.set(keyOf(range), chunk.nextOffset);
      if (chunk.nextOffset >= range.to) source.pause(range);
    };
    let failure: unknown;
    const source = makeKafkaSource(
      kafka,
      {
        groupId: group,
        wantedTopics: async () => topics,
        onFatal: (error) => {
          failure = error;
        },
      },
      logger,
    );
    await source.start({
      assigned: () => undefined,
      active: () => undefined,
      end: () => undefined,
      setByOthers: () => undefined,
      passedOver: () => undefined,
      rebalanced: () => undefined,
      chunk: (chunk) => {
        opening = opening
          .then(() => take(chunk))
          .catch((error: unknown) => {
            failure = error;
          });
      },
    });
    try {
      const giveUpAt = systemClock.now() + READ_WITHIN_MS;
      const isRead = () => ranges.every((range) => (reached.get(keyOf(range)) ?? -1) >= range.to);
      while (!isRead()) {
        if (failure !== undefined) throw failure;
        if (systemClock.now() > giveUpAt)
          throw new Error(`Kafka did not give the records within ${READ_WITHIN_MS} ms`);
        await systemClock.sleep(READ_CHECK_MS, NEVER);
      }
    } finally {
      await source.stop();
    }
    return found;
  } finally {
    await admin.deleteGroups([group]).catch((error: unknown) => {
      logger.warn({ group, error: String(error) }, 'a group without members could not be deleted');
    });
    await admin.disconnect();
  }
}
