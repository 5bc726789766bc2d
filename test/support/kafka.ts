/** Access of tests to a real Kafka: they produce records of every kind, and read records. */
import { type Admin, CompressionTypes, type IHeaders, type Kafka, type Producer } from 'kafkajs';
import { until } from '../../dev/servers/deadline';
import { answerNow } from '../../dev/servers/topics';
import { requireAcknowledged } from '../../src/kafka/producer';
import { registerCodecs } from './kafkajs-codecs';
import { kafkaClient, withAdmin } from './servers';

export type { TopicPlan } from '../../dev/servers/topics';
export { makeTopics } from './servers';

const MAX_BYTES = 64 * 1024 * 1024;
const READ_DEADLINE_MS = 60_000;
const TOPIC_DEADLINE_MS = 60_000;
const TRANSACTION_TIMEOUT_MS = 60_000;

// Producing needs the codecs too: kafkajs compresses with gzip only.
registerCodecs({ maxDecompressedBytes: MAX_BYTES });

export interface Outgoing {
  readonly value: Buffer | string | null;
  readonly key?: Buffer | string | null;
  readonly headers?: IHeaders;
  readonly partition?: number;
  readonly timestamp?: string;
}

export interface ProduceOptions {
  readonly compression?: CompressionTypes;
  readonly brokers?: string[];
}

export async function withProducer<T>(
  work: (producer: Producer) => Promise<T>,
  settings: Parameters<Kafka['producer']>[0] = {},
  brokers?: string[],
): Promise<T> {
  const producer = kafkaClient(brokers).producer({ allowAutoTopicCreation: false, ...settings });
  await producer.connect();
  try {
    return await work(producer);
  } finally {
    await producer.disconnect();
  }
}

/**
 * Produces records. Those of one call and one partition form one batch. A record without a partition goes to
 * partition 0.
 */
export async function produce(
  topic: string,
  records: readonly Outgoing[],
  { compression = CompressionTypes.None, brokers }: ProduceOptions = {},
): Promise<void> {
  await withProducer((producer) => send(producer, topic, records, compression), {}, brokers);
}

async function send(
  producer: Pick<Producer, 'send'>,
  topic: string,
  records: readonly Outgoing[],
  compression = CompressionTypes.None,
): Promise<void> {
  const messages = records.map(({ partition = 0, ...record }) => ({ ...record, partition }));
  const taken = await producer.send({ topic, acks: -1, compression, messages });
  requireAcknowledged(topic, messages, taken);
}

/** Produces records in a transaction of their own, and ends it. */
export async function produceInTransaction(
  topic: string,
  records: readonly Outgoing[],
  end: 'commit' | 'abort',
  brokers?: string[],
): Promise<void> {
  const open = await openTransaction(topic, records, brokers);
  await open.end(end);
}

export interface OpenTransaction {
  end(how: 'commit' | 'abort'): Promise<void>;
}

/** Produces records in a transaction that stays open until it is ended. */
export async function openTransaction(
  topic: string,
  records: readonly Outgoing[],
  brokers?: string[],
): Promise<OpenTransaction> {
  const transactionalId = `test-${topic}-${process.pid}-${++transactions}`;
  const producer = kafkaClient(brokers).producer({
    transactionalId,
    idempotent: true,
    maxInFlightRequests: 1,
    transactionTimeout: TRANSACTION_TIMEOUT_MS,
    allowAutoTopicCreation: false,
  });
  await producer.connect();
  const transaction = await producer.transaction();
  await send(transaction, topic, records);
  return {
    async end(how) {
      await transaction[how]();
      await producer.disconnect();
    },
  };
}
let transactions = 0;

/** A record as it is in a topic. */
export interface Incoming {
  readonly partition: number;
  readonly offset: number;
  readonly key: string | null;
  readonly value: Buffer | null;
  readonly headers: Readonly<Record<string, readonly string[]>>;
  readonly timestamp: string;
}

/** Reads a topic from its beginning until `enough` holds, or to its end where it is not given. */
export async function readTopic(
  topic: string,
  enough?: (records: readonly Incoming[]) => boolean,
  brokers?: string[],
): Promise<Incoming[]> {
  const ends = await fetchOffsets(topic, brokers);
  const wanted = ends.filter(({ low, high }) => Number(high) > Number(low));
  if (enough === undefined && wanted.length === 0) return [];
  const records: Incoming[] = [];
  const reached = new Map<number, number>();
  const consumer = kafkaClient(brokers).consumer({
    groupId: `test-reader-${topic}-${process.pid}-${++readers}`,
    maxWaitTimeInMs: 100,
    maxBytesPerPartition: 16 * 1024 * 1024,
  });
  await consumer.connect();
  try {
    await consumer.subscribe({ topic, fromBeginning: true });
    const toTheEnd = () =>
      wanted.every(({ partition, high }) => (reached.get(partition) ?? -1) >= Number(high) - 1);
    // A marker at the end never reaches eachBatch, but its batch does end.
    consumer.on(consumer.events.END_BATCH_PROCESS, ({ payload }) => {
      reached.set(payload.partition, Number(payload.lastOffset));
    });
    await consumer.run({
      eachBatch: async ({ batch }) => {
        for (const { offset, key, value, headers = {}, timestamp } of batch.messages) {
          records.push({
            partition: batch.partition,
            offset: Number(offset),
            key: key === null ? null : key.toString(),
            value,
            headers: Object.fromEntries(
              Object.entries(headers).map(([name, entry]) => [name, [entry ?? ''].flat().map(String)]),
            ),
            timestamp,
          });
        }
      },
    });
    await until(`${topic} is read`, READ_DEADLINE_MS, () =>
      enough === undefined ? toTheEnd() : enough(records),
    );
  } finally {
    await consumer.disconnect();
  }
  return records.sort((a, b) => a.partition - b.partition || a.offset - b.offset);
}
let readers = 0;

/** The ends of a topic's partitions; asks again while a partition has no leader. */
async function fetchOffsets(topic: string, brokers?: string[]) {
  let offsets: Awaited<ReturnType<Admin['fetchTopicOffsets']>> = [];
  await until(`${topic} has leaders`, TOPIC_DEADLINE_MS, async () => {
    const answer = await answerNow(() => withAdmin((admin) => admin.fetchTopicOffsets(topic), brokers));
    offsets = answer ?? [];
    return answer !== undefined;
  });
  return offsets;
}

/** The committed offset of a group on each partition of a topic; -1 without one. */
export async function committedOffsets(
  groupId: string,
  topic: string,
  brokers?: string[],
): Promise<number[]> {
  const [found] = await withAdmin((admin) => admin.fetchOffsets({ groupId, topics: [topic] }), brokers);
  return (found?.partitions ?? [])
    .sort((a, b) => a.partition - b.partition)
    .map(({ offset }) => Number(offset));
}

/** One past the last record of each partition of a topic, as readers of committed records see it. */
export async function endOffsets(topic: string, brokers?: string[]): Promise<number[]> {
  const offsets = await fetchOffsets(topic, brokers);
  return offsets.sort((a, b) => a.partition - b.partition).map(({ high }) => Number(high));
}

/** Changes settings of a topic. */
export async function alterTopic(
  topic: string,
  config: Readonly<Record<string, string>>,
  brokers?: string[],
): Promise<void> {
  await withAdmin(async (admin) => {
    await alterShown(admin, topic, config);
    // The broker shows a change before it applies it. It applies one change before it shows the next one.
    await alterShown(admin, topic, { ...config, 'segment.ms': '86400000' });
  }, brokers);
}

/** Alters a topic, and waits until the broker shows it. */
async function alterShown(
  admin: Admin,
  topic: string,
  config: Readonly<Record<string, string>>,
): Promise<void> {
  const configEntries = Object.entries(config).map(([name, value]) => ({ name, value }));
  const resource = { type: TOPIC_RESOURCE, name: topic };
  await admin.alterConfigs({ validateOnly: false, resources: [{ ...resource, configEntries }] });
  await until(`the broker shows the new settings of ${topic}`, TOPIC_DEADLINE_MS, async () => {
    const { resources } = await admin.describeConfigs({ includeSynonyms: false, resources: [resource] });
    const shown = new Map(
      resources[0]?.configEntries.map(({ configName, configValue }) => [configName, configValue]),
    );
    return configEntries.every(({ name, value }) => shown.get(name) === value);
  });
}
const TOPIC_RESOURCE = 2;
