/** Sends messages to Kafka: verdicts, dead letters, and what `publish` reads. */
import { CompressionTypes, type Kafka, KafkaJSProtocolError } from 'kafkajs';
import { inTime, LATE } from '../lib/clock';
import { codecs, connectedAdmin, MAX_DECOMPRESSED_BYTES } from './client/client';
import { KafkaProblem, noPartition, noTopic } from './client/errors';
import { EncodedBatch } from './client/patches/produce';
import {
  type Compressor,
  type EncodedMessage,
  MessageEncoder,
  type OutgoingMessage,
  RecordBatch,
} from './protocol/record-batch-writer';

/** The message that is sent of an item; null where there is none. */
export type Encode<T> = (item: T) => EncodedMessage | null;

/** Of messages themselves. */
export function encodeMessages(): Encode<OutgoingMessage> {
  const encoder = new MessageEncoder();
  return (message) => encoder.encode(message);
}

export interface Sender {
  /**
   * Resolves once all in-sync replicas have the items' messages. Those of a partition stay in their order.
   *
   * @param encode an item may be encoded again, where the brokers refuse one that was sent beside it
   * @throws RecordsRefused where the brokers refuse some for what they are; all the others are stored
   * @throws where the brokers do not acknowledge in time. What was sent may yet come, and once more behind what is sent next.
   */
  send<T>(topic: string, items: readonly T[], encode: Encode<T>, options?: SendOptions): Promise<void>;
  stop(): Promise<void>;
}

export interface SendOptions {
  /** For all of it; without, each request has the sender's time limit. */
  readonly withinMs?: number;
  /** In place of the sender's. */
  readonly compression?: Compression;
  /** Called once nothing of it is under way any more: after it has failed, where the client goes on with what was given up. */
  readonly whenOver?: () => void;
}

/** Brokers refuse the messages of these items, as too large for one, and would again. */
export class RecordsRefused extends Error {
  override readonly name = 'RecordsRefused';
  /** @param refused the brokers' words by item */
  constructor(readonly refused: ReadonlyMap<unknown, string>) {
    super([...new Set(refused.values())].join('; '));
  }
}

/** A request that the brokers do not acknowledge within this time is an error. */
const SEND_TIMEOUT_MS = 10_000;
/** Half of what brokers take by default, so that only a message alone can be too large for them. */
const BATCH_BYTES = 512 * 1024;
/** Keys do not fall evenly: a batch that grows is copied. */
const ROOM = 1.125;
/** Partitions that are added are used within this time. */
const METADATA_MAX_AGE_MS = 300_000;

const COMPRESSIONS = {
  none: null,
  gzip: { codec: CompressionTypes.GZIP, ...codecs.gzip },
  snappy: { codec: CompressionTypes.Snappy, ...codecs.snappy },
  lz4: { codec: CompressionTypes.LZ4, ...codecs.lz4 },
  zstd: { codec: CompressionTypes.ZSTD, ...codecs.zstd },
} as const satisfies Record<string, Compressor | null>;
export type Compression = keyof typeof COMPRESSIONS;

export interface SenderOptions {
  readonly compression?: Compression;
  readonly timeoutMs?: number;
  readonly retries?: number;
}

export async function makeSender(
  kafka: Kafka,
  { compression: usually = 'none', timeoutMs = SEND_TIMEOUT_MS, retries = 3 }: SenderOptions = {},
): Promise<Sender> {
  const producer = kafka.producer({ allowAutoTopicCreation: false, retry: { retries } });
  await producer.connect();
  const choosers = makeChoosers(kafka);
  /** What the largest batch of the last request took; the next one's will likely take as much. */
  let likelyBytes = 0;

  return {
    async send(topic, items, encode, options = {}) {
      const { withinMs = Number.POSITIVE_INFINITY, compression = usually, whenOver } = options;
      const end = performance.now() + withinMs;
      const leftMs = () => Math.max(0, Math.min(timeoutMs, Math.ceil(end - performance.now())));
      const underWay: Promise<unknown>[] = [];
      try {
        await sendAll(topic, items, encode, { leftMs, compressor: COMPRESSIONS[compression], underWay });
      } catch (error) {
        if (!(error instanceof RecordsRefused)) choosers.forget(topic);
        throw error;
      } finally {
        if (whenOver !== undefined) void Promise.allSettled(underWay).then(whenOver);
      }
    },
    stop: () => producer.disconnect(),
  };

  async function sendAll<T>(topic: string, items: readonly T[], encode: Encode<T>, way: Way): Promise<void> {
    const lookUpMs = way.leftMs();
    const choose = await withDeadline(
      choosers.of(topic),
      lookUpMs,
      `the brokers did not say within ${lookUpMs} ms which partitions ${topic} has`,
    );
    const refused = new Map<T, string>();
    for (let rest = items; rest.length > 0; ) {
      const { batches, taken } = firstBatches(rest, encode, choose, Math.ceil(ROOM * likelyBytes));
      likelyBytes = batches.reduce((most, { records }) => Math.max(most, records.bytes), 0);
      if (batches.length > 0) await deliver(topic, batches, encode, refused, way);
      rest = rest.slice(taken);
    }
    if (refused.size > 0) throw new RecordsRefused(refused);
  }

  /** Sends one batch a partition. Where the brokers refuse a record, those beside it are sent without it. */
  async function deliver<T>(
    topic: string,
    batches: readonly PartitionBatch<T>[],
    encode: Encode<T>,
    refused: Map<T, string>,
    way: Way,
  ): Promise<void> {
    try {
      await request(topic, batches, way);
    } catch (error) {
      const refusal = recordRefusal(error);
      if (refusal === null) throw error;
      for (const part of smaller(batches, encode)) await deliver(topic, part, encode, refused, way);
      for (const item of onlyItemOf(batches)) refused.set(item, refusal);
    }
  }

  async function request<T>(
    topic: string,
    batches: readonly PartitionBatch<T>[],
    { leftMs, compressor, underWay }: Way,
  ): Promise<void> {
    const now = Date.now();
    const messages = await Promise.all(
      batches.map(
        async ({ partition, records }) =>
          new EncodedBatch(partition, await records.take(now, isReadable(records) ? compressor : null)),
      ),
    );
    const withinMs = leftMs();
    // What is given up already must not be stored.
    if (withinMs === 0) throw new Error(`there was no time left to send to ${topic}`);
    const sending = producer.send({ topic, acks: ALL_IN_SYNC, timeout: SEND_TIMEOUT_MS, messages });
    underWay.push(sending);
    const taken = await withDeadline(sending, withinMs, `${topic} did not acknowledge within ${withinMs} ms`);
    requireTaken(topic, batches, taken);
  }
}

/**
 * kafkajs passes over a partition that it does not find, or that its broker does not know yet, and says nothing.
 *
 * @param taken what the brokers answered
 * @throws where nothing was answered of a partition that was sent to
 */
export function requireTaken(
  topic: string,
  sent: readonly { readonly partition: number }[],
  taken: readonly { readonly partition: number }[],
): void {
  const missing = sent.find(({ partition }) => taken.every((answer) => answer.partition !== partition));
  if (missing !== undefined) throw new KafkaProblem(noPartition(topic, missing.partition));
}

const ALL_IN_SYNC = -1;

/** Whether it could be read once it is compressed. A dead letter is larger than its record, which may be as large as can be read. */
function isReadable({ bytes }: RecordBatch): boolean {
  return bytes <= MAX_DECOMPRESSED_BYTES;
}

/** How a request is made. */
interface Way {
  /** Time for it that is left. */
  leftMs(): number;
  readonly compressor: Compressor | null;
  /** Its requests. */
  readonly underWay: Promise<unknown>[];
}

interface PartitionBatch<T> {
  readonly partition: number;
  readonly items: T[];
  readonly records: RecordBatch;
}

/**
 * The messages of the first items by partition, until one is full: at most BATCH_BYTES, a message alone may be larger.
 *
 * @param room bytes that a batch will likely take
 * @returns with how many items these are
 */
function firstBatches<T>(
  items: readonly T[],
  encode: Encode<T>,
  choose: PartitionChooser,
  room: number,
): { batches: readonly PartitionBatch<T>[]; taken: number } {
  const byPartition = new Map<number, PartitionBatch<T>>();
  for (const [index, item] of items.entries()) {
    const message = encode(item);
    if (message === null) continue;
    const { bytes, keyFrom, keyTo } = message;
    const partition = message.partition ?? choose(keyFrom === null ? null : bytes, keyFrom ?? 0, keyTo);
    let batch = byPartition.get(partition);
    if (batch === undefined) {
      batch = { partition, items: [], records: new RecordBatch(Math.min(room, BATCH_BYTES)) };
      byPartition.set(partition, batch);
    } else if (batch.records.bytes + bytes.length > BATCH_BYTES)
      return { batches: [...byPartition.values()], taken: index };
    batch.items.push(item);
    batch.records.add(message);
  }
  return { batches: [...byPartition.values()], taken: items.length };
}

/** The same in smaller requests, as far as there are any: by partition, then by halves. */
function smaller<T>(
  batches: readonly PartitionBatch<T>[],
  encode: Encode<T>,
): readonly (readonly PartitionBatch<T>[])[] {
  if (batches.length > 1) return batches.map((batch) => [batch]);
  return batches.flatMap(({ partition, items, records: { bytes } }) => {
    if (items.length === 1) return [];
    const middle = Math.ceil(items.length / 2);
    return [items.slice(0, middle), items.slice(middle)].map(
      (half) => firstBatches(half, encode, () => partition, bytes).batches,
    );
  });
}

function onlyItemOf<T>(batches: readonly PartitionBatch<T>[]): readonly T[] {
  const items = batches.flatMap((batch) => batch.items);
  return items.length === 1 ? items : [];
}

/** What the brokers say of the records themselves, one by one, so that the others of a batch may still be taken. */
const RECORD_REFUSALS = new Set(['MESSAGE_TOO_LARGE', 'RECORD_LIST_TOO_LARGE', 'INVALID_RECORD']);

/** The brokers' words where they refuse a batch for a record in it; null for every other error. */
function recordRefusal(error: unknown): string | null {
  return error instanceof KafkaJSProtocolError && RECORD_REFUSALS.has(error.type) ? error.message : null;
}

// --- which partition

/** @param key which may stand in other bytes, from `from` to `to` */
export type PartitionChooser = (key: Buffer | null, from?: number, to?: number) => number;

/** Choosers of the topics that are sent to. */
function makeChoosers(kafka: Kafka) {
  const known = new Map<string, { choose: PartitionChooser; since: number }>();
  return {
    /** @throws where the topic does not exist */
    async of(topic: string): Promise<PartitionChooser> {
      const found = known.get(topic);
      if (found !== undefined && Date.now() - found.since < METADATA_MAX_AGE_MS) return found.choose;
      const choose = await partitionChooser(kafka, topic);
      if (choose === null) throw new KafkaProblem(noTopic(topic));
      known.set(topic, { choose, since: Date.now() });
      return choose;
    },
    forget(topic: string): void {
      known.delete(topic);
    },
  };
}

/**
 * The partition of a key, as Java producers choose it; without a key, the partitions that have a leader in turn. Null where the topic does
 * not exist.
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

/** @param partitions of the topic, with the brokers that lead them; less than 0 for none */
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

async function withDeadline<T>(work: Promise<T>, ms: number, message: string): Promise<T> {
  const result = await inTime(work, ms);
  if (result === LATE) throw new Error(message);
  return result;
}
