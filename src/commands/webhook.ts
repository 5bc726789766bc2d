/**
 * `promo-intake webhook`: takes in events over HTTP and decides them, until it is told to stop.
 */
import type { Logger } from 'pino';
import { NEVER, systemClock } from '../clock';
import { describeConfig, readConfig } from '../config';
import { readSecrets, type WebhookSecrets } from '../config/webhook';
import { messageOf } from '../errors';
import { makeIntake } from '../intake';
import { makePool } from '../ledger/connection';
import { ensureMonths, makeLedger } from '../ledger/ledger';
import { pendingMigrations } from '../ledger/migrate';
import { makeReferences } from '../ledger/reference-store';
import { makeLogger, makeMetrics, serveHealth } from '../telemetry';
import { makeKafka } from '../transports/kafka';
import { makeSender, type Sender } from '../transports/sender';
import { makePublishVerdicts } from '../transports/verdict-stream';
import { serveWebhook, type Webhook } from '../transports/webhook';
import { DONE, FAILED } from './exit-codes';
import { explainShortly, lacksMigrations, portIsTaken, Unable } from './explain';
import { packageVersion } from './package-version';
import {
  aborted,
  CLOSE_WITHIN_MS,
  closeInTime,
  endsWithin,
  ensureTopics,
  isCompacted,
  keepMonths,
  loadTracing,
  logWarnings,
  makeStart,
  observeSteps,
  stopSignal,
} from './service';
import { PUBLISHING_WEBHOOK_SETTINGS, WEBHOOK_SETTINGS } from './settings';

/** @returns the exit code */
export async function webhook(): Promise<number> {
  const { config, kafka } = readSettings();
  const { WEBHOOK, VERDICT_TOPIC } = config;
  const logger = makeLogger(config.LOG_LEVEL);
  logWarnings(logger);
  const metrics = makeMetrics('webhook');
  const version = await packageVersion();
  metrics.buildInfo.set({ version, node: process.versions.node }, 1);
  const stop = stopSignal(logger);
  let served: Webhook | null = null;
  const health = await serveHealth(
    config.HTTP_PORT,
    { live: () => true, ready: () => served !== null && !stop.aborted, notes: () => [] },
    metrics,
  );
  logger.info({ port: health.port }, 'health and metrics are served');

  const pool = makePool(
    { ...config.DATABASE, maxConnections: WEBHOOK.slots + 1, applicationName: 'promo-intake-webhook' },
    logger,
  );
  const secrets = liveSecrets(WEBHOOK.secrets, logger);
  const tracing = await loadTracing(config.TRACES, { version }, logger);
  let sender: Sender | null = null;
  try {
    const step = makeStart(stop, logger);
    const pending = await step('Postgres', () => pendingMigrations(config.DATABASE));
    if (pending.length > 0) throw new Unable(lacksMigrations(pending));
    await step('Postgres', () => ensureMonths(pool));
    if (kafka !== null) {
      const compacted = await step('Kafka', () => ensureTopics(kafka, [VERDICT_TOPIC], logger));
      if (compacted !== undefined) throw new Unable(isCompacted(compacted));
      sender = await step('Kafka', () =>
        makeSender(makeKafka({ ...kafka, clientId: 'promo-intake' }, logger)),
      );
    }
    served = await serveWebhook(WEBHOOK.port, {
      intake: makeIntake({
        ledger: makeLedger(pool, { observe: observeSteps(metrics, tracing) }),
        references: makeReferences(pool),
        logger,
        onRetry: (failure) => metrics.retries.inc({ class: failure }),
        now: systemClock.now,
      }),
      secretsOf: (connectionId) => secrets().get(connectionId) ?? [],
      publishVerdicts:
        sender === null || VERDICT_TOPIC === undefined ? null : makePublishVerdicts(sender, VERDICT_TOPIC),
      logger,
      metrics,
      now: Date.now,
      slots: WEBHOOK.slots,
      maxEvents: WEBHOOK.maxEvents,
      maxBytes: WEBHOOK.maxBytes,
      ...(tracing === null ? {} : { observe: tracing.request }),
    }).catch((error: unknown): never => {
      throw new Unable(portIsTaken('WEBHOOK_PORT', messageOf(error)));
    });
  } catch (error) {
    if (stop.aborted) logger.info('stopped before it had started');
    else logger.fatal({ error: explainShortly(error) }, 'the webhook cannot start');
    // Whatever is still being waited for would keep the process.
    process.exit(stop.aborted ? DONE : FAILED);
  }
  logger.info({ port: served.port, connections: [...secrets().keys()] }, 'the webhook is served');
  const endMonths = keepMonths(pool, logger);

  await aborted(stop);
  logger.info({ drainSeconds: WEBHOOK.drainSeconds }, 'stopping');
  served.sendAway();
  await systemClock.sleep(WEBHOOK.drainSeconds * 1000, NEVER);
  const stopBy = systemClock.now() + config.SHUTDOWN_SECONDS * 1000;
  endMonths();
  const finished = await served.close(config.SHUTDOWN_SECONDS * 1000 - CLOSE_WITHIN_MS);
  const closeWithinMs = Math.max(CLOSE_WITHIN_MS, stopBy - systemClock.now());
  const lastTraces = tracing && closeInTime(tracing, closeWithinMs / 2, logger);
  const closed = await endsWithin(
    Promise.allSettled([sender?.stop(), health.close(), pool.end(), lastTraces]),
    closeWithinMs,
  );
  if (!finished || !closed) logger.warn('requests or connections did not end in time, and are cut');
  logger.info('stopped');
  // What hangs would keep the process. Whoever was not answered sends again.
  if (!finished || !closed) process.exit(FAILED);
  return DONE;
}

/** Kafka is only asked for where verdicts are published. */
function readSettings() {
  const [verdictTopic] = describeConfig(process.env, ['VERDICT_TOPIC']);
  if (verdictTopic?.value == null) return { config: readConfig(process.env, WEBHOOK_SETTINGS), kafka: null };
  const config = readConfig(process.env, PUBLISHING_WEBHOOK_SETTINGS);
  return { config, kafka: config.KAFKA };
}

/** The secrets as they are now: a file of them is read anew for each request. Where it has become wrong, the last ones count. */
function liveSecrets(read: () => string, logger: Logger): () => WebhookSecrets {
  let text: string | undefined;
  let secrets: WebhookSecrets = new Map();
  return () => {
    const now = read();
    if (now === text) return secrets;
    const parsed = readSecrets(now);
    if ('value' in parsed) secrets = parsed.value;
    else
      logger.error(
        { problem: `WEBHOOK_SECRETS ${parsed.problem}` },
        'the secrets have changed and cannot be used',
      );
    if (text !== undefined && 'value' in parsed)
      logger.info({ connections: [...secrets.keys()] }, 'the secrets have changed');
    text = now;
    return secrets;
  };
}
