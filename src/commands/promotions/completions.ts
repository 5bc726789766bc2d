/** `promo-intake completions`: publishes the completions of promotions, until a signal stops it. */
import { randomUUID } from 'node:crypto';
import { hostname } from 'node:os';
import { DONE, FAILED } from '../../cli/exit-codes';
import { packageVersion } from '../../cli/package-version';
import { readConfig, SETTINGS } from '../../config/config';
import { makeKafka } from '../../kafka/client/client';
import { ensureTopic } from '../../kafka/client/topics';
import { makeTopicsProducer } from '../../kafka/producer';
import { systemClock } from '../../lib/clock';
import { messageOf } from '../../lib/errors';
import { makePool } from '../../postgres/pool';
import { readEventTopics } from '../../promotion-publishing/event-topics';
import { makeOutbox } from '../../promotion-publishing/outbox';
import { makeCompletionPublisher, type PublishedStep } from '../../promotion-publishing/publisher';
import { runPublishing } from '../../promotion-publishing/run';
import type { OnCompletions } from '../../promotion-publishing/send-completions';
import { makeOperatorTopics } from '../../publishing/operator-topics';
import { makeLogger } from '../../telemetry/logger';
import { type Metrics, makeMetrics } from '../../telemetry/metrics';
import { BY_SIGNAL } from '../services/lifecycle';
import { makeStart, needMigrations, serve } from '../services/service';
import { COMPLETIONS_SETTINGS } from '../shared/settings';

/** Between two looks for new completions. */
const INTERVAL_MS = 500;
/** After the crash of the process that publishes, another one waits for this time. */
const LEASE_MS = 10_000;
/** How often the topics of events are read again: none of them may get completions. */
const TOPICS_EVERY_MS = 60_000;
const READ = 'a topic that is read';

/** @returns the exit code */
export async function completions(): Promise<number> {
  const config = readConfig(process.env, COMPLETIONS_SETTINGS);
  const { COMPLETION_TOPIC } = config;
  const metrics = makeMetrics('completions');
  const logger = makeLogger(config.LOG_LEVEL, 'stdout', () => metrics.logLinesDropped.inc());
  metrics.buildInfo.set({ version: await packageVersion(), node: process.versions.node }, 1);
  const watch = watchSteps(metrics);

  return serve({
    name: 'completions',
    healthAt: { port: config.HTTP_PORT, file: config.LIVENESS_HEARTBEAT },
    metrics,
    logger,
    stopWithinMs: config.SHUTDOWN_SECONDS * 1_000,
    codeOf: (reason) => (reason === BY_SIGNAL ? DONE : FAILED),
    async start({ start, stop }) {
      const access = { ...config.DATABASE, maxConnections: 2, applicationName: 'promo-intake-completions' };
      const pool = await start({
        name: 'postgres',
        start: () => makePool(access, logger),
        stop: (pool) => pool.end(),
      });
      const step = makeStart(stop, logger);
      await needMigrations(step, config.DATABASE);
      let read = await step('Postgres', () => readEventTopics(pool));
      await start({
        name: 'topics of events',
        start: () =>
          setInterval(() => {
            readEventTopics(pool).then(
              (topics) => {
                read = topics;
              },
              (error: unknown) =>
                logger.warn({ error: messageOf(error) }, 'cannot read the topics of events, retrying'),
            );
          }, TOPICS_EVERY_MS),
        stop: async (timer) => clearInterval(timer),
      });
      const topics = makeOperatorTopics(COMPLETION_TOPIC, SETTINGS.COMPLETION_TOPIC.example, () =>
        read.map((topic) => [topic, READ] as const),
      );
      const kafka = makeKafka({ ...config.KAFKA, clientId: 'promo-intake-completions' }, logger);
      const onCreated = (topic: string) => logger.info({ topic }, 'topic created');
      if (
        !topics.isPerOperator &&
        (await step('Kafka', () => ensureTopic(kafka, COMPLETION_TOPIC))) === 'made'
      )
        onCreated(COMPLETION_TOPIC);
      const producer = await start({
        name: 'producer',
        start: () => step('Kafka', () => makeTopicsProducer(kafka, onCreated)),
        stop: (producer) => producer.stop(),
      });
      const holder = `${hostname()} ${process.pid} ${randomUUID().slice(0, 8)}`;
      const publisher = makeCompletionPublisher({
        ...{ outbox: makeOutbox(pool, holder, LEASE_MS), producer, topics },
        ...{ clock: systemClock, onCompletions: countTo(metrics) },
      });
      await start({
        name: 'publisher',
        start() {
          const end = new AbortController();
          const loops = { publisher, clock: systemClock, logger, intervalMs: INTERVAL_MS };
          return { end, running: runPublishing({ ...loops, observe: watch.observe }, end.signal) };
        },
        async stop({ end, running }) {
          end.abort();
          await running;
          await publisher.release();
        },
        isLive: () => watch.triedMsAgo() < config.LIVENESS_SECONDS * 1_000,
        ended: ({ running }) => running.then(() => BY_SIGNAL),
      });
      logger.info({ topic: COMPLETION_TOPIC }, 'publishing completions');
    },
  });
}

function countTo({ completions }: Metrics): OnCompletions {
  return (topic, messages, isStored) => {
    if (isStored) completions.published.inc({ topic }, messages);
    completions.refusing.set({ topic }, isStored ? 0 : 1);
  };
}

/** The gauges of the steps, and the time of the last try. The lag grows while steps fail. */
function watchSteps(metrics: Metrics) {
  const { lagSeconds, publishing, failures } = metrics.completions;
  let completeAt = systemClock.now();
  let triedAt = completeAt;
  metrics.beforeScrape = () => lagSeconds.set((systemClock.now() - completeAt) / 1_000);
  return {
    observe(step?: PublishedStep): void {
      triedAt = systemClock.now();
      if (step === undefined) {
        failures.inc();
        return;
      }
      publishing.set(step.kind === 'standby' ? 0 : 1);
      completeAt = triedAt - step.lagSeconds * 1_000;
    },
    triedMsAgo: () => systemClock.now() - triedAt,
  };
}
