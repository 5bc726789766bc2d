/** The components that several services have: their pool, tables of the coming months, traces and loops. */
import type { Logger } from 'pino';
import type { Traces } from '../../config/traces';
import type { Tracing, TracingOptions } from '../../intake/tracing';
import { ensureMonths } from '../../ledger/partition-state';
import { inTime, LATE, systemClock } from '../../lib/clock';
import { messageOf } from '../../lib/errors';
import { makePool, type PostgresPool, type StoreOptions } from '../../postgres/pool';
import type { Store } from '../../postgres/transaction';
import { BY_SIGNAL, type Component } from './lifecycle';

/** How often the tables of the coming months are checked and created. */
const MONTHS_EVERY_MS = 3_600_000;
/** The longest time to send the last traces. Half of the time of their component limits them too. */
const LAST_TRACES_WITHIN_MS = 2_000;

/** @param of the work that these connections are kept for, where others serve the service itself */
export function postgresComponent(
  options: StoreOptions,
  logger: Logger,
  of?: string,
): Component<PostgresPool> {
  return {
    name: of === undefined ? 'postgres' : `postgres of ${of}`,
    start: () => makePool(options, logger),
    stop: (pool) => pool.end(),
  };
}

/** The component that creates the tables of the coming months regularly. */
export function monthsComponent(store: Store, logger: Logger): Component<NodeJS.Timeout> {
  const ensure = () => {
    ensureMonths(store).catch((error: unknown) =>
      logger.error({ error: messageOf(error) }, 'cannot create the tables of the next months'),
    );
  };
  return {
    name: 'months',
    start: () => setInterval(ensure, MONTHS_EVERY_MS),
    stop: async (timer) => clearInterval(timer),
  };
}

/** The component of the traces; its value is null if they are off. Late traces never change the exit code. */
export function tracingComponent(
  traces: Traces | null,
  options: Omit<TracingOptions, 'headers'>,
  logger: Logger,
): Component<Tracing | null> {
  return {
    name: 'traces',
    start: () => loadTracing(traces, options, logger),
    async stop(tracing, withinMs) {
      if (tracing === null) return;
      const mostMs = Math.min(LAST_TRACES_WITHIN_MS, withinMs / 2);
      if ((await inTime(systemClock, tracing.close(), mostMs)) === LATE)
        logger.warn('last traces not sent in time');
    },
  };
}

/**
 * Loads tracing only if it is configured: the OpenTelemetry SDK costs a tenth of a second of CPU and some
 * MiB.
 */
async function loadTracing(
  traces: Traces | null,
  options: Omit<TracingOptions, 'headers'>,
  logger: Logger,
): Promise<Tracing | null> {
  if (traces === null) return null;
  const { makeTracing } = await import('../../intake/tracing.js');
  return makeTracing({ ...options, headers: traces.headers }, logger);
}

/** A loop that works until its signal, as a component. A loop that fails ends the service. */
export function loopComponent({
  name,
  run,
  release,
  isLive = () => true,
}: {
  readonly name: string;
  readonly run: (stop: AbortSignal) => Promise<void>;
  /** Called once the loop has ended. */
  readonly release?: () => Promise<unknown>;
  /** False if only a restart helps. */
  readonly isLive?: () => boolean;
}): Component<RunningLoop> {
  return {
    name,
    start() {
      const end = new AbortController();
      const ended = run(end.signal);
      // Where it fails before the service serves, `ended` reports it once the service does.
      ended.catch(() => undefined);
      return { end, ended };
    },
    async stop({ end, ended }) {
      end.abort();
      await ended;
      await release?.();
    },
    isLive,
    ended: ({ ended }) => ended.then(() => BY_SIGNAL),
  };
}

interface RunningLoop {
  readonly end: AbortController;
  readonly ended: Promise<void>;
}
