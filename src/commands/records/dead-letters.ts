/**
 * `promo-intake dead-letters`: lists records without a verdict, without their values, and sends them again.
 */

import { DONE, FAILED } from '../../cli/exit-codes';
import { Unable } from '../../cli/explain-error';
import {
  type Bounds,
  boundsOf,
  integerOf,
  type Options,
  readBoth,
  requestedBy,
  wrongOption,
} from '../../cli/option-values';
import { messagesTaken, printLines, printText } from '../../cli/output';
import { readConfig } from '../../config/config';
import { offsetsAt, watermarks } from '../../kafka/admin/offsets';
import { makeKafka } from '../../kafka/client/client';
import { KafkaProblem, noTopic } from '../../kafka/client/errors';
import { type Range, readRecords } from '../../kafka/consumer/range-reader';
import type { Encode } from '../../kafka/partition-batches';
import { encodeMessages, makeProducer, type Producer, RecordsRefused } from '../../kafka/producer';
import type { StreamRecord } from '../../kafka/protocol/record';
import type { OutgoingMessage } from '../../kafka/protocol/record-batch-writer';
import { beginOperation } from '../../ledger/operation-log';
import { counted, inOneLine } from '../../lib/printable';
import { keyOf } from '../../lib/topic-partition';
import { identityOf, type Letter, readLetter, replayedHeaders } from '../../publishing/dead-letters';
import { makeLogger } from '../../telemetry/logger';
import { noteEnd } from '../shared/operation-log';
import { LIST_SETTINGS, REPLAY_LETTERS_SETTINGS } from '../shared/settings';

const LISTED = 20;
/** The most records that are sent. They are remembered, because a record may have several dead letters. */
const MAX_REPLAYED = 1_000_000;
/** The reason of dead letters that hold no readable record: an unreadable batch, or too many headers. */
const NOT_REPLAYED = 'undecodable';

/** Selects dead letters. */
interface Filter extends Bounds {
  readonly reason: string | undefined;
  readonly topic: string | undefined;
  readonly partition: number | undefined;
}

/** @throws ConfigError */
function readFilter(options: Options): Filter {
  const [partition, bounds] = readBoth(
    () => integerOf(options, 'source-partition'),
    () => boundsOf(options),
  );
  const filter = { reason: options.get('reason'), topic: options.get('source-topic'), partition, ...bounds };
  const hasOffsets = filter.fromOffset !== undefined || filter.toOffset !== undefined;
  if (hasOffsets && (filter.topic === undefined || filter.partition === undefined))
    throw wrongOption('from-offset', 'needs a partition', 'Add --source-topic and --source-partition');
  return filter;
}

function matches(filter: Filter, { reason, source, writtenMs }: Letter): boolean {
  return (
    (filter.reason ?? reason) === reason &&
    (filter.topic ?? source.topic) === source.topic &&
    (filter.partition ?? source.partition) === source.partition &&
    source.offset >= (filter.fromOffset ?? 0) &&
    source.offset <= (filter.toOffset ?? Number.MAX_SAFE_INTEGER) &&
    writtenMs >= (filter.sinceMs ?? Number.NEGATIVE_INFINITY) &&
    writtenMs < (filter.untilMs ?? Number.POSITIVE_INFINITY)
  );
}

export interface Found {
  readonly letter: Letter;
  readonly record: StreamRecord;
  /** Partition of the dead-letter topic. */
  readonly partition: number;
}

/**
 * Reads the matching dead letters that are in the topic now, and passes them on.
 *
 * @returns the number of records in the topic that are not dead letters of this service
 */
async function readLetters(
  config: ReturnType<typeof readListSettings>,
  filter: Filter,
  take: (found: readonly Found[]) => Promise<void>,
): Promise<number> {
  const { KAFKA, KAFKA_GROUP_ID: groupId, DEAD_LETTER_TOPIC: topic } = config;
  const logger = makeLogger('silent');
  const kafka = makeKafka({ ...KAFKA, clientId: 'promo-intake-dead-letters' }, logger);
  const ends = await watermarks(kafka, [topic]);
  if (ends.length === 0)
    throw new KafkaProblem(
      `${noTopic(topic)}. Set DEAD_LETTER_TOPIC as for the workers, which create the topic when they start, or grant the Kafka user Describe on the topic`,
    );
  const since = filter.sinceMs === undefined ? null : await offsetsAt(kafka, topic, filter.sinceMs);
  const ranges = ends.map(({ partition, low, high }): Range => {
    return { topic, partition, from: Math.max(low, since?.get(partition) ?? low), to: high };
  });
  let foreign = 0;
  await readRecords(
    kafka,
    { groupId, purpose: 'dead-letters', ranges },
    async ({ partition }, records) => {
      const found = records.flatMap((record) => {
        const letter = readLetter(record);
        if (letter === null) foreign++;
        return letter !== null && matches(filter, letter) ? [{ letter, record, partition }] : [];
      });
      if (found.length > 0) await take(found);
      return true;
    },
    logger,
  );
  return foreign;
}

const readListSettings = () => readConfig(process.env, LIST_SETTINGS);

/** @returns the exit code */
export async function listDeadLetters(options: Options): Promise<number> {
  const [[filter, limit = LISTED], config] = readBoth(
    () =>
      readBoth(
        () => readFilter(options),
        () => integerOf(options, 'limit', 1),
      ),
    readListSettings,
  );
  const counts = new Map<string, number>();
  let newest: Listed[] = [];
  const foreign = await readLetters(config, filter, async (found) => {
    for (const { letter } of found) counts.set(letter.reason, (counts.get(letter.reason) ?? 0) + 1);
    newest = [...newest, ...found.map(listed)]
      .sort((a, b) => b.writtenMs - a.writtenMs || b.offset - a.offset)
      .slice(0, limit);
  });
  const topic = config.DEAD_LETTER_TOPIC;
  if (options.has('json'))
    await printText(`${JSON.stringify(asJson(newest, counts, foreign, topic), null, 2)}\n`);
  else await printLines(describeLetters(newest, counts, foreign, topic));
  return DONE;
}

/** A dead letter without its record, which may be large and is not listed. */
export interface Listed extends Letter {
  readonly partition: number;
  readonly offset: number;
}

function listed({ letter, record, partition }: Found): Listed {
  return { ...letter, partition, offset: record.offset };
}

export function asJson(
  newest: readonly Listed[],
  counts: ReadonlyMap<string, number>,
  foreign: number,
  topic: string,
) {
  return {
    topic,
    counts: Object.fromEntries(counts),
    other_records: foreign,
    newest: newest.map(
      ({ reason, detail, source, sourceTimestampMs, writtenMs, bytes, partition, offset }) => ({
        written_at: isoTime(writtenMs),
        reason,
        detail,
        source,
        source_time: isoTime(sourceTimestampMs),
        bytes,
        partition,
        offset,
      }),
    ),
  };
}

export function describeLetters(
  newest: readonly Listed[],
  counts: ReadonlyMap<string, number>,
  foreign: number,
  topic: string,
): string[] {
  return [
    ...newest.flatMap(
      ({ writtenMs, reason, detail, source, sourceTimestampMs, bytes, partition, offset }) => [
        `${timeText(writtenMs)} ${reason}: ${keyOf(source)} offset ${source.offset} of ${timeText(sourceTimestampMs)}, ${bytes} bytes; letter at partition ${partition} offset ${offset}`,
        ...(detail === null ? [] : [`  ${inOneLine(detail)}`]),
      ],
    ),
    `${topic}: ${countText(counts)}${newest.length < total(counts) ? `, the newest ${newest.length} are shown` : ''}`,
    ...(foreign > 0
      ? [
          `${counted(foreign, 'record of the topic is no dead letter', 'records of the topic are no dead letters')} of this service`,
        ]
      : []),
  ];
}

function timeText(ms: number): string {
  return isoTime(ms) ?? 'an unknown time';
}

/** Null if the value is not a valid time: a sender may write anything. */
function isoTime(ms: number): string | null {
  const time = new Date(ms);
  return Number.isNaN(time.getTime()) ? null : time.toISOString();
}

function total(counts: ReadonlyMap<string, number>): number {
  return [...counts.values()].reduce((sum, count) => sum + count, 0);
}

function countText(counts: ReadonlyMap<string, number>): string {
  const each = [...counts].sort(([a], [b]) => (a < b ? -1 : 1)).map(([name, count]) => `${count} ${name}`);
  return `${total(counts)} dead letters${each.length === 0 ? '' : ` (${each.join(', ')})`}`;
}

/**
 * Sends dead letters to their source, or to another topic. The bytes are unchanged. The headers of the dead
 * letter are removed, and one header names the first source. The dead letters stay in their topic. A record
 * that is sent twice is a duplicate, because it is decided by its event_id.
 *
 * @returns the exit code
 */
export async function replayDeadLetters(options: Options): Promise<number> {
  const [filter, config] = readBoth(
    () => readFilter(options),
    () => readConfig(process.env, REPLAY_LETTERS_SETTINGS),
  );
  const to = options.get('to');
  if (to === config.DEAD_LETTER_TOPIC)
    throw wrongOption('to', 'is the dead-letter topic itself', 'Name a topic of events');
  const plan = makePlan(to);
  if (!options.has('confirm')) {
    await readLetters(config, filter, async (found) => {
      plan.choose(found);
    });
    await printLines(plan.lines());
    console.log('nothing was sent: add --confirm to send them');
    return DONE;
  }
  const request = { ...filter, to: to ?? null, topic: config.DEAD_LETTER_TOPIC, sourceTopic: filter.topic };
  const operation = await beginOperation(
    config.DATABASE,
    { requestedBy: requestedBy(options) },
    'dead_letter_replay',
    request,
  );
  const kafka = makeKafka({ ...config.KAFKA, clientId: 'promo-intake-dead-letters' }, makeLogger('silent'));
  // A record that came compressed may be too large without compression.
  const producer = await makeProducer(kafka, { compression: 'gzip' });
  const sending = makeSending(producer);
  let failed = true;
  let isNoted = false;
  try {
    await readLetters(config, filter, async (found) => {
      for (const [topic, chosen] of plan.choose(found)) await sending.send(topic, chosen);
    });
    failed = false;
  } finally {
    await Promise.allSettled([producer.stop()]);
    const { sent, refused } = sending.counts();
    if (failed)
      console.error(
        `interrupted: at least ${counted(sent, 'record')} ${sent === 1 ? 'was' : 'were'} sent before`,
      );
    const outcome = { sent, refused, ...plan.outcome(), ...(failed && { failed }) };
    isNoted = await noteEnd(config.DATABASE, operation, outcome);
  }
  const { sent, refused } = sending.counts();
  await printLines(plan.lines());
  console.log(`${counted(sent, 'record was', 'records were')} sent (operation ${operation})`);
  if (refused > 0)
    console.error(
      `${refused} were not sent; the lines above have the reasons. If they are too large, raise max.message.bytes of their topic and run this again: records that were sent are duplicates then. Or exclude them with --from-offset and --to-offset`,
    );
  return isNoted && refused === 0 ? DONE : FAILED;
}

/** A dead letter's record, ready to be sent. */
interface Replayed {
  readonly source: Letter['source'];
  readonly message: OutgoingMessage;
}

/**
 * Sends records and counts them. A record that brokers refuse is reported with its source, and the others go
 * on.
 */
function makeSending(producer: Pick<Producer, 'send'>) {
  const encodeMessage = encodeMessages();
  const encode: Encode<Replayed> = ({ message }) => encodeMessage(message);
  let sent = 0;
  let refused = 0;
  return {
    async send(topic: string, records: readonly Replayed[]): Promise<void> {
      try {
        await producer.send(topic, records, encode);
        sent += records.length;
      } catch (error) {
        if (!(error instanceof RecordsRefused)) throw error;
        for (const record of records) {
          const why = error.refused.get(record);
          if (why === undefined) continue;
          refused++;
          console.error(`${keyOf(record.source)} offset ${record.source.offset} was not sent: ${why}`);
          await messagesTaken();
        }
        sent += records.length - error.refused.size;
      }
    },
    counts: () => ({ sent, refused }),
  };
}

/** Chooses the records to send, each once, and counts them by target topic. */
export function makePlan(to: string | undefined) {
  const chosen = new Set<string>();
  const byTarget = new Map<string, number>();
  let repeated = 0;
  let undecodable = 0;
  return {
    choose(found: readonly Found[]): Map<string, Replayed[]> {
      const byTopic = new Map<string, Replayed[]>();
      for (const { letter, record } of found) {
        const { source, reason } = letter;
        const id = identityOf(record, letter);
        if (reason === NOT_REPLAYED) undecodable++;
        else if (chosen.has(id)) repeated++;
        else {
          if (chosen.size >= MAX_REPLAYED)
            throw new Unable(
              `more than ${MAX_REPLAYED} dead letters match; select fewer with --since and --until`,
            );
          chosen.add(id);
          const topic = to ?? source.topic;
          const { key, value } = record;
          const place = to === undefined ? { partition: source.partition } : {};
          const list = byTopic.get(topic) ?? [];
          byTopic.set(topic, list);
          list.push({
            source,
            message: { key, value, headers: [...replayedHeaders(record, letter)], ...place },
          });
          byTarget.set(topic, (byTarget.get(topic) ?? 0) + 1);
        }
      }
      return byTopic;
    },
    outcome: () => ({ repeated, undecodable }),
    lines: () => [
      ...[...byTarget].map(([topic, count]) => `${topic}: ${counted(count, 'record')}`),
      ...(byTarget.size === 0 ? ['there is nothing to send'] : []),
      ...(repeated > 0 ? [`${repeated} are repetitions of these records`] : []),
      ...(undecodable > 0
        ? [
            `${undecodable} are undecodable: batches that cannot be read, and records with too many headers. They cannot be sent again`,
          ]
        : []),
    ],
  };
}
