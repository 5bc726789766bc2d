/**
 * An open-loop producer. It sends the due records at each tick, however late the answers to earlier ticks
 * are. It writes down which records were due when. It is a program of its own, so that neither the worker nor
 * the benchmark can slow it down unseen.
 *
 * It prints its start, and at its end the delay of its sends.
 */
import { createWriteStream, type WriteStream } from 'node:fs';
import type { Producer } from 'kafkajs';
import { EncodedBatch, installProduceEncoder } from '../../../src/kafka/client/patches/produce';
import { MessageEncoder, RecordBatch } from '../../../src/kafka/protocol/record-batch-writer';
import { quietKafka } from '../../servers/guest';
import { type FeedMessage, makeFeed, USUAL_SHAPE } from '../feed';
import { percentiles, type Weighted } from '../statistics';
import { dueAt, type PacedEnd, type PacedStart, recordsDue, sentLine, TICK_MS, ticksIn } from './paced-lines';
import { numberSetting, setting } from './settings';

/** Time from the connection to the first tick. */
const LEAD_MS = 200;
const ACKNOWLEDGED_WITHIN_MS = 60_000;
const MAX_PENDING = 20_000;
const MAX_BYTES_AHEAD = 768 * 1024 * 1024;
/** Size of a record of the usual feed. */
const LIKELY_BYTES = 400;
/** Records that have to wait for their turn are sent in groups of at most this many. */
const MAX_RECORDS_A_SEND = 2_000;

const rate = numberSetting('RATE');
const partitions = numberSetting('PARTITIONS');
/** The sends of one tick in this many are written down; 0 for none. */
const recordEvery = numberSetting('RECORD_EVERY');
const topic = setting('TOPIC');
/**
 * Most sends without an acknowledgement; further due records wait for them. 0: it never waits, whether the
 * sends succeed or fail.
 */
const maxInFlight = numberSetting('MAX_IN_FLIGHT');
let pending = 0;
let held: FeedMessage[] = [];

/** The record batches of one send, one for each partition, with the number of records in each. */
type Made = ReadonlyMap<EncodedBatch, number>;

async function make(messages: readonly FeedMessage[]): Promise<Made> {
  const placed = Map.groupBy(messages, ({ key }) => partitionOf(key ?? ''));
  const encoder = new MessageEncoder();
  const batches = [...placed].map(async ([partition, list]): Promise<[EncodedBatch, number]> => {
    const batch = new RecordBatch(list.length * LIKELY_BYTES);
    for (const { key, value } of list) batch.add(encoder.encode({ key, value, headers: [] }));
    return [new EncodedBatch(partition, await batch.take(Date.now(), null)), list.length];
  });
  return new Map(await Promise.all(batches));
}

/** Sends the records that are due in a tick, and returns without waiting for the answer. */
function sendTick(
  producer: Producer,
  making: Made | Promise<Made>,
  scheduledAt: number,
  sends: WriteStream | null,
) {
  if (++pending > MAX_PENDING) throw new Error(`${pending} sends are not acknowledged`);
  const send = async () => {
    const made = await making;
    const acknowledged = await producer.send({ topic, messages: [...made.keys()] });
    pending--;
    sendHeld(producer);
    if (sends === null) return;
    const counts = new Map([...made].map(([batch, count]) => [batch.partition, count]));
    for (const { partition, baseOffset } of acknowledged) {
      const count = counts.get(partition) ?? 0;
      sends.write(sentLine({ scheduledAt, partition, baseOffset: Number(baseOffset), count }));
    }
  };
  send().catch(fail);
}

/**
 * Makes the records of the first ticks before the first tick is due. CPU that this program uses in the run
 * is missing to the measured worker. Makes none if sends may have to wait: their records are grouped when
 * their turn comes.
 */
async function makeAhead(ticks: number, feed: Generator<FeedMessage>): Promise<Ahead> {
  const ahead = new Ahead();
  while (maxInFlight === 0 && ahead.ticks < ticks && ahead.bytes < MAX_BYTES_AHEAD)
    ahead.put(await make(messagesOf(feed, ahead.ticks)));
  return ahead;
}

/** The place of a record batch that was made ahead, and its number of records. */
interface Place {
  readonly partition: number;
  readonly slab: Buffer;
  readonly from: number;
  readonly to: number;
  readonly count: number;
}

/**
 * Batches that were made ahead, in few large buffers. With a buffer for each batch, garbage collection took
 * more CPU than sending.
 */
class Ahead {
  private slab = Buffer.alloc(0);
  private end = 0;
  private readonly places: (readonly Place[])[] = [];
  bytes = 0;

  get ticks(): number {
    return this.places.length;
  }

  put(made: Made): void {
    this.places.push([...made].map(([{ partition, value }, count]) => this.placed(partition, value, count)));
  }

  private placed(partition: number, value: Buffer, count: number): Place {
    if (this.end + value.length > this.slab.length) {
      this.slab = Buffer.allocUnsafeSlow(Math.max(SLAB_BYTES, value.length));
      this.end = 0;
    }
    const { slab, end: from } = this;
    value.copy(slab, from);
    this.end += value.length;
    this.bytes += value.length;
    return { partition, slab, from, to: this.end, count };
  }

  /** @returns undefined for a tick that was not made */
  get(tick: number): Made | undefined {
    const places = this.places[tick];
    return (
      places &&
      new Map(
        places.map(({ partition, slab, from, to, count }) => [
          new EncodedBatch(partition, slab.subarray(from, to)),
          count,
        ]),
      )
    );
  }
}

const SLAB_BYTES = 64 * 1024 * 1024;

const messagesOf = (feed: Generator<FeedMessage>, tick: number) =>
  Array.from({ length: recordsDue(rate, tick) }, () => nextOf(feed));

/**
 * Sends the waiting records in groups. A send for each tick would flood a broker with retried requests after
 * half a minute of absence.
 */
function sendHeld(producer: Producer): void {
  while (held.length > 0 && pending < maxInFlight) {
    const messages = held.slice(0, MAX_RECORDS_A_SEND);
    held = held.slice(MAX_RECORDS_A_SEND);
    sendTick(producer, make(messages), Date.now(), null);
  }
}

/** Kafka may be away for a minute: records due meanwhile are sent late, and some of them twice. */
const RETRY = { initialRetryTime: 100, maxRetryTime: 1_000, retries: 60 };

/** Any hash works, if it is the same for all records of a player. */
function partitionOf(key: string): number {
  let hash = 0;
  for (let index = 0; index < key.length; index++) hash = (Math.imul(hash, 31) + key.charCodeAt(index)) >>> 0;
  return hash % partitions;
}

async function keepPace(producer: Producer, sends: WriteStream | null): Promise<PacedEnd> {
  const ticks = ticksIn(numberSetting('SECONDS'));
  const shape = {
    ...USUAL_SHAPE,
    resendShare: numberSetting('RESEND_SHARE'),
    events: Number.MAX_SAFE_INTEGER,
  };
  const feed = makeFeed(shape, process.pid);
  const ahead = await makeAhead(ticks, feed);
  const startedAt = Date.now() + LEAD_MS;
  print({ startedAt });
  const lateness: Weighted[] = [];
  let records = 0;
  for (let tick = 0; tick < ticks; tick++) {
    const scheduledAt = dueAt(startedAt, tick);
    // Behind the schedule it does not wait, and the schedule stays as it is.
    const wait = scheduledAt - Date.now();
    if (wait > 0) await new Promise((resolve) => setTimeout(resolve, wait));
    else if (tick % YIELD_TICKS === 0) await new Promise(setImmediate);
    const count = recordsDue(rate, tick);
    if (count === 0) continue;
    if (maxInFlight > 0) {
      held.push(...messagesOf(feed, tick));
      sendHeld(producer);
    } else {
      const making = ahead.get(tick) ?? make(messagesOf(feed, tick));
      sendTick(producer, making, scheduledAt, recordEvery > 0 && tick % recordEvery === 0 ? sends : null);
    }
    lateness.push({ value: Date.now() - scheduledAt, count });
    records += count;
  }
  await untilAcknowledged();
  const [half = 0, most = 0] = percentiles(lateness, [0.5, 0.99]);
  return { records, lateP50Ms: half, lateP99Ms: most };
}

/** Behind the schedule, the program still has to yield for answers. */
const YIELD_TICKS = 4;

function nextOf(feed: Generator<FeedMessage>): FeedMessage {
  const next = feed.next();
  if (next.done === true) throw new Error('the feed has ended');
  return next.value;
}

async function untilAcknowledged(): Promise<void> {
  const end = Date.now() + ACKNOWLEDGED_WITHIN_MS;
  while (pending > 0 || held.length > 0) {
    if (Date.now() > end) throw new Error(`${pending} sends were not acknowledged`);
    await new Promise((resolve) => setTimeout(resolve, TICK_MS));
  }
}

function print(line: PacedStart | PacedEnd): void {
  process.stdout.write(`${JSON.stringify(line)}\n`);
}

function fail(error: unknown): never {
  console.error(error);
  process.exit(1);
}

async function main(): Promise<void> {
  installProduceEncoder();
  const kafka = quietKafka({
    brokers: setting('KAFKA_BROKERS').split(','),
    retry: RETRY,
  });
  const producer = kafka.producer({ allowAutoTopicCreation: false });
  await producer.connect();
  // The first send also fetches the topic's metadata, which would delay it.
  await producer.send({ topic, messages: [] }).catch(() => {});
  const sends = recordEvery > 0 ? createWriteStream(setting('SENDS_FILE')) : null;
  const end = await keepPace(producer, sends);
  if (sends !== null) await new Promise<void>((resolve) => sends.end(resolve));
  await producer.disconnect();
  print(end);
}

main().catch(fail);
