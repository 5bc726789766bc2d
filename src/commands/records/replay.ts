/**
 * `promo-intake replay`: decides a range of a topic again.
 *
 * It reads the range itself, beside running workers, and passes the records to the same intake as a worker.
 * The alternative would be to rewind the group. That needs an empty group, and redelivers all records after
 * the range.
 *
 * A record that is already decided keeps its verdict and is counted as a redelivery (K3). Other records are
 * decided now. The range ends at the group's committed offset: records after it are left to the workers.
 */
import type { Logger } from 'pino';
import { DONE, FAILED } from '../../cli/exit-codes';
import { explainShortly, Unable } from '../../cli/explain-error';
import {
  type Bounds,
  boundsOf,
  integerOf,
  type Options,
  readBoth,
  requestedBy,
  wrongOption,
} from '../../cli/option-values';
import { printLines } from '../../cli/output';
import { readConfig } from '../../config/config';
import type { Answer } from '../../intake/delivery';
import { type Intake, makeIntake } from '../../intake/intake';
import { makeRejectLimit } from '../../intake/reject-limit';
import { offsetsAt, readPositions } from '../../kafka/admin/offsets';
import { makeKafka, readClusterId } from '../../kafka/client/client';
import { KafkaProblem, noTopic } from '../../kafka/client/errors';
import { type Range, readRecords } from '../../kafka/consumer/range-reader';
import type { StreamRecord } from '../../kafka/protocol/record';
import { makeLedger } from '../../ledger/decide-batch';
import { UnreadableReference } from '../../ledger/failures';
import { beginOperation } from '../../ledger/operation-log';
import { ensureMonths, nameOfCluster } from '../../ledger/partition-state';
import { makeReferences } from '../../ledger/reference-store';
import { readVersions } from '../../ledger/stored-state';
import { backoffMs } from '../../lib/backoff';
import { NEVER, systemClock } from '../../lib/clock';
import { messageOf } from '../../lib/errors';
import { keyOf, type TopicPartition } from '../../lib/topic-partition';
import { makePool } from '../../postgres/pool';
import { makeSendDeadLetters } from '../../publishing/dead-letters';
import { type PublishVerdicts, publishingRest, withoutRecord } from '../../publishing/published-answer';
import { makeWireFormat, REGISTRY_TIMEOUT_MS, type WireFormat } from '../../schema-registry/wire-format';
import { decodeRecords } from '../../stream/decoding';
import { makeLogger } from '../../telemetry/logger';
import { makeProducing, OwnTopics } from '../services/verdict-publishing';
import { explainNewer } from '../shared/command-pool';
import { noteEnd } from '../shared/operation-log';
import { REPLAY_SETTINGS } from '../shared/settings';

/** The most attempts, with a worker's backoff between them: 31 s in all. After that a person must act. */
const MAX_ATTEMPTS = 6;

/** @returns the exit code */
export async function replay(options: Options): Promise<number> {
  const [bounds, config] = readBoth(
    () => readBounds(options),
    () => readConfig(process.env, REPLAY_SETTINGS),
  );
  const logger = makeLogger('warn', 'stderr');
  const kafka = makeKafka({ ...config.KAFKA, clientId: 'promo-intake-replay' }, makeLogger('silent'));
  const positions = await readPositions(kafka, config.KAFKA_GROUP_ID, [bounds.topic]);
  refuseUnknown(bounds, positions, (await readVersions(config.DATABASE)).topics);
  const at = async (ms: number | undefined) =>
    ms === undefined ? null : await offsetsAt(kafka, bounds.topic, ms);
  const ranges = rangesOf(bounds, positions, await at(bounds.sinceMs), await at(bounds.untilMs));
  await printLines(
    ranges.map(
      ({ topic, partition, from, to }) => `${keyOf({ topic, partition })}: offsets ${from} to ${to - 1}`,
    ),
  );
  if (ranges.length === 0) {
    console.log('the group has read nothing of this range');
    return DONE;
  }
  if (!options.has('confirm')) {
    console.log('nothing was replayed: add --confirm to replay it');
    return DONE;
  }

  const pool = makePool(
    { ...config.DATABASE, maxConnections: 2, applicationName: 'promo-intake-replay' },
    logger,
  );
  const own = new OwnTopics(config);
  const references = makeReferences(pool);
  try {
    const reference = await references.current();
    own.follow(reference);
    const connections = reference.topics.get(bounds.topic) ?? [];
    own.checkEach(connections.map(({ operator }) => operator.id));
  } catch (error) {
    await pool.end();
    throw explainNewer(error, [UnreadableReference]);
  }
  const request = { ...bounds, ranges };
  const operation = await beginOperation(
    config.DATABASE,
    { requestedBy: requestedBy(options) },
    'replay',
    request,
  );
  const { producer, publishVerdicts } = await makeProducing(kafka, own, logger);
  const counts = new Map<string, number>();
  let failed = true;
  let isNoted = false;
  try {
    await ensureMonths(pool);
    const cluster = await nameOfCluster(pool, await readClusterId(kafka));
    const intake = makeIntake({
      ledger: makeLedger(pool, { cluster }),
      references,
      isPublished: publishVerdicts !== null,
      sendDeadLetters: makeSendDeadLetters(producer, config.DEAD_LETTER_TOPIC),
      rejectLimit: config.REJECT_LIMIT === null ? undefined : makeRejectLimit(config.REJECT_LIMIT, logger),
      logger,
      now: systemClock.now,
    });
    const decide = makeDecide({
      intake,
      wireFormat: makeWireFormat({ ...config.SCHEMA_REGISTRY, timeoutMs: REGISTRY_TIMEOUT_MS }),
      publishVerdicts,
      logger,
      batchEvents: config.BATCH_EVENTS,
      sleep: (ms) => systemClock.sleep(ms, NEVER),
      onDecided(answers) {
        for (const name of answers.map(nameOf)) counts.set(name, (counts.get(name) ?? 0) + 1);
      },
    });
    const { KAFKA_GROUP_ID: groupId } = config;
    await readRecords(
      kafka,
      { groupId, purpose: 'replay', ranges },
      async (range, records) => {
        await decide(range, records);
        return true;
      },
      logger,
    );
    failed = false;
  } finally {
    await Promise.allSettled([producer.stop(), pool.end()]);
    const outcome = { ...Object.fromEntries(counts), ...(failed && { failed }) };
    isNoted = await noteEnd(config.DATABASE, operation, outcome);
  }
  await printLines([...counts].map(([name, count]) => `${name}: ${count}`));
  console.log(`replayed (operation ${operation})`);
  return isNoted ? DONE : FAILED;
}

// --- which range

interface Wanted extends Bounds {
  readonly topic: string;
  readonly partition: number | undefined;
}

/** @throws ConfigError */
function readBounds(options: Options): Wanted {
  const [partition, others] = readBoth(
    () => integerOf(options, 'partition'),
    () => boundsOf(options),
  );
  const bounds = { topic: options.get('topic') ?? '', partition, ...others };
  if (bounds.fromOffset === undefined && bounds.sinceMs === undefined)
    throw wrongOption(
      'since',
      'is not given, and --from-offset is not either',
      'Give the start of the range',
    );
  if ((bounds.fromOffset ?? bounds.toOffset) !== undefined && bounds.partition === undefined)
    throw wrongOption('from-offset', 'needs a partition', 'Add --partition');
  return bounds;
}

/**
 * @param named the topics that connections name
 * @throws if the wanted topic or partition cannot be replayed
 */
export function refuseUnknown(
  { topic, partition }: Pick<Wanted, 'topic' | 'partition'>,
  positions: readonly Pick<Known, 'partition'>[],
  named: readonly string[],
): void {
  if (positions.length === 0)
    throw new KafkaProblem(
      `${noTopic(topic)}. Correct --topic, or grant the Kafka user Describe on the topic`,
    );
  if (partition !== undefined && positions.every((known) => known.partition !== partition))
    throw new KafkaProblem(`${topic} has no partition ${partition}. Correct --partition`);
  // No connection would own the records, so all would become dead letters, even those with verdicts.
  if (!named.includes(topic))
    throw new Unable(
      `no connection of the reference data in force names ${topic}: all its records would become dead letters. Apply reference data in which a connection names it`,
    );
}

interface Known {
  readonly topic: string;
  readonly partition: number;
  readonly low: number;
  readonly committed: number | null;
}

/**
 * The wanted ranges, limited to offsets that Kafka still has and the group has read. Empty ranges are left
 * out.
 */
export function rangesOf(
  { partition, fromOffset = 0, toOffset = Number.MAX_SAFE_INTEGER }: Omit<Wanted, 'topic'>,
  positions: readonly Known[],
  since: ReadonlyMap<number, number> | null,
  until: ReadonlyMap<number, number> | null,
): Range[] {
  return positions
    .filter((position) => (partition ?? position.partition) === position.partition)
    .map(({ topic, partition, low, committed }) => ({
      topic,
      partition,
      from: Math.max(low, fromOffset, since?.get(partition) ?? 0),
      to: Math.min(committed ?? 0, toOffset + 1, until?.get(partition) ?? Number.MAX_SAFE_INTEGER),
    }))
    .filter(({ from, to }) => from < to);
}

// --- deciding it

interface DecideDeps {
  readonly intake: Pick<Intake, 'decide'>;
  readonly wireFormat: Pick<WireFormat, 'decode'>;
  readonly publishVerdicts: PublishVerdicts | null;
  readonly logger: Logger;
  readonly batchEvents: number;
  /** Called once with the answers of a batch, before they are published. */
  readonly onDecided: (answers: readonly Answer[]) => void;
  /** Waits between two attempts. */
  readonly sleep: (ms: number) => Promise<void>;
}

/**
 * Decides records of a partition, and publishes the verdicts.
 *
 * @throws if deciding or publishing fails for good
 */
export function makeDecide(deps: DecideDeps) {
  const { intake, wireFormat, publishVerdicts, logger, batchEvents, onDecided, sleep } = deps;

  async function decideBatch(
    source: TopicPartition,
    records: readonly StreamRecord[],
  ): Promise<readonly Answer[]> {
    const envelopes = await decodeRecords(records, wireFormat);
    const [result] = await intake.decide([{ origin: source, envelopes }]);
    if (result === undefined) throw new Error('a part of a batch has no result');
    const { answers, undecided } = result;
    if (undecided !== null && answers.length === 0) throw undecided;
    return answers;
  }

  /** Retries `work` with backoff. @param what the state of the partition, for the final error */
  async function withRetries<T>(source: TopicPartition, what: string, work: () => Promise<T>): Promise<T> {
    for (let attempts = 1; ; attempts++) {
      try {
        return await work();
      } catch (error) {
        if (attempts >= MAX_ATTEMPTS)
          throw new Unable(`${keyOf(source)} ${what}: ${explainShortly(error)}`, { cause: error });
        const waitMs = backoffMs(attempts);
        logger.warn({ ...source, waitMs, error: messageOf(error) }, 'partition is undecided');
        await sleep(waitMs);
      }
    }
  }

  return async (source: TopicPartition, records: readonly StreamRecord[]): Promise<void> => {
    for (let decided = 0; decided < records.length; ) {
      const batch = records.slice(decided, decided + batchEvents);
      const from = `offset ${batch[0]?.offset}`;
      const answers = await withRetries(source, `is undecided at ${from}`, () => decideBatch(source, batch));
      onDecided(answers);
      // Publishing has its own retries: deciding the stored records again would count them as redeliveries.
      if (publishVerdicts !== null)
        await withRetries(
          source,
          `is decided from ${from} on, but its verdicts are not published`,
          publishingRest(publishVerdicts, source, answers.map(withoutRecord)),
        );
      decided += answers.length;
    }
  };
}

/** The counter that a record belongs to. */
function nameOf({ decision }: Answer): string {
  if (decision.redelivered) return 'redeliveries';
  switch (decision.type) {
    case 'unstored':
      return decision.deadLetter === null ? 'without_key' : 'dead_letters';
    case 'duplicate':
      return 'duplicates';
    case 'decided':
      return decision.outcome.verdict;
  }
}
