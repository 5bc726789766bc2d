/**
 * `promo-intake publish FILE`: sends each line of a file to Kafka as it is. No event is validated: what the intake says of an event that
 * is wrong is often the very thing to find out. A line that is no event at all is refused: a batch, and without --force what is no JSON object.
 */
import { isUtf8 } from 'node:buffer';
import { statSync } from 'node:fs';
import { constants as zlibConstants } from 'node:zlib';
import { readConfig } from '../config';
import { typeOf } from '../domain/printable';
import { whyUnreadable } from '../domain/unreadable';
import { messageOf } from '../errors';
import { makeLogger } from '../telemetry';
import { isObject, parseJson } from '../transports/json';
import { makeKafka, noTopic } from '../transports/kafka';
import {
  type Compression,
  encodeMessages,
  makeSender,
  type PartitionChooser,
  partitionChooser,
  RecordsRefused,
  type Sender,
} from '../transports/sender';
import { DONE, FAILED, USAGE } from './exit-codes';
import { explainShortly, Unable } from './explain';
import { isBatchOfEvents, type Line, MAX_LINE_BYTES, openInput, readLines, withoutDocument } from './lines';
import { messagesTaken } from './output';
import { PUBLISH_SETTINGS } from './settings';
import { clearLine } from './terminal';

export interface PublishOptions {
  /** `-` is standard input. */
  readonly file: string;
  readonly topic: string;
  /** Named in the header `connection-id` of every record (docs/rules.md, C5). */
  readonly connection: string | undefined;
  readonly compression: Compression;
  /** Lines that are no JSON objects are sent as well. */
  readonly force: boolean;
}

/** Asking whether Kafka is there should not take long to fail. */
const CONNECT_RETRIES = 2;
/** A batch is tried again until then: longer than a broker takes to restart. */
const SEND_TIMEOUT_MS = 30_000;
const SEND_RETRIES = 12;
/** Half of what a broker takes by default, so that only a line can be too large for it. */
const BATCH_BYTES = 512 * 1024;
const BATCH_LINES = 2_000;
const BATCHES_IN_FLIGHT = 4;
/** Read ahead of what is sent. A line alone may be longer. */
const MAX_WAITING_BYTES = 8 * 1024 * 1024;
const WARNINGS_SHOWN = 10;
const RANGES_SHOWN = 20;

/** @returns the exit code: 1 where a line is not delivered, or it was interrupted */
export async function publish(options: PublishOptions, stop: AbortSignal): Promise<number> {
  const { file, topic, connection, compression, force } = options;
  const config = readConfig(process.env, PUBLISH_SETTINGS);
  if (compression === 'zstd' && !('ZSTD_c_compressionLevel' in zlibConstants)) {
    console.error(`--compression zstd needs Node 22.15 or newer; this is ${process.version}`);
    return USAGE;
  }
  // What the client has to report comes as errors, with the lines that they concern.
  const logger = makeLogger('silent');
  const cluster = { ...config.KAFKA, clientId: 'promo-intake-publish' };
  const asking = makeKafka({ ...cluster, retries: CONNECT_RETRIES }, logger);
  const choosePartition = await unlessStopped(partitionChooser(asking, topic), stop);
  if (choosePartition === undefined || choosePartition === null) {
    const problem = `${noTopic(topic)}. Create it, or correct --topic.`;
    console.error(`${choosePartition === null ? problem : 'interrupted.'} Nothing was sent.`);
    return FAILED;
  }

  const sender = await makeSender(makeKafka(cluster, logger), {
    compression,
    timeoutMs: SEND_TIMEOUT_MS,
    retries: SEND_RETRIES,
  });
  const report = makeReport(file);
  const delivery = makeDelivery({ sender, topic, connection, choosePartition, report, force });
  // Input may be long in coming: a failure ends the wait for it.
  const ending = AbortSignal.any([stop, delivery.failed]);
  try {
    const lines = readLines(report.counted(openInput(file, ending)));
    for await (const some of withoutDocument(lines, (from, to) => overLines(file, from, to)))
      await delivery.add(some);
  } catch (error) {
    if (error instanceof Unable) throw error;
    if (!ending.aborted) report.unreadable(error);
  } finally {
    await delivery.end();
    report.close();
    await sender.stop();
  }
  return report.summary(topic, delivery.nextLine(), stop.aborted);
}

function overLines(file: string, from: number, to: number): Unable {
  return new Unable(
    `${file}: line ${from} begins a JSON document that goes on in line ${to}, and each line is sent as a record. Write an event a line. Nothing was sent.`,
  );
}

/** Undefined where it is told to stop first. */
async function unlessStopped<T>(work: Promise<T>, stop: AbortSignal): Promise<T | undefined> {
  const stopped = new Promise<undefined>((resolve) => {
    if (stop.aborted) resolve(undefined);
    stop.addEventListener('abort', () => resolve(undefined), { once: true });
  });
  return Promise.race([work, stopped]);
}

// --- lines to records

interface Outgoing {
  readonly number: number;
  readonly key: string | null;
  readonly bytes: Buffer;
}

/**
 * The events of one player stay in order, since their key, and so their partition, is the player.
 *
 * @returns undefined where the line is no event, which is reported
 */
function toOutgoing(number: number, bytes: Buffer, report: Report, force: boolean): Outgoing | undefined {
  const json = isUtf8(bytes) ? parseJson(bytes.toString('utf8')) : undefined;
  if (isBatchOfEvents(json)) {
    report.refused({ number, bytes }, 'it is a batch, and a record is one event: write an event a line');
    return undefined;
  }
  if (!isObject(json)) {
    if (force) {
      report.warn(number, 'is no JSON object; it is sent as it is');
      return { number, key: null, bytes };
    }
    const why =
      json === undefined ? `it ${whyUnreadable(bytes)}` : `it is ${typeOf(json)}, and no JSON object`;
    report.refused({ number, bytes }, `${why}. --force sends it as it is`);
    return undefined;
  }
  const key = [Reflect.get(json, 'player_ref'), Reflect.get(json, 'event_id')].find(isKey);
  return { number, key: key ?? null, bytes };
}

function isKey(value: unknown): value is string {
  return typeof value === 'string' && value !== '';
}

// --- delivery

interface DeliveryDeps {
  readonly sender: Sender;
  readonly topic: string;
  readonly connection: string | undefined;
  readonly choosePartition: PartitionChooser;
  readonly report: Report;
  readonly force: boolean;
}

/** The lines that wait for one partition. They are sent in order, one batch at a time. */
interface Lane {
  readonly partition: number;
  waiting: Outgoing[];
  sending: boolean;
}

/**
 * Sends lines in batches of one partition each, which a broker takes whole or not at all: so it is known of each line whether it was
 * taken, and nothing is sent twice for a neighbour that is too large. Batches form while others are in flight.
 */
function makeDelivery({ sender, topic, connection, choosePartition, report, force }: DeliveryDeps) {
  const headers = connection === undefined ? [] : [['connection-id', connection] as const];
  const lanes = new Map<number, Lane>();
  const ready: Lane[] = [];
  let inFlight = 0;
  let waitingBytes = 0;
  let lastLine = 0;
  const failure = new AbortController();
  const failed = failure.signal;
  let wake = () => {};

  function laneOf(partition: number): Lane {
    const lane = lanes.get(partition) ?? { partition, waiting: [], sending: false };
    lanes.set(partition, lane);
    return lane;
  }

  function startBatches(): void {
    while (inFlight < BATCHES_IN_FLIGHT && !failed.aborted) {
      const lane = ready.shift();
      if (lane === undefined) return;
      inFlight++;
      void deliver(takeBatch(lane), lane).finally(() => {
        inFlight--;
        lane.sending = lane.waiting.length > 0;
        if (lane.sending) ready.push(lane);
        startBatches();
        wake();
      });
    }
  }

  function takeBatch(lane: Lane): Outgoing[] {
    let bytes = 0;
    let count = 0;
    for (const line of lane.waiting) {
      bytes += line.bytes.length;
      if (count === BATCH_LINES || (count > 0 && bytes > BATCH_BYTES)) break;
      count++;
    }
    return lane.waiting.splice(0, count);
  }

  /** Never throws: what Kafka does not answer for ends the delivery. */
  async function deliver(batch: readonly Outgoing[], lane: Lane): Promise<void> {
    const { partition } = lane;
    const messages = batch.map(({ key, bytes }) => ({ key, value: bytes, headers, partition }));
    try {
      await sender.send(topic, messages, encodeMessages());
      report.sent(batch);
    } catch (error) {
      if (!(error instanceof RecordsRefused)) {
        lane.waiting.push(...batch);
        report.stopped(batch, error);
        failure.abort();
        return;
      }
      const refusals = messages.map((message) => error.refused.get(message));
      report.sent(batch.filter((_, index) => refusals[index] === undefined));
      batch.forEach((line, index) => {
        const why = refusals[index];
        if (why !== undefined) report.refused(line, why);
      });
    }
    waitingBytes -= bytesOf(batch);
  }

  /** Waits until batches have ended so far that `isEnough`. */
  async function until(isEnough: () => boolean): Promise<void> {
    while (!isEnough()) {
      await new Promise<void>((resolve) => {
        wake = resolve;
      });
    }
  }

  return {
    /** Resolves once there is room for more. */
    async add(lines: readonly Line[]): Promise<void> {
      for (const { number, bytes } of lines) {
        lastLine = number;
        if (bytes === null) {
          report.refused({ number }, `it is longer than ${MAX_LINE_BYTES} bytes, which no record may be`);
          continue;
        }
        const line = toOutgoing(number, bytes, report, force);
        if (line === undefined) continue;
        const lane = laneOf(choosePartition(line.key === null ? null : Buffer.from(line.key)));
        lane.waiting.push(line);
        waitingBytes += bytes.length;
        if (!lane.sending) {
          lane.sending = true;
          ready.push(lane);
        }
      }
      await messagesTaken();
      startBatches();
      await until(() => failed.aborted || waitingBytes <= MAX_WAITING_BYTES);
    },
    /** Resolves once every line was sent, or none can be any more. */
    end: () => until(() => inFlight === 0 && (failed.aborted || ready.length === 0)),
    /** Aborted once Kafka does not answer for a batch: nothing more is sent then. */
    failed,
    /** Where to go on: all before this line was sent or refused. */
    nextLine: () =>
      [...lanes.values()]
        .flatMap(({ waiting }) => waiting)
        .reduce((first, line) => Math.min(first, line.number), lastLine + 1),
  };
}

function bytesOf(lines: readonly Outgoing[]): number {
  return lines.reduce((sum, { bytes }) => sum + bytes.length, 0);
}

// --- what is told

const TERMINAL_PROGRESS_MS = 250;
const LOG_PROGRESS_MS = 5_000;

type Report = ReturnType<typeof makeReport>;

/** Counts, and tells on stderr: warnings and errors as they happen, progress in between. The result is on stdout. */
function makeReport(file: string) {
  const started = performance.now();
  const isTerminal = process.stderr.isTTY;
  const size = file === '-' ? undefined : regularSize(file);
  let readBytes = 0;
  let sent = 0;
  let sentBytes = 0;
  let refused = 0;
  let warnings = 0;
  let failed = false;

  const seconds = () => (performance.now() - started) / 1000;
  const figures = () =>
    `${number(sent)} ${sent === 1 ? 'event' : 'events'}, ${number(sent / seconds())}/s, ${(sentBytes / 1e6).toFixed(1)} MB`;
  const clear = () => {
    if (isTerminal) clearLine(process.stderr);
  };
  const say = (text: string) => {
    clear();
    process.stderr.write(`${file}${text}\n`);
  };
  const showProgress = () => {
    const share = size ? `, ${Math.floor((readBytes / size) * 100)} % read` : '';
    if (!isTerminal) return say(`: ${figures()}${share}`);
    clear();
    process.stderr.write(`${figures()}${share}`);
  };
  const timer = setInterval(showProgress, isTerminal ? TERMINAL_PROGRESS_MS : LOG_PROGRESS_MS);

  return {
    async *counted(chunks: AsyncIterable<Buffer>): AsyncGenerator<Buffer> {
      for await (const chunk of chunks) {
        readBytes += chunk.length;
        yield chunk;
      }
    },
    warn(line: number, problem: string): void {
      if (++warnings <= WARNINGS_SHOWN) say(`:${line}: warning: ${problem}`);
    },
    sent(batch: readonly Outgoing[]): void {
      sent += batch.length;
      sentBytes += bytesOf(batch);
    },
    refused(
      { number: line, bytes }: { readonly number: number; readonly bytes?: Buffer },
      why: string,
    ): void {
      refused++;
      say(`:${line}: not delivered${bytes ? ` (${number(bytes.length)} bytes)` : ''}: ${why}`);
    },
    stopped(batch: readonly Outgoing[], error: unknown): void {
      failed = true;
      const why = explainShortly(error);
      say(`: not delivered: lines ${ranges(batch.map((line) => line.number))}: ${why}`);
    },
    unreadable(error: unknown): void {
      failed = true;
      say(`: cannot be read any further: ${messageOf(error)}`);
    },
    close(): void {
      clearInterval(timer);
      clear();
    },
    /** @returns the exit code */
    summary(topic: string, nextLine: number, interrupted: boolean): number {
      const notes = [
        ...(warnings > 0
          ? [`${number(warnings)} ${warnings === 1 ? 'is no JSON object' : 'are no JSON objects'}`]
          : []),
        ...(refused > 0 ? [`${number(refused)} not delivered`] : []),
      ];
      console.log(`sent to ${topic}: ${[figures(), ...notes].join('; ')}`);
      if (failed || interrupted) {
        console.error(
          `${file}: ${failed ? 'stopped' : 'interrupted'}. Go on from line ${nextLine}: all before it is dealt with. ` +
            'What is sent twice is a duplicate to the intake.',
        );
      }
      return failed || refused > 0 || warnings > 0 || interrupted ? FAILED : DONE;
    },
  };
}

/** Undefined where the size says nothing of what will be read, as of a pipe. */
function regularSize(file: string): number | undefined {
  const status = statSync(file);
  return status.isFile() ? status.size : undefined;
}

function number(value: number): string {
  return Math.round(value).toLocaleString('en');
}

/** "3-7, 9" */
function ranges(ascending: readonly number[]): string {
  const found: [number, number][] = [];
  for (const line of ascending) {
    const last = found.at(-1);
    if (last !== undefined && last[1] === line - 1) last[1] = line;
    else found.push([line, line]);
  }
  const shown = found.slice(0, RANGES_SHOWN).map(([from, to]) => (from === to ? `${from}` : `${from}-${to}`));
  const more = found.slice(RANGES_SHOWN).reduce((sum, [from, to]) => sum + to - from + 1, 0);
  return shown.join(', ') + (more > 0 ? ` and ${number(more)} more` : '');
}
