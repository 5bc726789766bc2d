/**
 * Kafka by kafkajs: the consumer group behind RecordSource, a producer, and the few things asked of the cluster.
 * The only file, with codecs.ts, that knows the client.
 */
import {
  type Admin,
  CompressionTypes,
  type Consumer,
  type EachBatchPayload,
  Kafka,
  KafkaJSProtocolError,
  logLevel,
  Partitioners,
  type Producer,
} from 'kafkajs';
import type { Logger } from 'pino';
import type { Source } from '../intake';
import { makeCodecs, registerCodecs } from './codecs';
import { FetchedMessage, installFetchDecoder } from './fetch-decoding';
import type { FetchedRecord, Headers } from './record-batches';
import type { RecordSource, SourceListener, StreamRecord } from './stream';

export interface KafkaOptions {
  readonly brokers: readonly string[];
  readonly clientId: string;
  /** How often a broker that cannot be reached is tried again; RETRIES where absent. For asking once whether Kafka is there. */
  readonly retries?: number;
}

/** One request to a broker, connecting included. */
const CONNECT_TIMEOUT_MS = 5_000;
const REQUEST_TIMEOUT_MS = 15_000;
/** Without a heartbeat for this long the group gives our partitions to others (I9: progress within 35 s of a fault's end). */
const SESSION_TIMEOUT_MS = 10_000;
const HEARTBEAT_MS = 2_000;
const REBALANCE_TIMEOUT_MS = 15_000;
/** A fetch waits this long for new records; also how long a resumed partition may wait for its next fetch. */
const MAX_FETCH_WAIT_MS = 250;
const MAX_FETCH_BYTES_PER_PARTITION = 1024 * 1024;
const MAX_FETCH_BYTES = 8 * 1024 * 1024;
/** Bytes that one compressed batch may decompress to; with it, the largest record that can be read. */
export const MAX_DECOMPRESSED_BYTES = 64 * 1024 * 1024;
/** New partitions are noticed within this time. */
const METADATA_MAX_AGE_MS = 30_000;
/** New topics, and topics that appear, are taken up within this time. */
const TOPIC_CHECK_MS = 20_000;
const FIRST_RETRY_MS = 300;
const MAX_RETRY_MS = 5_000;
const RETRIES = 8;
/** A message that the brokers do not acknowledge within this time is an error. */
const SEND_TIMEOUT_MS = 10_000;
const CONNECTION_ID_HEADER = 'connection-id';

export function makeKafka({ brokers, clientId, retries = RETRIES }: KafkaOptions, logger: Logger): Kafka {
  registerCodecs({ maxDecompressedBytes: MAX_DECOMPRESSED_BYTES });
  installFetchDecoder(decompress);
  return new Kafka({
    clientId,
    brokers: [...brokers],
    connectionTimeout: CONNECT_TIMEOUT_MS,
    requestTimeout: REQUEST_TIMEOUT_MS,
    retry: { initialRetryTime: FIRST_RETRY_MS, maxRetryTime: MAX_RETRY_MS, retries },
    logLevel: logLevel.INFO,
    logCreator: () => (entry) => {
      const { message, error, groupId, topic, partition } = entry.log;
      const details = { client: entry.namespace, error, groupId, topic, partition };
      // The client reports each pause, retry and rebalance at INFO or above; what matters of them the worker says itself.
      if (entry.level <= logLevel.ERROR) logger.warn(details, message);
      else logger.debug(details, message);
    },
  });
}

const codecs = makeCodecs({ maxDecompressedBytes: MAX_DECOMPRESSED_BYTES });
const codecByNumber = [undefined, codecs.gzip, codecs.snappy, codecs.lz4, codecs.zstd];

async function decompress(codec: number, bytes: Buffer): Promise<Buffer> {
  const found = codecByNumber[codec];
  if (found === undefined) throw new RangeError(`there is no codec ${codec}`);
  return found.decompress(bytes);
}

export interface KafkaSourceOptions {
  readonly groupId: string;
  /** The topics to read, asked for again from time to time. */
  readonly wantedTopics: () => Promise<readonly string[]>;
  /** The client has ended and will not come back by itself. */
  readonly onFatal: (error: Error) => void;
}

/**
 * The consumer group. Records are handed over as they are fetched; the position in a partition runs ahead of what is committed.
 *
 * kafkajs fixes a consumer's topics when it starts, so that a change of topics is a new consumer.
 */
export function makeKafkaSource(kafka: Kafka, options: KafkaSourceOptions, logger: Logger): RecordSource {
  let consumer: Consumer | null = null;
  let subscribed: readonly string[] | null = null;
  let listener: SourceListener;
  let admin: Admin | null = null;
  let timer: NodeJS.Timeout | null = null;
  let stopped = false;
  const reported = new Set<string>();

  /** The wanted topics that exist. A missing one is reported once, and stops no other. */
  async function presentTopics(): Promise<string[]> {
    admin ??= await connectedAdmin(kafka);
    const wanted = await options.wantedTopics();
    const existing = new Set(await admin.listTopics());
    for (const topic of wanted) {
      if (existing.has(topic)) reported.delete(topic);
      else if (!reported.has(topic)) {
        reported.add(topic);
        logger.warn(
          { topic, checkEveryMs: TOPIC_CHECK_MS },
          'topic does not exist; it is read as soon as it does',
        );
      }
    }
    return wanted.filter((topic) => existing.has(topic)).sort();
  }

  async function followTopics(): Promise<void> {
    try {
      const topics = await presentTopics();
      if (topics.length === 0) listener.fetched();
      if (!stopped && (subscribed === null || topics.join() !== subscribed.join())) await subscribe(topics);
    } catch (error) {
      logger.warn({ error: messageOf(error) }, 'topics could not be checked');
    }
    if (!stopped) timer = setTimeout(() => void followTopics(), TOPIC_CHECK_MS);
  }

  async function subscribe(topics: readonly string[]): Promise<void> {
    const previous = consumer;
    consumer = null;
    if (previous !== null) await previous.disconnect();
    subscribed = topics;
    if (topics.length === 0) {
      logger.info('no topics to read yet');
      listener.assigned([]);
      return;
    }
    logger.info({ topics }, 'reading topics');
    const next = kafka.consumer({
      groupId: options.groupId,
      sessionTimeout: SESSION_TIMEOUT_MS,
      heartbeatInterval: HEARTBEAT_MS,
      rebalanceTimeout: REBALANCE_TIMEOUT_MS,
      maxWaitTimeInMs: MAX_FETCH_WAIT_MS,
      maxBytesPerPartition: MAX_FETCH_BYTES_PER_PARTITION,
      maxBytes: MAX_FETCH_BYTES,
      metadataMaxAge: METADATA_MAX_AGE_MS,
      allowAutoTopicCreation: false,
      retry: {
        initialRetryTime: FIRST_RETRY_MS,
        maxRetryTime: MAX_RETRY_MS,
        retries: RETRIES,
        restartOnFailure: async () => true,
      },
    });
    listen(next);
    await next.connect();
    await next.subscribe({ topics: [...topics], fromBeginning: true });
    consumer = next;
    await next.run({
      autoCommit: false,
      eachBatchAutoResolve: false,
      eachBatch: async (payload) => handOver(payload),
    });
  }

  function listen(source: Consumer): void {
    source.on(source.events.GROUP_JOIN, ({ payload }) => {
      const partitions = Object.entries(payload.memberAssignment).flatMap(([topic, numbers]) =>
        numbers.map((partition) => ({ topic, partition })),
      );
      listener.assigned(partitions);
    });
    source.on(source.events.CRASH, ({ payload }) => {
      // With restart the client begins anew by itself; without it, it has ended silently (kafkajs#1445).
      if (payload.restart) logger.warn({ error: messageOf(payload.error) }, 'the Kafka client restarts');
      else if (!stopped) options.onFatal(payload.error);
    });
    source.on(source.events.FETCH, () => listener.fetched());
  }

  function handOver({ batch, resolveOffset }: EachBatchPayload): void {
    const { topic, partition } = batch;
    for (const message of batch.messages) {
      if (!(message instanceof FetchedMessage)) throw new Error('kafkajs decoded a fetch by itself');
      const { fetched } = message;
      const fromOffset = offsetOf(Reflect.get(batch, 'fetchedOffset'));
      const records = fetched.visibleFrom(fromOffset).map(toRecord);
      // This is where the next fetch goes on: behind the markers and aborted records at the end, too.
      resolveOffset(message.offset);
      listener.chunk({ topic, partition, records, nextOffset: Math.max(fetched.lastOffset + 1, fromOffset) });
    }
  }

  return {
    async start(to) {
      listener = to;
      await followTopics();
    },
    pause: ({ topic, partition }) => consumer?.pause([{ topic, partitions: [partition] }]),
    resume: ({ topic, partition }) => consumer?.resume([{ topic, partitions: [partition] }]),
    async commit(offsets) {
      if (consumer === null) throw new Error('the consumer is not running');
      await consumer.commitOffsets(
        offsets.map(({ offset, ...partition }) => ({ ...partition, offset: String(offset) })),
      );
    },
    async stop() {
      stopped = true;
      if (timer !== null) clearTimeout(timer);
      await Promise.all([consumer?.disconnect(), admin?.disconnect()]);
    },
  };
}

function toRecord(record: FetchedRecord): StreamRecord {
  return { ...record, claims: claimsOf(record.headers) };
}

function claimsOf(headers: Headers): readonly string[] {
  const value = headers[CONNECTION_ID_HEADER];
  if (value === undefined) return NO_CLAIMS;
  return (Array.isArray(value) ? value : [value]).map((entry) => entry.toString('utf8'));
}

const NO_CLAIMS: readonly string[] = [];

/** @throws RangeError beyond 2^53: an offset that a number cannot hold would be another record's */
function offsetOf(text: unknown): number {
  const offset = Number(text);
  if (!Number.isSafeInteger(offset)) throw new RangeError(`offset ${text} is out of range`);
  return offset;
}

export interface OutgoingMessage {
  readonly key: Buffer | string | null;
  readonly value: Buffer | string | null;
  readonly headers: Readonly<Record<string, Buffer | string | (Buffer | string)[]>>;
  /** Absent: chosen by the key, as `partitionChooser` does. */
  readonly partition?: number;
}

export interface Sender {
  /** Resolves once all in-sync replicas have the messages. @throws where they do not within the sender's time limit */
  send(topic: string, messages: readonly OutgoingMessage[]): Promise<void>;
  stop(): Promise<void>;
}

const COMPRESSIONS = {
  none: CompressionTypes.None,
  gzip: CompressionTypes.GZIP,
  snappy: CompressionTypes.Snappy,
  lz4: CompressionTypes.LZ4,
  zstd: CompressionTypes.ZSTD,
} as const;
export type Compression = keyof typeof COMPRESSIONS;

export interface SenderOptions {
  readonly compression?: Compression;
  readonly timeoutMs?: number;
  readonly retries?: number;
}

export async function makeSender(
  kafka: Kafka,
  { compression = 'none', timeoutMs = SEND_TIMEOUT_MS, retries = 3 }: SenderOptions = {},
): Promise<Sender> {
  const producer: Producer = kafka.producer({ allowAutoTopicCreation: false, retry: { retries } });
  await producer.connect();
  return {
    async send(topic, messages) {
      await withDeadline(
        producer.send({
          topic,
          acks: -1,
          timeout: SEND_TIMEOUT_MS,
          compression: COMPRESSIONS[compression],
          messages: [...messages],
        }),
        timeoutMs,
        `${topic} did not acknowledge within ${timeoutMs} ms`,
      );
    },
    stop: () => producer.disconnect(),
  };
}

/**
 * The partition of a key, as Java producers choose it; without a key, the partitions in turn. Null where the topic does not exist.
 *
 * For senders that need to know what one request is made of: a broker takes the records of one partition all or not at all.
 */
export async function partitionChooser(
  kafka: Kafka,
  topic: string,
): Promise<((key: string | null) => number) | null> {
  const admin = await connectedAdmin(kafka);
  try {
    if (!(await admin.listTopics()).includes(topic)) return null;
    const { topics } = await admin.fetchTopicMetadata({ topics: [topic] });
    const partitionMetadata = topics.find(({ name }) => name === topic)?.partitions ?? [];
    const choose = Partitioners.DefaultPartitioner();
    return (key) => choose({ topic, partitionMetadata, message: { key, value: null } });
  } finally {
    await admin.disconnect();
  }
}

/** What the brokers say of the records themselves, one by one, so that the others of a batch may still be taken. */
const RECORD_REFUSALS = new Set(['MESSAGE_TOO_LARGE', 'RECORD_LIST_TOO_LARGE', 'INVALID_RECORD']);

/** The brokers' words where they refuse a batch for a record in it; null for every other error. */
export function recordRefusal(error: unknown): string | null {
  return error instanceof KafkaJSProtocolError && RECORD_REFUSALS.has(error.type) ? error.message : null;
}

async function connectedAdmin(kafka: Kafka): Promise<Admin> {
  const admin = kafka.admin();
  await admin.connect();
  return admin;
}

/** Makes a topic with the cluster's defaults where it does not exist. @throws where it is missing and cannot be made */
export async function ensureTopic(kafka: Kafka, topic: string): Promise<'present' | 'made'> {
  const admin = await connectedAdmin(kafka);
  try {
    if ((await admin.listTopics()).includes(topic)) return 'present';
    await admin.createTopics({
      waitForLeaders: true,
      topics: [{ topic, numPartitions: -1, replicationFactor: -1 }],
    });
    return 'made';
  } finally {
    await admin.disconnect();
  }
}

/** The end of every partition of the topics as it is now: one past its last record, whatever its transactions. */
export async function highWatermarks(
  kafka: Kafka,
  topics: readonly string[],
): Promise<(Source & { offset: number })[]> {
  const admin = await connectedAdmin(kafka);
  try {
    const existing = new Set(await admin.listTopics());
    const present = topics.filter((topic) => existing.has(topic));
    const ends = await Promise.all(
      present.map(async (topic) => {
        const offsets = await admin.fetchTopicOffsets(topic);
        return offsets.map(({ partition, low, high }) => ({
          topic,
          partition,
          low: offsetOf(low),
          offset: offsetOf(high),
        }));
      }),
    );
    // A partition with nothing in it has nothing to be decided, and no committed offset to wait for.
    return ends.flat().filter(({ low, offset }) => offset > low);
  } finally {
    await admin.disconnect();
  }
}

/** A group's committed offsets, by topic and partition; -1 where it has none. */
export function makeCommittedOffsets(kafka: Kafka, groupId: string) {
  let admin: Admin | null = null;
  return {
    async read(topics: readonly string[]): Promise<(Source & { offset: number })[]> {
      admin ??= await connectedAdmin(kafka);
      const committed = await admin.fetchOffsets({ groupId, topics: [...topics] });
      return committed.flatMap(({ topic, partitions }) =>
        partitions.map(({ partition, offset }) => ({ topic, partition, offset: offsetOf(offset) })),
      );
    },
    async close(): Promise<void> {
      await admin?.disconnect();
    },
  };
}

async function withDeadline<T>(work: Promise<T>, ms: number, message: string): Promise<T> {
  let timer: NodeJS.Timeout | undefined;
  const deadline = new Promise<never>((_, reject) => {
    timer = setTimeout(() => reject(new Error(message)), ms);
  });
  try {
    return await Promise.race([work, deadline]);
  } finally {
    clearTimeout(timer);
  }
}

function messageOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}
