/** Sends messages to Kafka: verdicts, dead letters, and the input of `publish`. */
import {
  CompressionTypes,
  type Kafka,
  KafkaJSProtocolError,
  type Producer as KafkajsProducer,
  type ProducerConfig,
} from 'kafkajs';
import { BufferPool } from '../lib/buffer-pool';
import { inTime, LATE, systemClock } from '../lib/clock';
import { codecs, MAX_DECOMPRESSED_BYTES } from './client/client';
import { COMPACTED, KafkaProblem, raiseMessageLimit } from './client/errors';
import { producerOfManyTopics } from './client/patches/many-topics';
import { EncodedBatch } from './client/patches/produce';
import { ensureTopic } from './client/topics';
import {
  type Choosers,
  type Encode,
  firstBatches,
  MOST_BATCH_BYTES,
  makeChoosers,
  makeChoosersOfMany,
  type PartitionBatch,
} from './partition-batches';
import {
  type Compressor,
  MessageEncoder,
  type OutgoingMessage,
  RecordBatch,
} from './protocol/record-batch-writer';
import { makeSendToTopics, SEND_TIMEOUT_MS } from './send-to-topics';

/** Encodes items that are messages already. */
export function encodeMessages(): Encode<OutgoingMessage> {
  const encoder = new MessageEncoder();
  return (message) => encoder.encode(message);
}

export interface Producer {
  /**
   * Resolves once all in-sync replicas have the items' messages. Keeps the order of the messages of a
   * partition.
   *
   * @param encode may be called again for an item, where the brokers refused another item of the same batch
   * @throws RecordsRefused where the brokers refuse some records themselves; all other records are stored
   * @throws KafkaProblem with the remedy, where the user of this process may not write the topic
   * @throws where the brokers do not acknowledge in time. The messages may still be stored later, even twice,
   * and then behind messages of the next call.
   */
  send<T>(topic: string, items: readonly T[], encode: Encode<T>, options?: SendOptions): Promise<void>;
  stop(): Promise<void>;
}

/** A producer whose topics do not disturb each other. It creates a missing topic where it may. */
export interface TopicsProducer extends Producer {
  /**
   * Sends items to their topics: one request to each broker, whatever the number of topics.
   *
   * @returns the items that a topic did not take at once, by topic, in their order. `send` retries them, and
   * explains why.
   */
  sendToTopics<T>(
    items: ReadonlyMap<string, readonly T[]>,
    encode: Encode<T>,
  ): Promise<ReadonlyMap<string, readonly T[]>>;
}

export interface SendOptions {
  /** Time limit for the whole call. Without it, only each request has the producer's time limit. */
  readonly withinMs?: number;
  /** Replaces the producer's compression. */
  readonly compression?: Compression;
  /**
   * Called once no request of this call is in flight. After a failure the client may still be sending a
   * request whose result is no longer awaited.
   */
  readonly onSettled?: () => void;
}

/** Brokers refuse the messages of these items, for instance as too large, and would refuse them again. */
export class RecordsRefused extends Error {
  override readonly name = 'RecordsRefused';
  /** @param refused the brokers' messages by item */
  constructor(readonly refused: ReadonlyMap<unknown, string>) {
    super([...new Set(refused.values())].join('; '));
  }
}

/** Spare room of a batch: keys are not spread evenly, and a batch that outgrows its buffer is copied. */
const ROOM = 1.125;

/** The memory of batches. */
const pool = new BufferPool();

const COMPRESSIONS = {
  none: null,
  gzip: { codec: CompressionTypes.GZIP, ...codecs.gzip },
  snappy: { codec: CompressionTypes.Snappy, ...codecs.snappy },
  lz4: { codec: CompressionTypes.LZ4, ...codecs.lz4 },
  zstd: { codec: CompressionTypes.ZSTD, ...codecs.zstd },
} as const satisfies Record<string, Compressor | null>;
export type Compression = keyof typeof COMPRESSIONS;

export interface ProducerOptions {
  readonly compression?: Compression;
  readonly timeoutMs?: number;
  readonly retries?: number;
}

export async function makeProducer(kafka: Kafka, options: ProducerOptions = {}): Promise<Producer> {
  const client = kafka.producer(configOf(options));
  await client.connect();
  return producerOf(client, makeChoosers(kafka), options);
}

/** @param onCreated called after a missing topic was created */
export async function makeTopicsProducer(
  kafka: Kafka,
  onCreated: (topic: string) => void,
): Promise<TopicsProducer> {
  const topics = producerOfManyTopics(kafka, configOf({}));
  await topics.producer.connect();
  const choosers = makeChoosersOfMany(topics, async (topic) => {
    if ((await ensureTopic(kafka, topic)) === 'made') onCreated(topic);
  });
  return {
    ...producerOf(topics.producer, choosers, {}),
    sendToTopics: makeSendToTopics(topics.sendOnce, choosers),
  };
}

function configOf({ retries = 3 }: ProducerOptions): ProducerConfig {
  return { allowAutoTopicCreation: false, retry: { retries } };
}

function producerOf(
  client: KafkajsProducer,
  choosers: Choosers,
  { compression: defaultCompression = 'none', timeoutMs = SEND_TIMEOUT_MS }: ProducerOptions,
): Producer {
  /** Size of the largest batch of the last request. The next one is probably as large. */
  let likelyBytes = 0;

  return {
    async send(topic, items, encode, options = {}) {
      const { withinMs = Number.POSITIVE_INFINITY, compression = defaultCompression, onSettled } = options;
      const deadline = performance.now() + withinMs;
      const leftMs = () => Math.max(0, Math.min(timeoutMs, Math.ceil(deadline - performance.now())));
      const inFlight: Promise<unknown>[] = [];
      try {
        await sendAll(topic, items, encode, {
          leftMs,
          compressor: COMPRESSIONS[compression],
          inFlight,
        });
      } catch (error) {
        if (!(error instanceof RecordsRefused)) choosers.forget(topic);
        throw withRemedy(topic, error);
      } finally {
        if (onSettled !== undefined) void Promise.allSettled(inFlight).then(onSettled);
      }
    },
    stop: () => client.disconnect(),
  };

  async function sendAll<T>(
    topic: string,
    items: readonly T[],
    encode: Encode<T>,
    context: RequestContext,
  ): Promise<void> {
    const lookUpMs = context.leftMs();
    const choose = await withDeadline(
      choosers.of(topic),
      lookUpMs,
      `the brokers did not report the partitions of ${topic} within ${lookUpMs} ms`,
    );
    const refused = new Map<T, string>();
    for (let rest = items; rest.length > 0; ) {
      const room = Math.min(Math.ceil(ROOM * likelyBytes), MOST_BATCH_BYTES);
      const newBatch = () => new RecordBatch(pool.take(room));
      const { batches, taken } = firstBatches(rest, encode, choose, newBatch);
      likelyBytes = batches.reduce((most, { records }) => Math.max(most, records.bytes), 0);
      if (batches.length > 0) await deliver(topic, batches, encode, refused, context);
      rest = rest.slice(taken);
    }
    if (refused.size > 0) throw new RecordsRefused(refused);
  }

  /**
   * Sends one batch per partition. Where the brokers refuse a record, the other records of its batch are sent
   * without it.
   */
  async function deliver<T>(
    topic: string,
    batches: readonly PartitionBatch<T>[],
    encode: Encode<T>,
    refused: Map<T, string>,
    context: RequestContext,
  ): Promise<void> {
    try {
      await request(topic, batches, context);
    } catch (error) {
      const refusal = recordRefusal(topic, error);
      if (refusal === null) throw error;
      for (const smaller of split(batches, encode)) await deliver(topic, smaller, encode, refused, context);
      for (const item of onlyItemOf(batches)) refused.set(item, refusal);
    }
  }

  async function request<T>(
    topic: string,
    batches: readonly PartitionBatch<T>[],
    { leftMs, compressor, inFlight }: RequestContext,
  ): Promise<void> {
    const now = Date.now();
    const messages = await Promise.all(
      batches.map(
        async ({ partition, records }) =>
          new EncodedBatch(partition, await records.take(now, isReadable(records) ? compressor : null)),
      ),
    );
    const withinMs = leftMs();
    // A call that has timed out must not store any more messages.
    if (withinMs === 0) throw new Error(`no time was left to send to ${topic}`);
    const sending = client.send({ topic, acks: ALL_IN_SYNC, timeout: SEND_TIMEOUT_MS, messages });
    inFlight.push(sending);
    const taken = await withDeadline(sending, withinMs, `${topic} did not acknowledge within ${withinMs} ms`);
    requireAcknowledged(topic, batches, taken);
    // Where one broker refuses, the request to another one may still need its batches.
    for (const { records } of batches) pool.give(records.memory);
  }
}

/**
 * kafkajs silently skips a partition that it does not find, that has no leader, or that its broker does not
 * know yet.
 *
 * @param taken the partitions that the brokers acknowledged
 * @throws where the brokers did not acknowledge one of the partitions sent to
 */
export function requireAcknowledged(
  topic: string,
  sent: readonly { readonly partition: number }[],
  taken: readonly { readonly partition: number }[],
): void {
  const missing = sent.find(({ partition }) => taken.every((answer) => answer.partition !== partition));
  if (missing === undefined) return;
  throw new KafkaProblem(
    `no broker took the messages for ${topic}/${missing.partition}: this partition has no leader now, or does not exist any more`,
  );
}

const ALL_IN_SYNC = -1;

/**
 * Whether readers could decompress the batch. A dead letter is larger than its record, which may already be
 * as large as readers allow.
 */
function isReadable({ bytes }: RecordBatch): boolean {
  return bytes <= MAX_DECOMPRESSED_BYTES;
}

/** Names the topic, the operation and the remedy where the user of this process may not write the topic. */
function withRemedy(topic: string, error: unknown): unknown {
  if (!(error instanceof KafkaJSProtocolError && error.type === 'TOPIC_AUTHORIZATION_FAILED')) return error;
  return new KafkaProblem(
    `${topic} cannot be written: ${error.message}. Grant the Kafka user of this process the ACL Write on the topic`,
    { cause: error },
  );
}

/** How the requests of a call are made. */
interface RequestContext {
  /** Milliseconds left for the call. */
  leftMs(): number;
  readonly compressor: Compressor | null;
  /** The requests that were begun. */
  readonly inFlight: Promise<unknown>[];
}

/** Splits the batches into smaller requests, as far as possible: by partition, then in halves. */
function split<T>(
  batches: readonly PartitionBatch<T>[],
  encode: Encode<T>,
): readonly (readonly PartitionBatch<T>[])[] {
  if (batches.length > 1) return batches.map((batch) => [batch]);
  return batches.flatMap(({ partition, items, records: { bytes } }) => {
    if (items.length === 1) return [];
    const middle = Math.ceil(items.length / 2);
    return [items.slice(0, middle), items.slice(middle)].map(
      (half) =>
        firstBatches(
          half,
          encode,
          () => partition,
          () => new RecordBatch(Math.min(bytes, MOST_BATCH_BYTES)),
        ).batches,
    );
  });
}

function onlyItemOf<T>(batches: readonly PartitionBatch<T>[]): readonly T[] {
  const items = batches.flatMap((batch) => batch.items);
  return items.length === 1 ? items : [];
}

/** Errors of brokers that concern single records. The other records of a batch may still be accepted. */
const RECORD_REFUSALS = new Set(['MESSAGE_TOO_LARGE', 'RECORD_LIST_TOO_LARGE', 'INVALID_RECORD']);

/** The brokers' message and its remedy, where they refuse a batch for a record in it; else null. */
function recordRefusal(topic: string, error: unknown): string | null {
  if (!(error instanceof KafkaJSProtocolError && RECORD_REFUSALS.has(error.type))) return null;
  const remedy = error.type === 'INVALID_RECORD' ? COMPACTED : raiseMessageLimit(topic);
  return `${error.message.replace(/\.$/, '')}. ${remedy}`;
}

async function withDeadline<T>(work: Promise<T>, ms: number, message: string): Promise<T> {
  const result = await inTime(systemClock, work, ms);
  if (result === LATE) throw new Error(message);
  return result;
}
