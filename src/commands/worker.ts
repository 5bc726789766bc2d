/**
 * `promo-intake worker`: reads topics and decides their events until a signal stops it.
 * With --drain it also stops once all records are decided.
 */
import type { Logger } from 'pino';
import { DONE, FAILED } from '../cli/exit-codes';
import { explainShortly } from '../cli/explain-error';
import { packageVersion } from '../cli/package-version';
import { readConfig } from '../config/config';
import type { Reference } from '../domain/reference';
import { DEAD_LETTER_REASONS } from '../domain/verdict/reasons';
import { makeIntake } from '../intake/intake';
import { makeRejectBreaker } from '../intake/reject-limit';
import { type Drain, makeDrain } from '../kafka/admin/drain';
import { makeKafka, readClusterId } from '../kafka/client/client';
import { makeKafkaSource } from '../kafka/consumer/group-source';
import type { ReadCluster, ReadDecidedUpTo } from '../kafka/moved-offsets';
import { makeSender, type Sender } from '../kafka/producer';
import { beginAt, makeLedger, nameOfCluster, readDecidedUpTo } from '../ledger/decide-batch';
import { makeReferences } from '../ledger/reference-store';
import { systemClock } from '../lib/clock';
import { messageOf } from '../lib/errors';
import { keyOf } from '../lib/topic-partition';
import { makePool } from '../postgres/pool';
import { makeSendDeadLetters } from '../publishing/dead-letters';
import { makePublishVerdicts } from '../publishing/verdict-topic';
import { makeWireFormat, REGISTRY_TIMEOUT_MS } from '../schema-registry/wire-format';
import type { UndecidedPartition } from '../stream/retry-wait';
import { makeStream, type Stream } from '../stream/stream';
import { observeState, observeThrottling, observeTopics } from '../stream/worker-metrics';
import { makeLogger } from '../telemetry/logger';
import { makeMetrics } from '../telemetry/metrics';
import {
  aborted,
  CLOSE_WITHIN_MS,
  closeInTime,
  isDoneWithin,
  keepMonths,
  loadTracing,
  logWarnings,
  makeStart,
  needStore,
  needTopics,
  observeSteps,
  showHealth,
  stopSignal,
} from './service';
import { WORKER_SETTINGS } from './settings';
import { unreadTopics } from './unread-topics';

/** @returns the exit code */
export async function worker(options: { drain: boolean }): Promise<number> {
  const config = readSettings();
  const metrics = makeMetrics('worker');
  const logger = makeLogger(config.LOG_LEVEL, 'stdout', () => metrics.logLinesDropped.inc());
  logWarnings(logger);
  const wireFormat = makeWireFormat({ ...config.SCHEMA_REGISTRY, timeoutMs: REGISTRY_TIMEOUT_MS });
  const version = await packageVersion();
  metrics.buildInfo.set({ version, node: process.versions.node }, 1);
  metrics.beforeScrape = () => observeState(metrics, stream, wireFormat.lookUps);
  for (const { name } of DEAD_LETTER_REASONS) metrics.deadLetters.inc({ reason: name }, 0);
  const stop = stopSignal(logger);
  let stream: Stream | null = null;
  let connectingAt = systemClock.now();
  const health = await showHealth(
    { port: config.HTTP_PORT, file: config.LIVENESS_HEARTBEAT },
    {
      // A worker that is trying to reach Kafka is alive: a restart would not help.
      live: () =>
        Math.min(stream?.idleMs() ?? 0, systemClock.now() - connectingAt) < config.LIVENESS_SECONDS * 1000,
      ready: () => stream?.joined() ?? false,
      notes: () => stream?.undecided().map(describeUndecided) ?? [],
    },
    metrics,
    logger,
  );

  const pool = makePool(
    {
      ...config.DATABASE,
      maxConnections: config.PARTITIONS_AT_ONCE + 2,
      applicationName: 'promo-intake',
    },
    logger,
  );
  const references = makeReferences(pool);
  const wantedTopics = withoutOwn([config.DEAD_LETTER_TOPIC, config.VERDICT_TOPIC], logger, async () => {
    return config.KAFKA_TOPICS ?? [...(await references.reload()).topics.keys()];
  });
  const reportUnread = makeUnreadReport(
    [config.DEAD_LETTER_TOPIC, config.VERDICT_TOPIC],
    metrics,
    logger,
    () => references.current(),
  );
  const onConnecting = () => {
    connectingAt = systemClock.now();
  };
  const onThrottled = observeThrottling(metrics, logger);
  const kafka = makeKafka({ ...config.KAFKA, clientId: 'promo-intake', onConnecting, onThrottled }, logger);
  let sender: Sender;
  let cluster: ReadCluster;
  const readDecided: ReadDecidedUpTo = (partitions) =>
    readDecidedUpTo(
      pool,
      partitions.map((each) => ({ cluster: cluster.name, ...each })),
    );
  let drain: Drain | null = null;
  try {
    const step = makeStart(stop, logger);
    await needStore(step, config.DATABASE, pool);
    await needTopics(step, config.KAFKA, [config.DEAD_LETTER_TOPIC, config.VERDICT_TOPIC], logger);
    const id = await step('Kafka', () => readClusterId(kafka));
    cluster = { id, name: await step('Postgres', () => nameOfCluster(pool, id)) };
    sender = await step('Kafka', () => makeSender(kafka));
    if (options.drain)
      drain = await step('Kafka', async () =>
        makeDrain(
          kafka,
          config.KAFKA_GROUP_ID,
          await wantedTopics(),
          { cluster, readDecidedUpTo: readDecided },
          logger,
        ),
      );
  } catch (error) {
    if (stop.aborted) logger.info('stopped before the start was complete');
    else logger.fatal({ error: explainShortly(error) }, 'the worker cannot start');
    // A pending attempt to connect would keep the process alive.
    process.exit(stop.aborted && !options.drain ? DONE : FAILED);
  }

  const endMonths = keepMonths(pool, logger);
  const failed = new AbortController();
  const source = makeKafkaSource(
    kafka,
    {
      groupId: config.KAFKA_GROUP_ID,
      clusterId: cluster.id,
      fetchIntervalMs: config.FETCH_INTERVAL_MS,
      wantedTopics,
      onTopics: (exists, all) => {
        observeTopics(metrics, exists);
        reportUnread(all, [...exists.keys()]);
      },
      onFatal: (error) => {
        logger.fatal({ error: explainShortly(error) }, 'Kafka client ended');
        failed.abort();
      },
    },
    logger,
  );
  const tracing = await loadTracing(config.TRACES, { groupId: config.KAFKA_GROUP_ID, version }, logger);
  const ledger = makeLedger(pool, { cluster: cluster.name, observe: observeSteps(metrics, tracing) });
  const plainIntake = makeIntake({
    ledger,
    references,
    sendDeadLetters: makeSendDeadLetters(sender, config.DEAD_LETTER_TOPIC),
    breaker: config.REJECT_LIMIT === null ? undefined : makeRejectBreaker(config.REJECT_LIMIT, logger),
    logger,
    onRetry: (failure) => metrics.retries.inc({ class: failure }),
    now: systemClock.now,
  });
  stream = makeStream({
    source,
    intake: tracing?.traced(plainIntake) ?? plainIntake,
    wireFormat,
    publishVerdicts:
      config.VERDICT_TOPIC === undefined ? null : makePublishVerdicts(sender, config.VERDICT_TOPIC),
    cluster,
    readDecidedUpTo: readDecided,
    beginAt: ({ topic, partition }, offset) =>
      beginAt(pool, { topic, partition, cluster: cluster.name }, offset),
    clock: systemClock,
    logger,
    metrics,
    batchEvents: config.BATCH_EVENTS,
    partitionsAtOnce: config.PARTITIONS_AT_ONCE,
  });

  await stream.start();
  const reason = await Promise.race([
    aborted(stop).then(() => 'stop requested'),
    aborted(failed.signal).then(() => 'failed'),
    ...(drain === null ? [] : [drain.until(stop)]),
  ]);

  const stopBy = systemClock.now() + config.SHUTDOWN_SECONDS * 1000;
  logger.info({ reason }, 'stopping');
  endMonths();
  const finished = await stream.stop(config.SHUTDOWN_SECONDS * 1000 - CLOSE_WITHIN_MS);
  const closeWithinMs = Math.max(CLOSE_WITHIN_MS, stopBy - systemClock.now());
  const lastTraces = tracing && closeInTime(tracing, closeWithinMs / 2, logger);
  const closing = Promise.allSettled([drain?.close(), sender.stop(), health.close(), pool.end(), lastTraces]);
  const closed = await isDoneWithin(closing, closeWithinMs);
  if (!closed) logger.warn({ closeWithinMs }, 'connections did not close in time, dropping them');
  logger.info('stopped');
  const code = reason === 'drained' || (reason === 'stop requested' && !options.drain) ? DONE : FAILED;
  // A hanging connection would keep the process alive. Nothing is lost: the next owner reads uncommitted
  // records again.
  if (!finished || !closed) process.exit(FAILED);
  return code;
}

const readSettings = () => readConfig(process.env, WORKER_SETTINGS);

function describeUndecided({ topic, partition, sinceMs, because }: UndecidedPartition): string {
  return `${keyOf({ topic, partition })} is undecided for ${Math.round(sinceMs / 1000)} s: ${because.replaceAll('\n', ' ')}`;
}

/** Warns once of each topic that looks like a topic of events and is read by no worker. */
function makeUnreadReport(
  own: readonly (string | undefined)[],
  { unreadTopics: gauge }: Pick<ReturnType<typeof makeMetrics>, 'unreadTopics'>,
  logger: Logger,
  reference: () => Promise<Reference>,
): (existing: ReadonlySet<string>, wanted: readonly string[]) => void {
  let reported: ReadonlySet<string> = new Set();
  const report = async (existing: ReadonlySet<string>, wanted: readonly string[]) => {
    // Another deployment may read the topics that a connection names and KAFKA_TOPICS leaves out.
    const named = [...(await reference()).topics.keys()];
    const found = unreadTopics(existing, { known: [...wanted, ...named], own });
    gauge.set(found.length);
    for (const { topic, meant } of found)
      if (!reported.has(topic))
        logger.warn(
          { topic, ...(meant !== null && { meant }) },
          'topic of events has no reader: no connection names it',
        );
    reported = new Set(found.map(({ topic }) => topic));
  };
  return (existing, wanted) =>
    void report(existing, wanted).catch((error: unknown) =>
      logger.warn({ error: messageOf(error) }, 'cannot search for topics without a reader'),
    );
}

/** Leaves out the topics that this worker writes: reading its own output would never end. */
function withoutOwn(
  own: readonly (string | undefined)[],
  logger: Logger,
  wanted: () => Promise<readonly string[]>,
): () => Promise<readonly string[]> {
  const reported = new Set<string>();
  return async () => {
    const topics = await wanted();
    for (const topic of topics.filter((topic) => own.includes(topic) && !reported.has(topic))) {
      reported.add(topic);
      logger.error({ topic }, 'topic ignored: this worker writes to it');
    }
    return topics.filter((topic) => !own.includes(topic));
  };
}
