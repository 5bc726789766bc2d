/**
 * The process around a service, and the steps by which a service waits for its servers. The order in which
 * components start and stop is in lifecycle.ts, and the components that services share are in components.ts.
 */
import type { Logger } from 'pino';
import { explainShortly, Unable } from '../../cli/explain-error';
import { lacksMigrations } from '../../cli/remedies';
import type { KafkaSettings } from '../../config/kafka';
import type { Tracing } from '../../intake/tracing';
import { makeKafka } from '../../kafka/client/client';
import { isCompacted, KafkaRefusal } from '../../kafka/client/errors';
import { ensureTopic, lookAtTopics } from '../../kafka/client/topics';
import type { LedgerOptions, LedgerStep } from '../../ledger/decide-batch';
import { pendingMigrations } from '../../ledger/migrate';
import { ensureMonths } from '../../ledger/partition-state';
import { systemClock } from '../../lib/clock';
import { messageOf } from '../../lib/errors';
import { limitLines } from '../../lib/line-limit';
import type { StoreAccess } from '../../postgres/pool';
import type { Store } from '../../postgres/transaction';
import { makeStepTimer } from '../../stream/worker-metrics';
import { type Health, serveHealth } from '../../telemetry/health-server';
import { startHeartbeat } from '../../telemetry/heartbeat';
import { makeLogger } from '../../telemetry/logger';
import type { Metrics } from '../../telemetry/metrics';
import type { Instruments } from './instruments';
import { runService, type Service, type Surroundings } from './lifecycle';

/** Postgres and Kafka may become ready later than this process, by at most this time. */
const START_WITHIN_MS = 60_000;
const START_RETRY_MS = 2_000;
/**
 * Time limit of one attempt, which may hang. With a latency of two seconds, a connection to Postgres and a
 * transaction take nearly twenty seconds.
 */
const START_TRY_MS = 25_000;
/** The settings of each process that serves until a signal. */
export interface ServiceSettings {
  readonly HTTP_PORT: number;
  readonly LIVENESS_HEARTBEAT: string | undefined;
  readonly SHUTDOWN_SECONDS: number;
}

/** A service, with the settings and tools of the process around it. */
export interface ServedService
  extends Omit<Service, 'stopWithinMs'>,
    Pick<Instruments, 'metrics' | 'logger'> {
  readonly settings: ServiceSettings;
}

/**
 * Runs a service as this process: until SIGTERM, SIGINT, the end of its terminal, or that of one of its
 * components.
 *
 * @returns the exit code
 */
export async function serve({ settings, metrics, logger, ...service }: ServedService): Promise<number> {
  logWarnings(logger);
  const stopWithinMs = settings.SHUTDOWN_SECONDS * 1_000;
  return runAsProcess({ ...service, stopWithinMs }, logger, (health) =>
    openHealth(settings, health, metrics, logger),
  );
}

/**
 * Runs a service of a person's terminal as this process. It has no health server: its own server answers
 * /readyz, and nobody reads its metrics. It ends with the terminal.
 *
 * @returns the exit code
 */
export function serveInTerminal(service: Service, logger: Logger): Promise<number> {
  return runAsProcess(service, logger, async () => ({ close: async () => undefined }));
}

async function runAsProcess(
  service: Service,
  logger: Logger,
  open: Surroundings['openHealth'],
): Promise<number> {
  const { code, isClean } = await runService(service, {
    clock: systemClock,
    logger,
    onSignal(listener) {
      for (const signal of ['SIGTERM', 'SIGINT'] as const) process.on(signal, () => listener(signal));
      // The shell of a lost terminal hangs up on its jobs, and then the kernel does. A second signal ends the
      // process at once, but the second hang-up is the same event as the first.
      let isHungUp = false;
      process.on('SIGHUP', () => {
        if (!isHungUp) listener('SIGHUP');
        isHungUp = true;
      });
    },
    exitNow: (code) => process.exit(code),
    openHealth: open,
  });
  // A hanging connection would keep the process alive. Nothing is lost: the next owner reads uncommitted
  // records again, and senders without an answer retry.
  if (!isClean) process.exit(code);
  return code;
}

/**
 * Serves health and metrics on HTTP_PORT, and keeps the file of LIVENESS_HEARTBEAT fresh if it is set.
 *
 * @throws Unable if the file cannot be created
 */
async function openHealth(
  { HTTP_PORT: port, LIVENESS_HEARTBEAT: file }: ServiceSettings,
  health: Health,
  metrics: Metrics,
  logger: Logger,
): Promise<{ close(): Promise<void> }> {
  const served = await serveHealth(port, health, metrics);
  logger.info({ port: served.port }, 'serving health and metrics');
  if (file === undefined) return served;
  const logLimited = limitLines(logger, systemClock);
  const report = (error: unknown) =>
    logLimited('heartbeat', { error: messageOf(error), file }, 'cannot write LIVENESS_HEARTBEAT', 'error');
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
      `LIVENESS_HEARTBEAT cannot be created: ${messageOf(error)}. Set it to a file in a directory that exists and that this process may write to`,
    );
  }
}

/**
 * Waits for Postgres.
 *
 * @param schema see `pendingMigrations`
 * @throws Unable if migrations are missing
 */
export async function needMigrations(
  start: Start,
  access: StoreAccess,
  schema?: Parameters<typeof pendingMigrations>[1],
): Promise<void> {
  const pending = await start('Postgres', () => pendingMigrations(access, schema));
  if (pending.length > 0) throw new Unable(lacksMigrations(pending));
}

/**
 * Waits for Postgres, and creates the tables of the coming months.
 *
 * @throws Unable if migrations are missing
 */
export async function needStore(start: Start, access: StoreAccess, store: Store): Promise<void> {
  await needMigrations(start, access);
  await start('Postgres', () => ensureMonths(store));
}

/**
 * Waits for Kafka, and creates those of the topics that are missing.
 *
 * @throws Unable if a topic is compacted: it would refuse messages without a key
 */
export async function needTopics(
  start: Start,
  kafka: KafkaSettings,
  topics: readonly (string | undefined)[],
  logger: Logger,
): Promise<void> {
  const compacted = await start('Kafka', () => ensureTopics(kafka, topics, logger));
  if (compacted.length > 0) throw new Unable(compacted.map(isCompacted).join('. '));
}

/** Makes one short attempt, which the caller retries. @returns the compacted topics */
async function ensureTopics(
  kafka: KafkaSettings,
  topics: readonly (string | undefined)[],
  logger: Logger,
): Promise<readonly string[]> {
  const access = { ...kafka, clientId: 'promo-intake', retries: 1 };
  const client = makeKafka(access, logger);
  const named = topics.filter((topic) => topic !== undefined);
  for (const topic of named)
    if ((await ensureTopic(client, topic)) === 'made') logger.info({ topic }, 'topic created');
  // Silent: the client would log a warning at each start if this user may not read topic settings.
  return (await lookAtTopics(makeKafka(access, makeLogger('silent')), named)).compacted;
}

export type Start = ReturnType<typeof makeStart>;

/**
 * Makes a function that retries a step of the start until the step succeeds: Postgres or Kafka may not be up
 * yet. The function throws at once if Kafka refuses for good, and otherwise at the deadline or on a stop
 * signal.
 */
export function makeStart(stop: AbortSignal, logger: Logger) {
  const deadline = systemClock.now() + START_WITHIN_MS;
  return async <T>(needed: string, step: () => Promise<T>): Promise<T> => {
    for (;;) {
      try {
        return await withinDeadline(step(), stop, START_TRY_MS);
      } catch (error) {
        if (error instanceof KafkaRefusal) throw error;
        const late = systemClock.now() + START_RETRY_MS > deadline;
        if (stop.aborted || late) throw new Error(`${needed}: ${messageOf(error)}`, { cause: error });
        logger.warn(
          { error: explainShortly(error), retryMs: START_RETRY_MS },
          `${needed} is not ready, retrying`,
        );
        await systemClock.sleep(START_RETRY_MS, stop);
      }
    }
  };
}

/** @throws if `work` throws, if it takes longer than `ms`, or on a stop signal */
async function withinDeadline<T>(work: Promise<T>, stop: AbortSignal, ms: number): Promise<T> {
  const over = new AbortController();
  const timeout = systemClock.sleep(ms, AbortSignal.any([stop, over.signal])).then((): never => {
    throw new Error(stop.aborted ? 'stop requested' : `no answer within ${ms} ms`);
  });
  try {
    return await Promise.race([work, timeout]);
  } finally {
    over.abort();
  }
}

/** Logs Node's warnings. */
function logWarnings(logger: Logger): void {
  process.removeAllListeners('warning');
  process.on('warning', ({ name, message }) => {
    logger.warn({ warning: name }, message);
  });
}

/** Measures the steps of each transaction, and traces them if tracing is on. */
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
