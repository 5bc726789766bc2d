/**
 * `promo-intake worker`: reads topics, decides, until it is told to stop or, with --drain, until nothing is left.
 */
import type { Kafka } from 'kafkajs';
import type { Logger } from 'pino';
import { systemClock } from '../clock';
import { readConfig, type SettingName } from '../config';
import { makeIntake } from '../intake';
import { makePool } from '../ledger/connection';
import { decideBatch, ensureMonths, makePartitionNumbers } from '../ledger/ledger';
import { pendingMigrations } from '../ledger/migrate';
import { makeReferences } from '../ledger/reference-store';
import { makeLogger, makeMetrics, serveHealth } from '../telemetry';
import {
  ensureTopic,
  highWatermarks,
  makeCommittedOffsets,
  makeKafka,
  makeKafkaSource,
  makeSender,
} from '../transports/kafka';
import { makeStream } from '../transports/stream';
import { makePublishVerdicts, makeSendDeadLetters } from '../transports/verdict-stream';
import { makeWireFormat } from '../transports/wire-format';

export const WORKER_SETTINGS = [
  'KAFKA_BROKERS',
  'KAFKA_GROUP_ID',
  'KAFKA_TOPICS',
  'DATABASE_URL',
  'SCHEMA_REGISTRY_URL',
  'VERDICT_TOPIC',
  'DEAD_LETTER_TOPIC',
  'HTTP_PORT',
  'LOG_LEVEL',
  'BATCH_EVENTS',
  'PARTITIONS_AT_ONCE',
  'SHUTDOWN_SECONDS',
] as const satisfies readonly SettingName[];

const REGISTRY_TIMEOUT_MS = 5_000;
/** The month's partitions are made ahead, and looked after this often. */
const MONTHS_CHECK_MS = 3_600_000;
const DRAIN_CHECK_MS = 250;
/** No fetch and no try to decide for this long: only a restart helps. */
const STUCK_AFTER_MS = 120_000;

/** @returns the exit code */
export async function worker(options: { drain: boolean }): Promise<number> {
  const config = readConfig(process.env, WORKER_SETTINGS);
  const logger = makeLogger(config.LOG_LEVEL);
  const metrics = makeMetrics();
  const stop = stopSignal(logger);

  const pending = await pendingMigrations(config.DATABASE_URL);
  if (pending.length > 0) {
    logger.fatal({ pending }, 'the database lacks migrations; run: promo-intake migrate');
    return 1;
  }
  const pool = makePool(
    {
      databaseUrl: config.DATABASE_URL,
      maxConnections: config.PARTITIONS_AT_ONCE + 2,
      applicationName: 'promo-intake',
    },
    logger,
  );
  await ensureMonths(pool);
  const months = setInterval(() => {
    ensureMonths(pool).catch((error: Error) =>
      logger.error({ error: error.message }, 'next months could not be prepared'),
    );
  }, MONTHS_CHECK_MS);
  const references = makeReferences(pool);

  const kafka = makeKafka({ brokers: config.KAFKA_BROKERS, clientId: 'promo-intake' }, logger);
  for (const topic of [config.DEAD_LETTER_TOPIC, config.VERDICT_TOPIC]) {
    if (topic !== undefined && (await ensureTopic(kafka, topic)) === 'made')
      logger.info({ topic }, 'topic was missing and is made');
  }
  const sender = await makeSender(kafka);

  const wantedTopics = async () => config.KAFKA_TOPICS ?? [...(await references.reload()).topics.keys()];
  const failed = new AbortController();
  const source = makeKafkaSource(
    kafka,
    {
      groupId: config.KAFKA_GROUP_ID,
      wantedTopics,
      onFatal: (error) => {
        logger.fatal({ error: error.message }, 'the Kafka client has ended');
        failed.abort();
      },
    },
    logger,
  );
  const intake = makeIntake({
    ledger: { decideBatch: (batch) => decideBatch(pool, batch), partitionNo: makePartitionNumbers(pool) },
    references,
    sendDeadLetters: makeSendDeadLetters(sender, config.DEAD_LETTER_TOPIC),
    logger,
    now: systemClock.now,
  });
  const stream = makeStream({
    source,
    intake,
    wireFormat: makeWireFormat({ registryUrl: config.SCHEMA_REGISTRY_URL, timeoutMs: REGISTRY_TIMEOUT_MS }),
    publishVerdicts:
      config.VERDICT_TOPIC === undefined ? null : makePublishVerdicts(sender, config.VERDICT_TOPIC),
    clock: systemClock,
    logger,
    metrics,
    batchEvents: config.BATCH_EVENTS,
    partitionsAtOnce: config.PARTITIONS_AT_ONCE,
  });
  const health = await serveHealth(
    config.HTTP_PORT,
    { live: () => stream.idleMs() < STUCK_AFTER_MS, ready: () => stream.joined() },
    metrics,
  );
  logger.info({ port: health.port }, 'health and metrics are served');

  const drained = options.drain ? await makeDrain(kafka, config.KAFKA_GROUP_ID, await wantedTopics()) : null;
  await stream.start();
  const reason = await Promise.race([
    aborted(stop).then(() => 'told to stop'),
    aborted(failed.signal).then(() => 'failed'),
    ...(drained === null ? [] : [drained.until(stop).then(() => 'drained')]),
  ]);

  logger.info({ reason }, 'stopping');
  clearInterval(months);
  await stream.stop(config.SHUTDOWN_SECONDS * 1000);
  await Promise.all([drained?.close(), sender.stop(), health.close(), pool.end()]);
  logger.info('stopped');
  return reason === 'failed' ? 1 : 0;
}

/** Aborted by SIGTERM or SIGINT. A second one ends the process at once. */
function stopSignal(logger: Logger): AbortSignal {
  const controller = new AbortController();
  for (const signal of ['SIGTERM', 'SIGINT'] as const) {
    process.on(signal, () => {
      if (controller.signal.aborted) process.exit(1);
      logger.info({ signal }, 'signal received');
      controller.abort();
    });
  }
  return controller.signal;
}

function aborted(signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    if (signal.aborted) resolve();
    else signal.addEventListener('abort', () => resolve(), { once: true });
  });
}

/**
 * Everything that is in the topics now: drained once the group has committed up to the end that each partition has at this moment,
 * whichever worker of the group decided it.
 */
async function makeDrain(kafka: Kafka, groupId: string, topics: readonly string[]) {
  const ends = await highWatermarks(kafka, topics);
  const committed = makeCommittedOffsets(kafka, groupId);
  const waitedFor = [...new Set(ends.map(({ topic }) => topic))];

  async function isDrained(): Promise<boolean> {
    if (ends.length === 0) return true;
    const offsets = new Map(
      (await committed.read(waitedFor)).map((c) => [`${c.topic}/${c.partition}`, c.offset]),
    );
    return ends.every(
      ({ topic, partition, offset }) => (offsets.get(`${topic}/${partition}`) ?? -1) >= offset,
    );
  }

  return {
    async until(stop: AbortSignal): Promise<void> {
      while (!stop.aborted && !(await isDrained())) await systemClock.sleep(DRAIN_CHECK_MS, stop);
    },
    close: () => committed.close(),
  };
}
