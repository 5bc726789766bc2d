/**
 * What every command does that serves until it is told to stop: its start, in which what it needs may be late, the months that it keeps ready, and its
 * end, which takes no longer than it may.
 */
import type { Logger } from 'pino';
import { FAILED } from '../cli/exit-codes';
import { explainShortly, Unable } from '../cli/explain-error';
import { lacksMigrations } from '../cli/remedies';
import type { KafkaSettings } from '../config/kafka';
import type { Traces } from '../config/traces';
import type { Tracing, TracingOptions } from '../intake/tracing';
import { makeKafka } from '../kafka/client/client';
import { KafkaRefusal } from '../kafka/client/errors';
import { ensureTopic, findCompacted } from '../kafka/client/topics';
import { ensureMonths, type LedgerOptions, type LedgerStep } from '../ledger/decide-batch';
import { pendingMigrations } from '../ledger/migrate';
import { inTime, LATE, systemClock } from '../lib/clock';
import { messageOf } from '../lib/errors';
import type { StoreAccess } from '../postgres/pool';
import type { Store } from '../postgres/transaction';
import { makeStepTimer } from '../stream/worker-metrics';
import { type Health, serveHealth } from '../telemetry/health-server';
import { startHeartbeat } from '../telemetry/heartbeat';
import { limitRate, makeLogger } from '../telemetry/logger';
import type { Metrics } from '../telemetry/metrics';

/** The month's partitions are made ahead, and looked after this often. */
const MONTHS_CHECK_MS = 3_600_000;
/** Postgres and Kafka may come up later than their workers, by this much. */
const START_WITHIN_MS = 60_000;
const START_RETRY_MS = 2_000;
/** One try to reach them: it may hang. Over a line of two seconds a connection to Postgres and a transaction take nearly twenty. */
const START_TRY_MS = 25_000;
/** Closing connections may take this long, even where deciding took all the time of a shutdown. */
export const CLOSE_WITHIN_MS = 500;
/** A file that cannot be written is reported this often. */
const HEARTBEAT_FAULT_EVERY_MS = 60_000;
/** Of the time that is left for closing, the last traces may take half, and no more than this. */
const LAST_TRACES_WITHIN_MS = 2_000;

/** Serves health on HTTP_PORT, and keeps the file of LIVENESS_HEARTBEAT fresh where one is named. @throws Unable where the file cannot be made */
export async function showHealth(
  { port, file }: { readonly port: number; readonly file: string | undefined },
  health: Health,
  metrics: Metrics,
  logger: Logger,
): Promise<{ close(): Promise<void> }> {
  const served = await serveHealth(port, health, metrics);
  logger.info({ port: served.port }, 'health and metrics are served');
  if (file === undefined) return served;
  const report = limitRate<unknown>(HEARTBEAT_FAULT_EVERY_MS, (error) =>
    logger.error({ error: messageOf(error), file }, 'LIVENESS_HEARTBEAT cannot be written'),
  );
  try {
    const end = startHeartbeat(file, health.live, report);
    return {
      async close() {
        end();
        await served.close();
      },
    };
  } catch (error) {
    throw new Unable(
      `LIVENESS_HEARTBEAT cannot be made: ${messageOf(error)}. Name a file in a directory that exists and that this process may write to`,
    );
  }
}

/** Makes the coming months' tables for as long as the command serves. @returns what ends it */
export function keepMonths(store: Store, logger: Logger): () => void {
  const timer = setInterval(() => {
    ensureMonths(store).catch((error: unknown) =>
      logger.error({ error: messageOf(error) }, 'next months could not be prepared'),
    );
  }, MONTHS_CHECK_MS);
  return () => clearInterval(timer);
}

/** Waits for a store that has all tables, those of the coming months too. @throws Unable where it lacks migrations */
export async function needStore(start: Start, access: StoreAccess, store: Store): Promise<void> {
  const pending = await start('Postgres', () => pendingMigrations(access));
  if (pending.length > 0) throw new Unable(lacksMigrations(pending));
  await start('Postgres', () => ensureMonths(store));
}

/** Waits for Kafka, where topics of our own are made if they are missing. @throws Unable where one does not take all that is to be written */
export async function needTopics(
  start: Start,
  kafka: KafkaSettings,
  topics: readonly (string | undefined)[],
  logger: Logger,
): Promise<void> {
  const compacted = await start('Kafka', () => ensureTopics(kafka, topics, logger));
  if (compacted === undefined) return;
  throw new Unable(
    `Topic ${compacted} is compacted: it takes no message without a key, and one would stop its partition for good. Set its cleanup.policy to delete, or name another topic`,
  );
}

/** One short try: whoever waits for Kafka tries again. @returns one that is compacted */
async function ensureTopics(
  kafka: KafkaSettings,
  topics: readonly (string | undefined)[],
  logger: Logger,
): Promise<string | undefined> {
  const access = { ...kafka, clientId: 'promo-intake', retries: 1 };
  const client = makeKafka(access, logger);
  const named = topics.filter((topic) => topic !== undefined);
  for (const topic of named)
    if ((await ensureTopic(client, topic)) === 'made')
      logger.info({ topic }, 'topic was missing and is made');
  // Silent: its client would warn at each start where we may not ask.
  return findCompacted(makeKafka(access, makeLogger('silent')), named);
}

type Start = ReturnType<typeof makeStart>;

/** Does a step of the start until it succeeds: what it needs may not be up yet. @throws at once where that is refused for good; where it is not in time, or we are told to stop */
export function makeStart(stop: AbortSignal, logger: Logger) {
  const giveUpAt = systemClock.now() + START_WITHIN_MS;
  return async <T>(needed: string, step: () => Promise<T>): Promise<T> => {
    for (;;) {
      try {
        return await orGiveUp(step(), stop, START_TRY_MS);
      } catch (error) {
        if (error instanceof KafkaRefusal) throw error;
        const late = systemClock.now() + START_RETRY_MS > giveUpAt;
        if (stop.aborted || late) throw new Error(`${needed}: ${messageOf(error)}`, { cause: error });
        logger.warn(
          { error: explainShortly(error), retryMs: START_RETRY_MS },
          `${needed} is not ready; trying again`,
        );
        await systemClock.sleep(START_RETRY_MS, stop);
      }
    }
  };
}

/** @throws where `work` throws, takes longer than `ms`, or we are told to stop */
async function orGiveUp<T>(work: Promise<T>, stop: AbortSignal, ms: number): Promise<T> {
  const over = new AbortController();
  const giveUp = systemClock.sleep(ms, AbortSignal.any([stop, over.signal])).then((): never => {
    throw new Error(stop.aborted ? 'told to stop' : `no answer within ${ms} ms`);
  });
  try {
    return await Promise.race([work, giveUp]);
  } finally {
    over.abort();
  }
}

export async function endsWithin(work: Promise<unknown>, ms: number): Promise<boolean> {
  return (await inTime(work, ms)) !== LATE;
}

/** Node's warnings as log lines. kafkajs 2.2.4 sets timers that lie in the past, which Node 24 warns of and which harms nothing. */
export function logWarnings(logger: Logger): void {
  process.removeAllListeners('warning');
  process.on('warning', ({ name, message }) => {
    if (name !== 'TimeoutNegativeWarning') logger.warn({ warning: name }, message);
  });
}

/** Aborted by SIGTERM or SIGINT. A second one ends the process at once. */
export function stopSignal(logger: Logger): AbortSignal {
  const controller = new AbortController();
  for (const signal of ['SIGTERM', 'SIGINT'] as const) {
    process.on(signal, () => {
      if (controller.signal.aborted) process.exit(FAILED);
      logger.info({ signal }, 'signal received');
      controller.abort();
    });
  }
  return controller.signal;
}

export function aborted(signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    if (signal.aborted) resolve();
    else signal.addEventListener('abort', () => resolve(), { once: true });
  });
}

/** The SDK of OpenTelemetry takes a tenth of a second of CPU and some MiB: who does not trace does not load it. */
export async function loadTracing(
  traces: Traces | null,
  options: Omit<TracingOptions, 'headers'>,
  logger: Logger,
): Promise<Tracing | null> {
  if (traces === null) return null;
  const { makeTracing } = await import('../intake/tracing.js');
  return makeTracing({ ...options, headers: traces.headers }, logger);
}

/** Traces are no reason to end later, or otherwise. */
export async function closeInTime(tracing: Tracing, withinMs: number, logger: Logger): Promise<void> {
  if (!(await endsWithin(tracing.close(), Math.min(LAST_TRACES_WITHIN_MS, withinMs))))
    logger.warn('the last traces were not sent in time');
}

/** Measures the steps of each transaction, and traces them where that is wanted. */
export function observeSteps(
  metrics: Metrics,
  tracing: Tracing | null,
): NonNullable<LedgerOptions['observe']> {
  return (run) => {
    const measured = makeStepTimer(metrics);
    const measure = (stepEnded?: (step: LedgerStep) => void) =>
      run((step) => {
        measured(step);
        stepEnded?.(step);
      });
    return tracing === null ? measure() : tracing.transaction(measure);
  };
}
