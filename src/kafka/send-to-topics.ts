/** Sends items to many topics by one request to each broker, whatever the number of topics. */
import { BufferPool } from '../lib/buffer-pool';
import { inTime, LATE, systemClock } from '../lib/clock';
import { keyOf } from '../lib/topic-partition';
import type { BatchesOfTopic, ManyTopics } from './client/patches/many-topics';
import { EncodedBatch } from './client/patches/produce';
import {
  type ChoosersOfMany,
  type Encode,
  firstBatches,
  MOST_BATCH_BYTES,
  type PartitionBatch,
  type PartitionChooser,
} from './partition-batches';
import { HEADER_BYTES } from './protocol/record-batch-layout';
import { RecordBatch } from './protocol/record-batch-writer';

/** A request fails where the brokers do not acknowledge it within this time. */
export const SEND_TIMEOUT_MS = 10_000;
/** The bytes of a message in the first request. */
const USUAL_MESSAGE_BYTES = 512;
/** Few long messages must not make the buffer of the next request large. */
const MOST_MESSAGE_BYTES = 2 * USUAL_MESSAGE_BYTES;
/** Spare room of a batch: the messages of an operator may be longer than those of others. */
const ROOM = 1.125;

/** The first items of a topic in their batches. */
interface Sending<T> {
  readonly topic: string;
  readonly batches: readonly PartitionBatch<T>[];
  /** The items that the batches have no room for. */
  readonly next: readonly T[];
}

/**
 * The first batches of all topics share one buffer: hundreds of small ones cost more than their messages.
 */
const pool = new BufferPool();

export function makeSendToTopics(sendOnce: ManyTopics['sendOnce'], choosers: ChoosersOfMany) {
  /** The likely bytes of a message: those of the last request. A batch that outgrows its room is copied. */
  let messageBytes = USUAL_MESSAGE_BYTES;

  /** See `TopicsProducer`. */
  return async <T>(
    items: ReadonlyMap<string, readonly T[]>,
    encode: Encode<T>,
  ): Promise<ReadonlyMap<string, readonly T[]>> => {
    const unsent = new Map<string, readonly T[]>();
    let rest = items;
    while (rest.size > 0) {
      const choose = await choosersOf(rest.keys());
      for (const [topic, its] of rest) if (!choose.has(topic)) unsent.set(topic, its);
      const shared = pool.take(roomForAll(rest, messageBytes));
      const sending = inBatches(rest, encode, choose, shared, messageBytes);
      messageBytes = likelyMessageBytes(sending) ?? messageBytes;
      const isStored = await request(sending, () => pool.give(shared));
      const next = new Map<string, readonly T[]>();
      for (const { topic, batches, next: its } of sending) {
        const refused = batches.filter(({ partition }) => !isStored(topic, partition));
        if (refused.length > 0) unsent.set(topic, [...refused.flatMap((batch) => batch.items), ...its]);
        else if (its.length > 0) next.set(topic, its);
      }
      rest = next;
    }
    return unsent;
  };

  /** The choosers of the topics that exist. A topic that is created late must not keep the others waiting. */
  async function choosersOf(topics: Iterable<string>): Promise<ReadonlyMap<string, PartitionChooser>> {
    await inTime(
      systemClock,
      choosers.refresh().catch(() => undefined),
      SEND_TIMEOUT_MS,
    );
    const found = new Map<string, PartitionChooser>();
    const unknown: string[] = [];
    for (const topic of topics) {
      const choose = choosers.known(topic);
      if (choose === null) unknown.push(topic);
      else found.set(topic, choose);
    }
    await Promise.all(
      unknown.map(async (topic) => {
        const made = choosers.of(topic).catch(() => LATE);
        const choose = await inTime(systemClock, made, SEND_TIMEOUT_MS);
        if (typeof choose === 'function') found.set(topic, choose);
      }),
    );
    return found;
  }

  /**
   * @param onSettled called once nothing needs the batches any more
   * @returns whether the partition of a topic has stored its batch
   */
  async function request<T>(
    sending: readonly Sending<T>[],
    onSettled: () => void,
  ): Promise<(topic: string, partition: number) => boolean> {
    const now = Date.now();
    const stored = new Set<string>();
    const topics: BatchesOfTopic[] = sending
      .filter(({ batches }) => batches.length > 0)
      .map(({ topic, batches }) => ({
        topic,
        batches: batches.map(({ partition, records }) => new EncodedBatch(partition, records.takePlain(now))),
      }));
    if (topics.length > 0) {
      const sent = sendOnce(topics, SEND_TIMEOUT_MS, (topic, partition) => {
        stored.add(keyOf({ topic, partition }));
      });
      // A topic whose batch is not stored is tried again, alone, and its error is thrown then.
      const settled = sent.catch(() => undefined).then(onSettled);
      await inTime(systemClock, settled, SEND_TIMEOUT_MS);
    }
    return (topic, partition) => stored.has(keyOf({ topic, partition }));
  }
}

/** From the bytes of the batches; undefined where they have no message. */
function likelyMessageBytes(sending: readonly Sending<unknown>[]): number | undefined {
  let [bytes, messages] = [0, 0];
  for (const { batches } of sending)
    for (const { items, records } of batches) {
      bytes += records.bytes - HEADER_BYTES;
      messages += items.length;
    }
  return messages === 0 ? undefined : Math.min(MOST_MESSAGE_BYTES, Math.ceil((ROOM * bytes) / messages));
}

/** @param shared holds the first batch of each topic */
function inBatches<T>(
  items: ReadonlyMap<string, readonly T[]>,
  encode: Encode<T>,
  choose: ReadonlyMap<string, PartitionChooser>,
  shared: Buffer,
  messageBytes: number,
): readonly Sending<T>[] {
  let at = 0;
  const sending: Sending<T>[] = [];
  for (const [topic, its] of items) {
    const chooser = choose.get(topic);
    if (chooser === undefined) continue;
    const room = roomFor(its, messageBytes);
    const own = shared.subarray(at, at + room);
    at += room;
    let made = 0;
    const newBatch = () => new RecordBatch(made++ === 0 ? own : room);
    const { batches, taken } = firstBatches(its, encode, chooser, newBatch);
    sending.push({ topic, batches, next: taken === its.length ? NONE : its.slice(taken) });
  }
  return sending;
}

function roomForAll(items: ReadonlyMap<string, readonly unknown[]>, messageBytes: number): number {
  let bytes = 0;
  for (const its of items.values()) bytes += roomFor(its, messageBytes);
  return bytes;
}

function roomFor(items: readonly unknown[], messageBytes: number): number {
  return Math.min(HEADER_BYTES + items.length * messageBytes, MOST_BATCH_BYTES);
}

const NONE: readonly never[] = [];
