/**
 * `promo-intake worker`: reads topics and decides their events until a signal stops it.
 * With --drain it also stops once all records are decided.
 */
import type { Logger } from 'pino';
import { DONE, FAILED } from '../../cli/exit-codes';
import { explainShortly } from '../../cli/explain-error';
import { readConfig } from '../../config/config';
import type { Reference } from '../../domain/reference';
import { DEAD_LETTER_REASONS } from '../../domain/verdict/reasons';
import { makeIntake } from '../../intake/intake';
import { makeRejectLimit } from '../../intake/reject-limit';
import { makeSharedRounds } from '../../intake/shared-rounds';
import { makeDrain } from '../../kafka/admin/drain';
import { makeKafka, readClusterId } from '../../kafka/client/client';
import type { ReadDecidedUpTo } from '../../kafka/commit-notes';
import { makeKafkaSource } from '../../kafka/consumer/group-source';
import { makeLedger } from '../../ledger/decide-batch';
import { nameOfCluster, readDecidedUpTo, recordFirstOffset } from '../../ledger/partition-state';
import { makeReferences } from '../../ledger/reference-store';
import { sampleWalletBacklog } from '../../ledger/wallet-backlog';
import { systemClock } from '../../lib/clock';
import { elapsedText } from '../../lib/duration';
import { messageOf } from '../../lib/errors';
import { keyOf } from '../../lib/topic-partition';
import { makeSendDeadLetters } from '../../publishing/dead-letters';
import { VerdictSupply } from '../../publishing/joint-requests';
import { makeWireFormat, REGISTRY_TIMEOUT_MS } from '../../schema-registry/wire-format';
import type { UndecidedPartition } from '../../stream/retry-wait';
import { makeStream, type Stream } from '../../stream/stream';
import { observeState, observeThrottling, observeTopics } from '../../stream/worker-metrics';
import type { Metrics } from '../../telemetry/metrics';
import { monthsComponent, postgresComponent, tracingComponent } from '../services/components';
import { makeInstruments } from '../services/instruments';
import { BY_SIGNAL, FAILURE } from '../services/lifecycle';
import { makeStart, needStore, observeSteps, serve } from '../services/service';
import { unreadTopics } from '../services/unread-topics';
import { makeProducing, needOwnTopics, OwnTopics } from '../services/verdict-publishing';
import { WORKER_SETTINGS } from '../shared/settings';
import { makeWalletGauges } from './wallet-gauges';

/** @returns the exit code */
export async function worker(options: { drain: boolean }): Promise<number> {
  const config = readSettings();
  const { metrics, logger, version } = await makeInstruments('worker', config.LOG_LEVEL);
  const wireFormat = makeWireFormat({ ...config.SCHEMA_REGISTRY, timeoutMs: REGISTRY_TIMEOUT_MS });
  let refreshWalletGauges = (): void => undefined;
  metrics.beforeScrape = () => {
    observeState(metrics, running, wireFormat.lookUps);
    refreshWalletGauges();
  };
  for (const { name } of DEAD_LETTER_REASONS) metrics.deadLetters.inc({ reason: name }, 0);
  /** For the metrics, which are read before there is a stream. */
  let running: Stream | null = null;

  return serve({
    name: 'worker',
    settings: config,
    metrics,
    logger,
    codeOf: (reason) => (reason === 'drained' || (reason === BY_SIGNAL && !options.drain) ? DONE : FAILED),
    async start({ start, stop }) {
      const maxConnections = config.PARTITIONS_AT_ONCE + 2;
      const access = { ...config.DATABASE, maxConnections, applicationName: 'promo-intake' };
      const pool = await start(postgresComponent(access, logger));
      const read = () => sampleWalletBacklog(pool);
      refreshWalletGauges = makeWalletGauges({ read, metrics, clock: systemClock, logger });
      const references = makeReferences(pool);
      const own = new OwnTopics(config);
      const wantedTopics = withoutOwn(own, logger, async () => {
        if (config.KAFKA_TOPICS !== undefined) return config.KAFKA_TOPICS;
        const reference = await references.reload();
        own.follow(reference);
        return [...reference.topics.keys()];
      });
      let connectingAt = systemClock.now();
      const onConnecting = () => {
        connectingAt = systemClock.now();
      };
      const onThrottled = observeThrottling(metrics, logger);
      const kafka = makeKafka(
        { ...config.KAFKA, clientId: 'promo-intake', onConnecting, onThrottled },
        logger,
      );
      const step = makeStart(stop, logger);
      await needStore(step, config.DATABASE, pool);
      await needOwnTopics(step, config.KAFKA, own, () => references.reload(), logger);
      const id = await step('Kafka', () => readClusterId(kafka));
      const cluster = { id, name: await step('Postgres', () => nameOfCluster(pool, id)) };
      const readDecided: ReadDecidedUpTo = (partitions) =>
        readDecidedUpTo(
          pool,
          partitions.map((each) => ({ cluster: cluster.name, ...each })),
        );
      const verdictSupply = new VerdictSupply();
      const { producer, publishVerdicts } = await start({
        name: 'producer',
        start: () => step('Kafka', () => makeProducing(kafka, own, logger, metrics, verdictSupply)),
        stop: ({ producer }) => producer.stop(),
      });
      if (options.drain)
        await start({
          name: 'drain',
          start: () =>
            step('Kafka', async () =>
              makeDrain(
                kafka,
                config.KAFKA_GROUP_ID,
                await wantedTopics(),
                { cluster, readDecidedUpTo: readDecided },
                logger,
              ),
            ),
          stop: (drain) => drain.close(),
          ended: (drain, stop) => drain.until(stop),
        });
      const tracing = await start(
        tracingComponent(config.TRACES, { groupId: config.KAFKA_GROUP_ID, version }, logger),
      );
      await start(monthsComponent(pool, logger));

      let fail = (): void => undefined;
      const failed = new Promise<string>((resolve) => {
        fail = () => resolve(FAILURE);
      });
      const reportUnread = makeUnreadReport(own, metrics, logger, () => references.current());
      const source = makeKafkaSource(
        kafka,
        {
          groupId: config.KAFKA_GROUP_ID,
          clusterId: cluster.id,
          fetchIntervalMs: config.FETCH_INTERVAL_MS,
          watchesDeadMembers: config.KAFKA_DEAD_MEMBER_WATCH === 'enabled',
          wantedTopics,
          onTopics: (exists, all) => {
            observeTopics(metrics, exists);
            reportUnread(all, [...exists.keys()]);
          },
          onFatal: (error) => {
            logger.fatal({ error: explainShortly(error) }, 'Kafka client ended');
            fail();
          },
        },
        logger,
      );
      const ledger = makeLedger(pool, { cluster: cluster.name, observe: observeSteps(metrics, tracing) });
      const sharedRounds = makeSharedRounds();
      const plainIntake = makeIntake({
        ledger,
        references,
        sharedRounds,
        isPublished: publishVerdicts !== null,
        sendDeadLetters: makeSendDeadLetters(producer, config.DEAD_LETTER_TOPIC),
        rejectLimit: config.REJECT_LIMIT === null ? undefined : makeRejectLimit(config.REJECT_LIMIT, logger),
        logger,
        onRetry: (failure) => metrics.retries.inc({ class: failure }),
        now: systemClock.now,
      });
      const stream = makeStream({
        source,
        intake: tracing?.traced(plainIntake) ?? plainIntake,
        wireFormat,
        publishVerdicts,
        verdictSupply,
        cluster,
        readDecidedUpTo: readDecided,
        recordFirstOffset: ({ topic, partition }, offset) =>
          recordFirstOffset(pool, { topic, partition, cluster: cluster.name }, offset),
        areRoundsShared: () => sharedRounds.areShared(),
        clock: systemClock,
        logger,
        metrics,
        batchEvents: config.BATCH_EVENTS,
        partitionsAtOnce: config.PARTITIONS_AT_ONCE,
      });
      running = stream;
      await start({
        name: 'stream',
        start: () => stream.start(),
        stop: (_, withinMs) => stream.stop(withinMs),
        // A worker that is trying to reach Kafka is alive: a restart would not help.
        isLive: () =>
          Math.min(stream.idleMs(), systemClock.now() - connectingAt) < config.LIVENESS_SECONDS * 1000,
        isReady: () => stream.joined(),
        notes: () => stream.undecided().map(describeUndecided),
        ended: () => failed,
      });
    },
  });
}

const readSettings = () => readConfig(process.env, WORKER_SETTINGS);

function describeUndecided({ topic, partition, sinceMs, because }: UndecidedPartition): string {
  return `${keyOf({ topic, partition })} is undecided for ${elapsedText(sinceMs / 1000)}: ${because.replaceAll('\n', ' ')}`;
}

/** Warns once of each topic that looks like a topic of events and is read by no worker. */
function makeUnreadReport(
  own: OwnTopics,
  { unreadTopics: gauge }: Pick<Metrics, 'unreadTopics'>,
  logger: Logger,
  reference: () => Promise<Reference>,
): (existing: ReadonlySet<string>, wanted: readonly string[]) => void {
  let reported: ReadonlySet<string> = new Set();
  const report = async (existing: ReadonlySet<string>, wanted: readonly string[]) => {
    // Another deployment may read the topics that a connection names and KAFKA_TOPICS leaves out.
    const named = [...(await reference()).topics.keys()];
    const found = unreadTopics(existing, { known: [...wanted, ...named], own: own.all });
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
  own: OwnTopics,
  logger: Logger,
  wanted: () => Promise<readonly string[]>,
): () => Promise<readonly string[]> {
  const reported = new Set<string>();
  return async () => {
    const topics = await wanted();
    const written = own.all;
    for (const topic of topics.filter((topic) => written.includes(topic) && !reported.has(topic))) {
      reported.add(topic);
      logger.error({ topic }, 'topic ignored: this worker writes to it');
    }
    return topics.filter((topic) => !written.includes(topic));
  };
}
