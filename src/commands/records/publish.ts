/**
 * `promo-intake publish FILE`: sends each line of a file to Kafka unchanged. No event is validated: a user
 * often wants to see the intake's verdict on a faulty event. A line that is a batch is refused. A line that
 * is not a JSON object is refused too, unless --force is given.
 */

import { isUtf8 } from 'node:buffer';
import { isBatchOfEvents, type Line, MAX_LINE_BYTES, readLines, withoutDocument } from '../../check/lines';
import { FAILED } from '../../cli/exit-codes';
import { Unable } from '../../cli/explain-error';
import { openInput } from '../../cli/open-input';
import { openText } from '../../cli/open-text';
import { messagesTaken } from '../../cli/output';
import { ConfigError, readConfig } from '../../config/config';
import { whyUnreadable } from '../../domain/event/unreadable';
import { makeKafka } from '../../kafka/client/client';
import { noTopic } from '../../kafka/client/errors';
import { type PartitionChooser, partitionChooser } from '../../kafka/partition-batches';
import {
  type Compression,
  encodeMessages,
  makeProducer,
  type Producer,
  RecordsRefused,
} from '../../kafka/producer';
import { isObject, parseJson } from '../../lib/json';
import { typeOf } from '../../lib/printable';
import { makeLogger } from '../../telemetry/logger';
import { PUBLISH_SETTINGS } from '../shared/settings';
import { bytesOf, makeReport, type Outgoing, type PublishReport } from './publish-report';

export interface PublishOptions {
  /** `-` is standard input. */
  readonly file: string;
  readonly topic: string;
  /** Nobody named the topic. */
  readonly isDefaultTopic: boolean;
  /** Named in the header `connection-id` of every record (docs/rules.md, C5). */
  readonly connection: string | undefined;
  readonly compression: Compression;
  /** Send lines that are not JSON objects too. */
  readonly force: boolean;
}

/** Few retries of the first connection, so that an unreachable Kafka is reported soon. */
const CONNECT_RETRIES = 2;
/** Retries of a batch go on for this time, which is longer than a broker takes to restart. */
const SEND_TIMEOUT_MS = 30_000;
const SEND_RETRIES = 12;
/** Half of a broker's default limit, so that a batch is too large only if one line is. */
const BATCH_BYTES = 512 * 1024;
const BATCH_LINES = 2_000;
const BATCHES_IN_FLIGHT = 4;
/** The most bytes read ahead of the delivery. A single line may be longer. */
const MAX_WAITING_BYTES = 8 * 1024 * 1024;

/** @returns the exit code: 1 if a line is not delivered, or on an interruption */
export async function publish(options: PublishOptions, stop: AbortSignal): Promise<number> {
  const { file, topic, isDefaultTopic, connection, compression, force } = options;
  const config = readConfig(process.env, PUBLISH_SETTINGS);
  if (isDefaultTopic) console.error(`${file}: sending to the default topic ${topic}; --topic names another`);
  // Silent: the client's failures are reported as errors that name their lines.
  const logger = makeLogger('silent');
  const cluster = { ...config.KAFKA, clientId: 'promo-intake-publish' };
  const admin = makeKafka({ ...cluster, retries: CONNECT_RETRIES }, logger);
  const choosePartition = await unlessStopped(partitionChooser(admin, topic), stop);
  if (choosePartition === undefined || choosePartition === null) {
    const problem = `${noTopic(topic)}. Create it, or correct --topic.`;
    console.error(`${choosePartition === null ? problem : 'interrupted.'} Nothing was sent.`);
    return FAILED;
  }

  const producer = await makeProducer(makeKafka(cluster, logger), {
    compression,
    timeoutMs: SEND_TIMEOUT_MS,
    retries: SEND_RETRIES,
  });
  const report = makeReport(file);
  const delivery = makeDelivery({ producer, topic, connection, choosePartition, report, force });
  // The input may be slow, so a failure of the delivery must end the wait for it.
  const ending = AbortSignal.any([stop, delivery.failed]);
  try {
    const input = force ? openInput(file, ending) : openText(file, 'publish', ending);
    const lines = readLines(report.counted(input));
    for await (const some of withoutDocument(lines, (from, to) => overLines(file, from, to)))
      await delivery.add(some);
  } catch (error) {
    if (error instanceof Unable || error instanceof ConfigError) throw error;
    if (!ending.aborted) report.unreadable(error);
  } finally {
    await delivery.end();
    report.close();
    await producer.stop();
  }
  return report.summary(topic, delivery.nextLine(), stop.aborted);
}

function overLines(file: string, from: number, to: number): Unable {
  return new Unable(
    `${file}: line ${from} begins a JSON document that continues in line ${to}, but each line is sent as a record. Write one event per line. Nothing was sent.`,
  );
}

/** @returns undefined on a stop signal before the work is done */
async function unlessStopped<T>(work: Promise<T>, stop: AbortSignal): Promise<T | undefined> {
  const stopped = new Promise<undefined>((resolve) => {
    if (stop.aborted) resolve(undefined);
    stop.addEventListener('abort', () => resolve(undefined), { once: true });
  });
  return Promise.race([work, stopped]);
}

// --- lines to records

/**
 * Makes a record of a line. The key is the player, so a player's events stay in order in one partition.
 *
 * @returns undefined if the line is not an event, which is reported
 */
function toOutgoing(
  number: number,
  bytes: Buffer,
  report: PublishReport,
  force: boolean,
): Outgoing | undefined {
  const json = isUtf8(bytes) ? parseJson(bytes.toString('utf8')) : undefined;
  if (isBatchOfEvents(json)) {
    report.refused({ number, bytes }, 'it is a batch, but a record is one event: write one event per line');
    return undefined;
  }
  if (!isObject(json)) {
    if (force) {
      report.warn(number, 'is no JSON object; it is sent unchanged');
      return { number, key: null, bytes };
    }
    const why =
      json === undefined ? `it ${whyUnreadable(bytes)}` : `it is ${typeOf(json)}, not a JSON object`;
    report.refused({ number, bytes }, `${why}. --force sends it unchanged`);
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
  readonly producer: Producer;
  readonly topic: string;
  readonly connection: string | undefined;
  readonly choosePartition: PartitionChooser;
  readonly report: PublishReport;
  readonly force: boolean;
}

/** The lines for one partition. They are sent in order, one batch at a time. */
interface PartitionLines {
  readonly partition: number;
  waiting: Outgoing[];
  sending: boolean;
}

/**
 * Sends lines in batches of one partition each. A broker accepts a whole batch or none of it. So the result
 * of each line is known, and a line that is too large causes no second send of its neighbours. Batches form
 * while others are in flight.
 */
function makeDelivery({ producer, topic, connection, choosePartition, report, force }: DeliveryDeps) {
  const headers = connection === undefined ? [] : [['connection-id', connection] as const];
  const byPartition = new Map<number, PartitionLines>();
  const ready: PartitionLines[] = [];
  let inFlight = 0;
  let waitingBytes = 0;
  let lastLine = 0;
  const failure = new AbortController();
  const failed = failure.signal;
  let wake = () => {};

  function linesOf(partition: number): PartitionLines {
    const lines = byPartition.get(partition) ?? { partition, waiting: [], sending: false };
    byPartition.set(partition, lines);
    return lines;
  }

  function startBatches(): void {
    while (inFlight < BATCHES_IN_FLIGHT && !failed.aborted) {
      const lines = ready.shift();
      if (lines === undefined) return;
      inFlight++;
      void deliver(takeBatch(lines), lines).finally(() => {
        inFlight--;
        lines.sending = lines.waiting.length > 0;
        if (lines.sending) ready.push(lines);
        startBatches();
        wake();
      });
    }
  }

  function takeBatch(lines: PartitionLines): Outgoing[] {
    let bytes = 0;
    let count = 0;
    for (const line of lines.waiting) {
      bytes += line.bytes.length;
      if (count === BATCH_LINES || (count > 0 && bytes > BATCH_BYTES)) break;
      count++;
    }
    return lines.waiting.splice(0, count);
  }

  /** Never throws: an error of Kafka, other than a refusal of records, ends the delivery. */
  async function deliver(batch: readonly Outgoing[], lines: PartitionLines): Promise<void> {
    const { partition } = lines;
    const messages = batch.map(({ key, bytes }) => ({ key, value: bytes, headers, partition }));
    try {
      await producer.send(topic, messages, encodeMessages());
      report.sent(batch);
    } catch (error) {
      if (!(error instanceof RecordsRefused)) {
        lines.waiting.push(...batch);
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

  /** Waits for batches to end until `isEnough` is true. */
  async function until(isEnough: () => boolean): Promise<void> {
    while (!isEnough()) {
      await new Promise<void>((resolve) => {
        wake = resolve;
      });
    }
  }

  return {
    /** Resolves once there is room for more lines. */
    async add(lines: readonly Line[]): Promise<void> {
      for (const { number, bytes } of lines) {
        lastLine = number;
        if (bytes === null) {
          report.refused({ number }, `it is longer than ${MAX_LINE_BYTES} bytes, the limit of a record`);
          continue;
        }
        const line = toOutgoing(number, bytes, report, force);
        if (line === undefined) continue;
        const ofPartition = linesOf(choosePartition(line.key === null ? null : Buffer.from(line.key)));
        ofPartition.waiting.push(line);
        waitingBytes += bytes.length;
        if (!ofPartition.sending) {
          ofPartition.sending = true;
          ready.push(ofPartition);
        }
      }
      await messagesTaken();
      startBatches();
      await until(() => failed.aborted || waitingBytes <= MAX_WAITING_BYTES);
    },
    /** Resolves once every line was sent, or no more can be sent. */
    end: () => until(() => inFlight === 0 && (failed.aborted || ready.length === 0)),
    /** Aborted once a batch fails: nothing more is sent after that. */
    failed,
    /** The line to go on from: all lines before it were sent or refused. */
    nextLine: () =>
      [...byPartition.values()]
        .flatMap(({ waiting }) => waiting)
        .reduce((first, line) => Math.min(first, line.number), lastLine + 1),
  };
}
