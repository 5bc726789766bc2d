/** `promo-intake rollups`: keeps the rollups up to date, until a signal stops it. */
import { randomUUID } from 'node:crypto';
import { hostname } from 'node:os';
import { DONE, FAILED } from '../cli/exit-codes';
import type { Options } from '../cli/option-values';
import { packageVersion } from '../cli/package-version';
import { readConfig } from '../config/config';
import { makeFold } from '../fold/fold';
import { runFold } from '../fold/run';
import { systemClock } from '../lib/clock';
import { makePool } from '../postgres/pool';
import { ROLLUP_RESULTS } from '../rollups/rollups';
import { makeLogger } from '../telemetry/logger';
import { makeMetrics } from '../telemetry/metrics';
import { BY_SIGNAL } from './lifecycle';
import { makeStart, needMigrations, serve } from './service';
import { ROLLUPS_SETTINGS } from './settings';

/** Between two looks for new verdicts. A verdict is in the rollups a moment after this time. */
const INTERVAL_MS = 500;
/** After the crash of the process that folds, another one waits for this time. */
const LEASE_MS = 10_000;
/** A slice locks the rows of its hours and days, which nobody else writes. It takes CPU from the intake. */
const SLICE = { rows: 200_000, ms: 500 };
const FILL = { rows: 400_000, ms: 1_000 };

/** @returns the exit code */
export async function rollups(options: Options): Promise<number> {
  const config = readConfig(process.env, ROLLUPS_SETTINGS);
  const metrics = makeMetrics('rollups');
  const logger = makeLogger(config.LOG_LEVEL, 'stdout', () => metrics.logLinesDropped.inc());
  metrics.buildInfo.set({ version: await packageVersion(), node: process.versions.node }, 1);
  let caughtUpAt = systemClock.now();
  let triedAt = caughtUpAt;
  metrics.beforeScrape = () => metrics.rollupsLagSeconds.set((systemClock.now() - caughtUpAt) / 1_000);

  return serve({
    name: 'rollups',
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
            { ...config.DATABASE, maxConnections: 1, applicationName: 'promo-intake-rollups' },
            logger,
          ),
        stop: (pool) => pool.end(),
      });
      const step = makeStart(stop, logger);
      await needMigrations(step, config.DATABASE);
      const fold = makeFold(pool, ROLLUP_RESULTS, {
        holder: `${hostname()} ${process.pid} ${randomUUID().slice(0, 8)}`,
        leaseMs: LEASE_MS,
        slice: SLICE,
        fill: FILL,
        now: systemClock.now,
      });
      const reason = options.get('rebuild');
      if (reason !== undefined && !(await step('Postgres', () => fold.rebuild(reason))))
        logger.warn('no rebuild began: one is running, or there are no rollups yet');
      await start({
        name: 'fold',
        start() {
          const end = new AbortController();
          const running = runFold(
            {
              fold,
              clock: systemClock,
              logger,
              intervalMs: INTERVAL_MS,
              observe(stepped) {
                const now = systemClock.now();
                triedAt = now;
                if (stepped === undefined) metrics.rollupsFailures.inc();
                else if (stepped.kind === 'standby') {
                  metrics.rollupsFolding.set(0);
                  if (stepped.lagSeconds !== null) caughtUpAt = now - stepped.lagSeconds * 1_000;
                } else {
                  metrics.rollupsFolding.set(1);
                  if (stepped.isCaughtUp) caughtUpAt = now;
                  if (stepped.kind === 'slice') {
                    metrics.rollupsVerdicts.inc(stepped.rows);
                    metrics.rollupsSliceSeconds.observe(stepped.ms / 1_000);
                  }
                }
              },
            },
            end.signal,
          );
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
