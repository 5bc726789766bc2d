/**
 * `promo-intake webhook`: receives events over HTTP and decides them until a signal stops it.
 */
import { refusePort } from '../../cli/explain-error';
import { describeConfig, readConfig } from '../../config/config';
import type { Reference } from '../../domain/reference';
import { makeConnectionLimit } from '../../intake/connection-limit';
import type { References } from '../../intake/references';
import { makeKafka } from '../../kafka/client/client';
import { makeReferences } from '../../ledger/reference-store';
import { NEVER, systemClock } from '../../lib/clock';
import { observeThrottling } from '../../stream/worker-metrics';
import { type ServerDeps, serveWebhook } from '../../webhook/server';
import { monthsComponent, postgresComponent, tracingComponent } from '../services/components';
import { makeInstruments } from '../services/instruments';
import { makeLiveSecrets } from '../services/live-secrets';
import { makeStart, needStore, serve } from '../services/service';
import { makeProducing, needOwnTopics, OwnTopics } from '../services/verdict-publishing';
import { servedCheckPage } from '../shared/check-page';
import { PUBLISHING_WEBHOOK_SETTINGS, WEBHOOK_SETTINGS } from '../shared/settings';
import { startDeciding } from './deciding-components';

/** @returns the exit code */
export async function webhook(): Promise<number> {
  const { config, kafka } = readSettings();
  const { WEBHOOK, DATABASE, TRACES, VERDICT_TOPIC } = config;
  const { metrics, logger, version } = await makeInstruments('webhook', config.LOG_LEVEL);

  return serve({
    name: 'webhook',
    settings: config,
    metrics,
    logger,
    details: { drainSeconds: WEBHOOK.drainSeconds },
    async start({ start, stop }) {
      const maxConnections = WEBHOOK.slots + 1;
      const access = { ...DATABASE, maxConnections, applicationName: 'promo-intake-webhook' };
      const pool = await start(postgresComponent(access, logger));
      const tracing = await start(tracingComponent(TRACES, { version }, logger));
      const secrets = makeLiveSecrets(WEBHOOK.secrets, systemClock.now, logger);
      const step = makeStart(stop, logger);
      await needStore(step, DATABASE, pool);
      let publishing: Pick<ServerDeps, 'publishVerdicts' | 'isPerOperator'> = { publishVerdicts: null };
      let references = makeReferences(pool);
      if (kafka !== null) {
        const own = new OwnTopics({ VERDICT_TOPIC });
        references = followedBy(own, references);
        await needOwnTopics(step, kafka, own, () => references.reload(), logger);
        const onThrottled = observeThrottling(metrics, logger);
        const client = makeKafka({ ...kafka, clientId: 'promo-intake', onThrottled }, logger);
        publishing = await start({
          name: 'producer',
          start: () => step('Kafka', () => makeProducing(client, own, logger, metrics)),
          stop: ({ producer }) => producer.stop(),
        });
      }
      await start(monthsComponent(pool, logger));
      const { port, slots, maxEvents, maxBytes, trustedProxies, connections, connectionsPerAddress } =
        WEBHOOK;
      const deciding = await startDeciding(
        { start },
        {
          access: DATABASE,
          store: pool,
          references,
          tracing,
          metrics,
          logger,
          isPublished: publishing.publishVerdicts !== null,
          rejectLimit:
            config.REJECT_LIMIT === null
              ? undefined
              : makeConnectionLimit(config.REJECT_LIMIT, logger, Date.now),
        },
      );
      const deps: ServerDeps = {
        ...deciding,
        logger,
        metrics,
        slots,
        maxEvents,
        maxBytes,
        trustedProxies,
        ...publishing,
        limits: { connections, perAddress: connectionsPerAddress },
        checkPage: await servedCheckPage(logger),
        secretsOf: (connectionId) => secrets().get(connectionId) ?? [],
        clock: systemClock,
        now: Date.now,
        ...(tracing === null ? {} : { observe: tracing.request }),
      };
      await start({
        name: 'server',
        async start() {
          const server = await serveWebhook(port, deps).catch(refusePort('WEBHOOK_PORT'));
          logger.info({ port: server.port, connections: [...secrets().keys()] }, 'webhook started');
          return server;
        },
        async quiesce(server) {
          server.startDraining();
          await systemClock.sleep(WEBHOOK.drainSeconds * 1000, NEVER);
        },
        stop: (server, withinMs) => server.close(withinMs),
      });
    },
  });
}

/** References whose topics `own` knows before an event is decided by them. */
function followedBy(own: OwnTopics, { current, reload }: References): References {
  const follow = async (read: Promise<Reference>) => {
    const reference = await read;
    own.follow(reference);
    return reference;
  };
  let last: Reference | undefined;
  return {
    reload: () => follow(reload()),
    async current() {
      const reference = await current();
      if (reference !== last) own.follow(reference);
      last = reference;
      return reference;
    },
  };
}

/** Reads the settings. Those of Kafka are required only if verdicts are published. */
function readSettings() {
  const [verdictTopic] = describeConfig(process.env, ['VERDICT_TOPIC']);
  if (verdictTopic?.value == null) return { config: readConfig(process.env, WEBHOOK_SETTINGS), kafka: null };
  const config = readConfig(process.env, PUBLISHING_WEBHOOK_SETTINGS);
  return { config, kafka: config.KAFKA };
}
