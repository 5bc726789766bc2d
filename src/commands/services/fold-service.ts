/** The process around a fold, which rollups and pseudonyms share: component, lease and metrics. */
import { randomUUID } from 'node:crypto';
import { hostname } from 'node:os';
import type { Logger } from 'pino';
import { DONE, FAILED } from '../../cli/exit-codes';
import { packageVersion } from '../../cli/package-version';
import type { readConfig } from '../../config/config';
import type { Fold, Stepped } from '../../fold/fold';
import { runFold } from '../../fold/run';
import { systemClock } from '../../lib/clock';
import { makePool, type PostgresPool } from '../../postgres/pool';
import { makeLogger } from '../../telemetry/logger';
import { type Metrics, makeMetrics } from '../../telemetry/metrics';
import type { ROLLUPS_SETTINGS } from '../shared/settings';
import { BY_SIGNAL } from './lifecycle';
import { makeStart, needMigrations, serve } from './service';

/** Between two looks for new verdicts, unless a fold asks for another interval. */
const INTERVAL_MS = 500;
export const FOLDING = {
  /** After the crash of the process that folds, another one waits for this time. */
  leaseMs: 10_000,
  /** A slice locks rows of its results, which nobody else writes. It takes CPU from the intake. */
  slice: { rows: 200_000, ms: 500 },
  fill: { rows: 400_000, ms: 1_000 },
  now: systemClock.now,
};

/** The process that runs a fold. */
export interface FoldProcess {
  readonly pool: PostgresPool;
  readonly logger: Logger;
  readonly metrics: Metrics;
  /** Names this process in the lease. */
  readonly holder: string;
  /** Runs a step of the start again until Postgres answers. */
  readonly step: ReturnType<typeof makeStart>;
}

export interface FoldService {
  readonly name: 'rollups' | 'pseudonyms' | 'promotions';
  /** Connections to Postgres; absent: one. */
  readonly connections?: number;
  readonly intervalMs?: number;
  readonly config: ReturnType<typeof readConfig<(typeof ROLLUPS_SETTINGS)[number]>>;
  readonly makeFold: (host: FoldProcess) => Promise<Fold>;
}

/** Folds until a signal. @returns the exit code */
export async function serveFold({
  name,
  connections = 1,
  intervalMs = INTERVAL_MS,
  config,
  makeFold,
}: FoldService): Promise<number> {
  const metrics = makeMetrics(name);
  const logger = makeLogger(config.LOG_LEVEL, 'stdout', () => metrics.logLinesDropped.inc());
  metrics.buildInfo.set({ version: await packageVersion(), node: process.versions.node }, 1);
  const gauges = metrics[name];
  let caughtUpAt = systemClock.now();
  let triedAt = caughtUpAt;
  metrics.beforeScrape = () => gauges.lagSeconds.set((systemClock.now() - caughtUpAt) / 1_000);

  function observe(stepped?: Stepped): void {
    const now = systemClock.now();
    triedAt = now;
    if (stepped === undefined) gauges.failures.inc();
    else if (stepped.kind === 'standby') {
      gauges.folding.set(0);
      if (stepped.lagSeconds !== null) caughtUpAt = now - stepped.lagSeconds * 1_000;
    } else {
      gauges.folding.set(1);
      if (stepped.isCaughtUp) caughtUpAt = now;
      if (stepped.kind === 'slice') {
        gauges.verdicts.inc(stepped.rows);
        gauges.sliceSeconds.observe(stepped.ms / 1_000);
      }
    }
  }

  return serve({
    name,
    healthAt: { port: config.HTTP_PORT, file: config.LIVENESS_HEARTBEAT },
    metrics,
    logger,
    stopWithinMs: config.SHUTDOWN_SECONDS * 1_000,
    codeOf: (reason) => (reason === BY_SIGNAL ? DONE : FAILED),
    async start({ start, stop }) {
      const pool = await start({
        name: 'postgres',
        start: () =>
          makePool(
            { ...config.DATABASE, maxConnections: connections, applicationName: `promo-intake-${name}` },
            logger,
          ),
        stop: (pool) => pool.end(),
      });
      const step = makeStart(stop, logger);
      await needMigrations(step, config.DATABASE);
      const holder = `${hostname()} ${process.pid} ${randomUUID().slice(0, 8)}`;
      const fold = await makeFold({ pool, logger, metrics, holder, step });
      await start({
        name: 'fold',
        start() {
          const end = new AbortController();
          const running = runFold({ fold, clock: systemClock, logger, intervalMs, observe }, end.signal);
          return { end, running };
        },
        async stop({ end, running }) {
          end.abort();
          await running;
          await fold.release();
        },
        isLive: () => systemClock.now() - triedAt < config.LIVENESS_SECONDS * 1_000,
        ended: ({ running }) => running.then(() => BY_SIGNAL),
      });
    },
  });
}
