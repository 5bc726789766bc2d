/**
 * `promo-intake webhook`: receives events over HTTP and decides them until a signal stops it.
 */
import type { Logger } from 'pino';
import { DONE, FAILED } from '../cli/exit-codes';
import { explainShortly, portIsTaken, Unable } from '../cli/explain-error';
import { packageVersion } from '../cli/package-version';
import { describeConfig, readConfig } from '../config/config';
import type { WebhookSecrets } from '../config/webhook';
import { makeIntake } from '../intake/intake';
import type { Tracing } from '../intake/tracing';
import { makeKafka } from '../kafka/client/client';
import { makeSender, type Sender } from '../kafka/producer';
import { makeLedger } from '../ledger/decide-batch';
import { makeReferences } from '../ledger/reference-store';
import { NEVER, systemClock } from '../lib/clock';
import { messageOf } from '../lib/errors';
import { makePool, type PostgresPool } from '../postgres/pool';
import { makePublishVerdicts } from '../publishing/verdict-topic';
import { observeThrottling } from '../stream/worker-metrics';
import { makeLogger } from '../telemetry/logger';
import { type Metrics, makeMetrics } from '../telemetry/metrics';
import { serveWebhook, type Webhook } from '../webhook/server';
import { makeLiveSecrets } from './live-secrets';
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
import { PUBLISHING_WEBHOOK_SETTINGS, WEBHOOK_SETTINGS } from './settings';

/** @returns the exit code */
export async function webhook(): Promise<number> {
  const settings = readSettings();
  const { WEBHOOK, DATABASE, TRACES, HTTP_PORT, LIVENESS_HEARTBEAT, LOG_LEVEL, SHUTDOWN_SECONDS } =
    settings.config;
  const metrics = makeMetrics('webhook');
  const logger = makeLogger(LOG_LEVEL, 'stdout', () => metrics.logLinesDropped.inc());
  logWarnings(logger);
  const version = await packageVersion();
  metrics.buildInfo.set({ version, node: process.versions.node }, 1);
  const stop = stopSignal(logger);
  let isServed = false;
  const health = await showHealth(
    { port: HTTP_PORT, file: LIVENESS_HEARTBEAT },
    { live: () => true, ready: () => isServed && !stop.aborted, notes: () => [] },
    metrics,
    logger,
  );

  const applicationName = 'promo-intake-webhook';
  const pool = makePool({ ...DATABASE, maxConnections: WEBHOOK.slots + 1, applicationName }, logger);
  const tracing = await loadTracing(TRACES, { version }, logger);
  const secrets = makeLiveSecrets(WEBHOOK.secrets, systemClock.now, logger);
  const opened = await open(settings, { pool, tracing, secrets, metrics, logger, stop }).catch(
    (error: unknown): never => {
      if (stop.aborted) logger.info('stopped before the start was complete');
      else logger.fatal({ error: explainShortly(error) }, 'the webhook cannot start');
      // A pending attempt to connect would keep the process alive.
      process.exit(stop.aborted ? DONE : FAILED);
    },
  );
  isServed = true;
  logger.info({ port: opened.webhook.port, connections: [...secrets().keys()] }, 'webhook started');
  const endMonths = keepMonths(pool, logger);

  await aborted(stop);
  logger.info({ drainSeconds: WEBHOOK.drainSeconds }, 'stopping');
  opened.webhook.startDraining();
  await systemClock.sleep(WEBHOOK.drainSeconds * 1000, NEVER);
  const stopBy = systemClock.now() + SHUTDOWN_SECONDS * 1000;
  endMonths();
  const finished = await opened.webhook.close(SHUTDOWN_SECONDS * 1000 - CLOSE_WITHIN_MS);
  const closeWithinMs = Math.max(CLOSE_WITHIN_MS, stopBy - systemClock.now());
  const lastTraces = tracing && closeInTime(tracing, closeWithinMs / 2, logger);
  const closing = Promise.allSettled([opened.sender?.stop(), health.close(), pool.end(), lastTraces]);
  const closed = await isDoneWithin(closing, closeWithinMs);
  if (!finished || !closed) logger.warn('requests or connections did not end in time, dropping them');
  logger.info('stopped');
  // A hanging connection would keep the process alive. Senders without an answer retry.
  if (!finished || !closed) process.exit(FAILED);
  return DONE;
}

interface Parts {
  readonly pool: PostgresPool;
  readonly tracing: Tracing | null;
  readonly secrets: () => WebhookSecrets;
  readonly metrics: Metrics;
  readonly logger: Logger;
  readonly stop: AbortSignal;
}

/** Waits for Postgres and Kafka, then serves. @throws if they are not ready in time, or on a stop signal */
async function open(
  { config: { WEBHOOK, DATABASE, VERDICT_TOPIC }, kafka }: ReturnType<typeof readSettings>,
  { pool, tracing, secrets, metrics, logger, stop }: Parts,
): Promise<{ webhook: Webhook; sender: Sender | null }> {
  const step = makeStart(stop, logger);
  await needStore(step, DATABASE, pool);
  let sender: Sender | null = null;
  if (kafka !== null) {
    await needTopics(step, kafka, [VERDICT_TOPIC], logger);
    const onThrottled = observeThrottling(metrics, logger);
    const client = makeKafka({ ...kafka, clientId: 'promo-intake', onThrottled }, logger);
    sender = await step('Kafka', () => makeSender(client));
  }
  const { port, slots, maxEvents, maxBytes, trustedProxies, connections, connectionsPerAddress } = WEBHOOK;
  const intake = makeIntake({
    ledger: makeLedger(pool, { observe: observeSteps(metrics, tracing) }),
    references: makeReferences(pool),
    logger,
    onRetry: (failure) => metrics.retries.inc({ class: failure }),
    now: systemClock.now,
  });
  const serving = serveWebhook(port, {
    ...{ intake, logger, metrics, slots, maxEvents, maxBytes, trustedProxies },
    limits: { connections, perAddress: connectionsPerAddress },
    secretsOf: (connectionId) => secrets().get(connectionId) ?? [],
    publishVerdicts: sender && VERDICT_TOPIC ? makePublishVerdicts(sender, VERDICT_TOPIC) : null,
    clock: systemClock,
    now: Date.now,
    ...(tracing === null ? {} : { observe: tracing.request }),
  });
  const webhook = await serving.catch((error: unknown): never => {
    throw new Unable(portIsTaken('WEBHOOK_PORT', messageOf(error)));
  });
  return { webhook, sender };
}

/** Reads the settings. Those of Kafka are required only if verdicts are published. */
function readSettings() {
  const [verdictTopic] = describeConfig(process.env, ['VERDICT_TOPIC']);
  if (verdictTopic?.value == null) return { config: readConfig(process.env, WEBHOOK_SETTINGS), kafka: null };
  const config = readConfig(process.env, PUBLISHING_WEBHOOK_SETTINGS);
  return { config, kafka: config.KAFKA };
}
