/** `promo-intake completions`: publishes the completions of promotions, until a signal stops it. */
import { readConfig, SETTINGS } from '../../config/config';
import { makeKafka } from '../../kafka/client/client';
import { ensureTopic } from '../../kafka/client/topics';
import { makeTopicsProducer } from '../../kafka/producer';
import { systemClock } from '../../lib/clock';
import { messageOf } from '../../lib/errors';
import { readEventTopics } from '../../promotion-publishing/event-topics';
import { makeOutbox } from '../../promotion-publishing/outbox';
import { makeCompletionPublisher, type PublishedStep } from '../../promotion-publishing/publisher';
import { runPublishing } from '../../promotion-publishing/run';
import type { OnCompletions } from '../../promotion-publishing/send-completions';
import { makeOperatorTopics } from '../../publishing/operator-topics';
import type { Metrics } from '../../telemetry/metrics';
import { loopComponent, postgresComponent } from '../services/components';
import { leaseHolder, makeInstruments } from '../services/instruments';
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
  const { metrics, logger } = await makeInstruments('completions', config.LOG_LEVEL);
  const watch = watchSteps(metrics);

  return serve({
    name: 'completions',
    settings: config,
    metrics,
    logger,
    async start({ start, stop }) {
      const access = { ...config.DATABASE, maxConnections: 2, applicationName: 'promo-intake-completions' };
      const pool = await start(postgresComponent(access, logger));
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
      const publisher = makeCompletionPublisher({
        outbox: makeOutbox(pool, leaseHolder(), LEASE_MS),
        producer,
        topics,
        clock: systemClock,
        onCompletions: countTo(metrics),
      });
      const loops = { publisher, clock: systemClock, logger, intervalMs: INTERVAL_MS };
      await start(
        loopComponent({
          name: 'publisher',
          run: (stop) => runPublishing({ ...loops, observe: watch.observe }, stop),
          release: () => publisher.release(),
          isLive: () => watch.triedMsAgo() < config.LIVENESS_SECONDS * 1_000,
        }),
      );
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
