/**
 * An open-loop producer: it sends what is due at each tick, however late the answers to earlier ticks are, and writes down which records
 * were due when. A program of its own, so that neither the worker nor the benchmark can slow it down unseen.
 *
 * It prints its start, and its end with how late its sends were.
 */
import { createWriteStream, type WriteStream } from 'node:fs';
import { Kafka, logLevel, type Producer } from 'kafkajs';
import { EncodedBatch, installProduceEncoder } from '../../../src/kafka/client/patches/produce';
import { MessageEncoder, RecordBatch } from '../../../src/kafka/protocol/record-batch-writer';
import { groupBy } from '../../../src/lib/group-by';
import { type FeedMessage, makeFeed, USUAL_SHAPE } from '../feed';
import { dueAt, recordsDue, TICK_MS, ticksIn } from '../pacing';
import { percentiles, type Weighted } from '../statistics';
import { type PacedEnd, type PacedStart, sentLine } from './paced-lines';
import { told, toldNumber } from './settings';

/** From being connected to the first tick. */
const LEAD_MS = 200;
const ACKNOWLEDGED_WITHIN_MS = 60_000;
const MAX_PENDING = 20_000;
const MAX_BYTES_AHEAD = 768 * 1024 * 1024;
/** Of a record of the usual feed. */
const LIKELY_BYTES = 400;
/** Of what has to wait for its turn, so many records go into one send. */
const MAX_RECORDS_A_SEND = 2_000;

const rate = toldNumber('RATE');
const partitions = toldNumber('PARTITIONS');
/** The sends of each so-manieth tick are written down; 0 for none. */
const recordEvery = toldNumber('RECORD_EVERY');
const topic = told('TOPIC');
/** Sends that are not acknowledged, at most; what is due beyond waits for them. 0: it never waits, whatever becomes of it. */
const maxInFlight = toldNumber('MAX_IN_FLIGHT');
let pending = 0;
let held: FeedMessage[] = [];

/** What is sent at once: a record batch for each partition, and how many records it holds. */
type Made = ReadonlyMap<EncodedBatch, number>;

async function make(messages: readonly FeedMessage[]): Promise<Made> {
  const placed = groupBy(messages, ({ key }) => partitionOf(key));
  const encoder = new MessageEncoder();
  const batches = [...placed].map(async ([partition, list]): Promise<[EncodedBatch, number]> => {
    const batch = new RecordBatch(list.length * LIKELY_BYTES);
    for (const { key, value } of list) batch.add(encoder.encode({ key, value, headers: [] }));
    return [new EncodedBatch(partition, await batch.take(Date.now(), null)), list.length];
  });
  return new Map(await Promise.all(batches));
}

/** Sends what is due in a tick, and returns without waiting for the answer. */
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
 * The first ticks' records, made before the first is due: what this program takes of the machine is not there for the worker that it measures.
 * Nothing where sends may have to wait: those are put together when their turn comes.
 */
async function makeAhead(ticks: number, feed: Generator<FeedMessage>): Promise<Ahead> {
  const ahead = new Ahead();
  while (maxInFlight === 0 && ahead.ticks < ticks && ahead.bytes < MAX_BYTES_AHEAD)
    ahead.put(await make(messagesOf(feed, ahead.ticks)));
  return ahead;
}

/** Where a record batch stands that was made ahead, and how many records it holds. */
interface Place {
  readonly partition: number;
  readonly slab: Buffer;
  readonly from: number;
  readonly to: number;
  readonly count: number;
}

/** What is made ahead, in few large buffers: as a buffer for each batch, collecting garbage took more CPU than sending them. */
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

/** A send for each tick would drown a broker that comes back after half a minute in requests that are tried again. */
function sendHeld(producer: Producer): void {
  while (held.length > 0 && pending < maxInFlight) {
    const messages = held.slice(0, MAX_RECORDS_A_SEND);
    held = held.slice(MAX_RECORDS_A_SEND);
    sendTick(producer, make(messages), Date.now(), null);
  }
}

/** Kafka may be away for a minute: what is due meanwhile is sent late, and some of it twice. */
const RETRY = { initialRetryTime: 100, maxRetryTime: 1_000, retries: 60 };

/** Any hash does; it only has to be the same for a player's records. */
function partitionOf(key: string): number {
  let hash = 0;
  for (let index = 0; index < key.length; index++) hash = (Math.imul(hash, 31) + key.charCodeAt(index)) >>> 0;
  return hash % partitions;
}

async function keepPace(producer: Producer, sends: WriteStream | null): Promise<PacedEnd> {
  const ticks = ticksIn(toldNumber('SECONDS'));
  const shape = { ...USUAL_SHAPE, resendShare: toldNumber('RESEND_SHARE'), events: Number.MAX_SAFE_INTEGER };
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

/** Behind the schedule, answers still have to be taken. */
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
  const kafka = new Kafka({
    brokers: told('KAFKA_BROKERS').split(','),
    logLevel: logLevel.NOTHING,
    retry: RETRY,
  });
  const producer = kafka.producer({ allowAutoTopicCreation: false });
  await producer.connect();
  // The first send also asks for the topic's metadata, which would make it late.
  await producer.send({ topic, messages: [] }).catch(() => {});
  const sends = recordEvery > 0 ? createWriteStream(told('SENDS_FILE')) : null;
  const end = await keepPace(producer, sends);
  if (sends !== null) await new Promise<void>((resolve) => sends.end(resolve));
  await producer.disconnect();
  print(end);
}

main().catch(fail);
