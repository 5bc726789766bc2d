/**
 * Divides messages among the partitions of a topic: chooses the partition of each as Java producers do, and
 * packs one record batch for each partition.
 */
import type { Kafka } from 'kafkajs';
import { connectedAdmin } from './client/client';
import { KafkaProblem, noTopic } from './client/errors';
import type { ManyTopics, TopicPartitions } from './client/patches/many-topics';
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

/** Added partitions are used within this time. */
const METADATA_MAX_AGE_MS = 300_000;

/** @param key a buffer that holds the key from `from` to `to` */
export type PartitionChooser = (key: Buffer | null, from?: number, to?: number) => number;

/** The partition choosers of a producer. */
export interface Choosers {
  /** @throws where the topic does not exist */
  of(topic: string): Promise<PartitionChooser>;
  /** Asks the brokers again at the next call. */
  forget(topic: string): void;
}

/** Caches a partition chooser for each topic. */
export function makeChoosers(kafka: Kafka): Choosers {
  const known = new Map<string, { choose: PartitionChooser; since: number }>();
  return {
    async of(topic) {
      const found = known.get(topic);
      if (found !== undefined && Date.now() - found.since < METADATA_MAX_AGE_MS) return found.choose;
      const choose = await partitionChooser(kafka, topic);
      if (choose === null) throw new KafkaProblem(noTopic(topic));
      known.set(topic, { choose, since: Date.now() });
      return choose;
    },
    forget(topic) {
      known.delete(topic);
    },
  };
}

/** The partition choosers of a producer to many topics. */
export interface ChoosersOfMany extends Choosers {
  /** The chooser of a topic in the newest metadata, without a wait; null where only `of` may find one. */
  known(topic: string): PartitionChooser | null;
  /** Asks the brokers for the metadata where it is old. */
  refresh(): Promise<void>;
}

type Metadata = Pick<ManyTopics, 'partitionsOf' | 'knownPartitionsOf' | 'refreshIfOld'>;

/**
 * Choosers from the metadata of a producer of many topics.
 *
 * @param create creates a missing topic @throws where it may not
 */
export function makeChoosersOfMany(
  { partitionsOf, knownPartitionsOf, refreshIfOld }: Metadata,
  create: ((topic: string) => Promise<void>) | undefined,
): ChoosersOfMany {
  const made = new Map<string, { partitions: TopicPartitions; choose: PartitionChooser }>();
  const forgotten = new Set<string>();
  const creating = new Map<string, Promise<void>>();
  /** Partitions that miss the same topic at once wait for one creation. */
  const createOnce = (topic: string, by: (topic: string) => Promise<void>): Promise<void> => {
    const running = creating.get(topic) ?? by(topic).finally(() => creating.delete(topic));
    creating.set(topic, running);
    return running;
  };
  const among = (topic: string, partitions: TopicPartitions): PartitionChooser => {
    const found = made.get(topic);
    if (found?.partitions === partitions) return found.choose;
    const choose = chooserOf(partitions);
    made.set(topic, { partitions, choose });
    return choose;
  };
  return {
    async of(topic) {
      let partitions = await partitionsOf(topic, forgotten.delete(topic));
      if (partitions.length === 0) partitions = await partitionsOf(topic, true);
      if (partitions.length === 0 && create !== undefined) {
        await createOnce(topic, create);
        partitions = await partitionsOf(topic, true);
      }
      if (partitions.length === 0) throw new KafkaProblem(noTopic(topic));
      return among(topic, partitions);
    },
    known(topic) {
      const partitions = forgotten.has(topic) ? [] : knownPartitionsOf(topic);
      return partitions.length === 0 ? null : among(topic, partitions);
    },
    refresh: refreshIfOld,
    forget(topic) {
      forgotten.add(topic);
    },
  };
}

/**
 * Chooses the partition of a key as Java producers do. Without a key, takes turns among the partitions that
 * have a leader. Null where the topic does not exist.
 */
export async function partitionChooser(kafka: Kafka, topic: string): Promise<PartitionChooser | null> {
  const admin = await connectedAdmin(kafka);
  try {
    if (!(await admin.listTopics()).includes(topic)) return null;
    const { topics } = await admin.fetchTopicMetadata({ topics: [topic] });
    return chooserOf(topics.find(({ name }) => name === topic)?.partitions ?? []);
  } finally {
    await admin.disconnect();
  }
}

/** @param partitions of the topic, each with the broker that leads it; less than 0 for none */
export function chooserOf(
  partitions: readonly { readonly partitionId: number; readonly leader: number }[],
): PartitionChooser {
  const led = partitions.filter(({ leader }) => leader >= 0);
  let turn = 0;
  return (key, from = 0, to = key?.length ?? 0) => {
    if (key !== null) return (murmur2(key, from, to) & 0x7fffffff) % partitions.length;
    return led[turn++ % led.length]?.partitionId ?? 0;
  };
}

const MURMUR_SEED = 0x9747b28c;
const MURMUR_FACTOR = 0x5bd1e995;

/** https://github.com/apache/kafka/blob/3.9.0/clients/src/main/java/org/apache/kafka/common/utils/Utils.java (murmur2) */
function murmur2(bytes: Buffer, start: number, end: number): number {
  let hash = MURMUR_SEED ^ (end - start);
  let at = start;
  for (; at + 4 <= end; at += 4) {
    let word = Math.imul(bytes.readInt32LE(at), MURMUR_FACTOR);
    word = Math.imul(word ^ (word >>> 24), MURMUR_FACTOR);
    hash = Math.imul(hash, MURMUR_FACTOR) ^ word;
  }
  if (at < end) {
    hash ^= bytes.readUIntLE(at, end - at);
    hash = Math.imul(hash, MURMUR_FACTOR);
  }
  hash = Math.imul(hash ^ (hash >>> 13), MURMUR_FACTOR);
  return hash ^ (hash >>> 15);
}
