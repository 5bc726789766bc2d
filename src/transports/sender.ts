/** Sends messages to Kafka: verdicts, dead letters, and what `publish` reads. */
import { CompressionTypes, type Kafka, KafkaJSProtocolError, type Producer } from 'kafkajs';
import { codecs, connectedAdmin } from './kafka';
import { EncodedBatch, installProduceEncoder } from './produce-encoding';
import {
  bytesOf,
  type Compressor,
  encodeRecordBatch,
  MAX_BYTES_PER_UNIT,
  type OutgoingMessage,
} from './record-batch-writer';

export interface Sender {
  /**
   * Resolves once all in-sync replicas have the messages. Those of a partition stay in their order.
   *
   * @throws RecordsRefused where the brokers refuse some for what they are; all the others are stored
   * @throws where the brokers do not acknowledge within the sender's time limit
   */
  send(topic: string, messages: readonly OutgoingMessage[]): Promise<void>;
  stop(): Promise<void>;
}

/** Brokers refuse these messages, as too large for one, and would again. */
export class RecordsRefused extends Error {
  override readonly name = 'RecordsRefused';
  /** @param refused the brokers' words by message */
  constructor(readonly refused: ReadonlyMap<OutgoingMessage, string>) {
    super([...new Set(refused.values())].join('; '));
  }
}

/** A request that the brokers do not acknowledge within this time is an error. */
const SEND_TIMEOUT_MS = 10_000;
/** Half of what brokers take by default, so that only a message alone can be too large for them. */
const BATCH_BYTES = 512 * 1024;
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
  { compression = 'none', timeoutMs = SEND_TIMEOUT_MS, retries = 3 }: SenderOptions = {},
): Promise<Sender> {
  installProduceEncoder();
  const producer = kafka.producer({ allowAutoTopicCreation: false, retry: { retries } });
  await producer.connect();
  const choosers = makeChoosers(kafka);

  return {
    async send(topic, messages) {
      try {
        const choose = messages.every(({ partition }) => partition !== undefined)
          ? null
          : await choosers.of(topic);
        const refused = new Map<OutgoingMessage, string>();
        for (const batches of inRequests(messages, choose)) await deliver(topic, batches, refused);
        if (refused.size > 0) throw new RecordsRefused(refused);
      } catch (error) {
        if (!(error instanceof RecordsRefused)) choosers.forget(topic);
        throw error;
      }
    },
    stop: () => producer.disconnect(),
  };

  /** Sends one batch a partition. Where the brokers refuse a record, those beside it are sent without it. */
  async function deliver(
    topic: string,
    batches: readonly PartitionBatch[],
    refused: Map<OutgoingMessage, string>,
  ): Promise<void> {
    try {
      await request(producer, topic, batches);
    } catch (error) {
      const refusal = recordRefusal(error);
      if (refusal === null) throw error;
      for (const part of smaller(batches)) await deliver(topic, part, refused);
      for (const message of onlyMessageOf(batches)) refused.set(message, refusal);
    }
  }

  async function request(
    producer: Producer,
    topic: string,
    batches: readonly PartitionBatch[],
  ): Promise<void> {
    const now = Date.now();
    const messages = await Promise.all(
      batches.map(
        async (batch) =>
          new EncodedBatch(
            batch.partition,
            await encodeRecordBatch(batch.messages, now, COMPRESSIONS[compression]),
          ),
      ),
    );
    const sending = producer.send({ topic, acks: ALL_IN_SYNC, timeout: SEND_TIMEOUT_MS, messages });
    const taken = await withDeadline(
      sending,
      timeoutMs,
      `${topic} did not acknowledge within ${timeoutMs} ms`,
    );
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
  if (missing !== undefined) throw new Error(`${topic} has no partition ${missing.partition}`);
}

const ALL_IN_SYNC = -1;

interface PartitionBatch {
  readonly partition: number;
  readonly messages: readonly OutgoingMessage[];
}

/** Messages by partition, at most BATCH_BYTES each time; a message alone may be larger. */
function inRequests(
  messages: readonly OutgoingMessage[],
  choose: PartitionChooser | null,
): readonly (readonly PartitionBatch[])[] {
  const requests: PartitionBatch[][] = [];
  const open = new Map<number, { number: number; bytes: number; messages: OutgoingMessage[] }>();
  for (const message of messages) {
    const partition = message.partition ?? choose?.(message.key) ?? 0;
    const bytes = bytesOf(message);
    const last = open.get(partition);
    if (last !== undefined && last.bytes + bytes <= BATCH_BYTES) {
      last.bytes += bytes;
      last.messages.push(message);
      continue;
    }
    const next = { number: last === undefined ? 0 : last.number + 1, bytes, messages: [message] };
    open.set(partition, next);
    const request = requests[next.number] ?? [];
    requests[next.number] = request;
    request.push({ partition, messages: next.messages });
  }
  return requests;
}

/** The same in smaller requests, as far as there are any: by partition, then by halves. */
function smaller(batches: readonly PartitionBatch[]): readonly (readonly PartitionBatch[])[] {
  if (batches.length > 1) return batches.map((batch) => [batch]);
  return batches.flatMap(({ partition, messages }) => {
    if (messages.length === 1) return [];
    const middle = Math.ceil(messages.length / 2);
    return [messages.slice(0, middle), messages.slice(middle)].map((half) => [{ partition, messages: half }]);
  });
}

function onlyMessageOf(batches: readonly PartitionBatch[]): readonly OutgoingMessage[] {
  const messages = batches.flatMap((batch) => batch.messages);
  return messages.length === 1 ? messages : [];
}

/** What the brokers say of the records themselves, one by one, so that the others of a batch may still be taken. */
const RECORD_REFUSALS = new Set(['MESSAGE_TOO_LARGE', 'RECORD_LIST_TOO_LARGE', 'INVALID_RECORD']);

/** The brokers' words where they refuse a batch for a record in it; null for every other error. */
function recordRefusal(error: unknown): string | null {
  return error instanceof KafkaJSProtocolError && RECORD_REFUSALS.has(error.type) ? error.message : null;
}

// --- which partition

export type PartitionChooser = (key: Buffer | string | null) => number;

/** Choosers of the topics that are sent to. */
function makeChoosers(kafka: Kafka) {
  const known = new Map<string, { choose: PartitionChooser; since: number }>();
  return {
    /** @throws where the topic does not exist */
    async of(topic: string): Promise<PartitionChooser> {
      const found = known.get(topic);
      if (found !== undefined && Date.now() - found.since < METADATA_MAX_AGE_MS) return found.choose;
      const choose = await partitionChooser(kafka, topic);
      if (choose === null) throw new Error(`Kafka has no topic ${topic}, or does not show it to us`);
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
  return (key) => {
    if (key !== null) return (hashOf(key) & 0x7fffffff) % partitions.length;
    return led[turn++ % led.length]?.partitionId ?? 0;
  };
}

function hashOf(key: Buffer | string): number {
  if (typeof key !== 'string') return murmur2(key, key.length);
  // A Buffer for each key would cost more than its hash.
  if (key.length * MAX_BYTES_PER_UNIT <= keyBytes.length) return murmur2(keyBytes, keyBytes.write(key));
  const bytes = Buffer.from(key);
  return murmur2(bytes, bytes.length);
}

const keyBytes = Buffer.alloc(1_024);

const MURMUR_SEED = 0x9747b28c;
const MURMUR_FACTOR = 0x5bd1e995;

/** https://github.com/apache/kafka/blob/3.9.0/clients/src/main/java/org/apache/kafka/common/utils/Utils.java (murmur2) */
function murmur2(bytes: Buffer, length: number): number {
  let hash = MURMUR_SEED ^ length;
  let at = 0;
  for (; at + 4 <= length; at += 4) {
    let word = Math.imul(bytes.readInt32LE(at), MURMUR_FACTOR);
    word = Math.imul(word ^ (word >>> 24), MURMUR_FACTOR);
    hash = Math.imul(hash, MURMUR_FACTOR) ^ word;
  }
  if (at < length) {
    hash ^= bytes.readUIntLE(at, length - at);
    hash = Math.imul(hash, MURMUR_FACTOR);
  }
  hash = Math.imul(hash ^ (hash >>> 13), MURMUR_FACTOR);
  return hash ^ (hash >>> 15);
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
