/** The process around a fold: component, lease, rebuild and metrics. */
import type { Logger } from 'pino';
import type { readConfig } from '../../config/config';
import type { Fold, Stepped } from '../../fold/fold';
import { runFold } from '../../fold/run';
import type { FoldName } from '../../ledger/fold-coverage';
import { systemClock } from '../../lib/clock';
import type { PostgresPool } from '../../postgres/pool';
import type { Metrics } from '../../telemetry/metrics';
import type { FOLD_SETTINGS } from '../shared/settings';
import { loopComponent, postgresComponent } from './components';
import { leaseHolder, makeInstruments } from './instruments';
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
  readonly name: FoldName;
  /** Connections to Postgres; absent: one. */
  readonly connections?: number;
  readonly intervalMs?: number;
  /** Why all results are computed again; absent: they are not. */
  readonly rebuildReason?: string | undefined;
  readonly config: ReturnType<typeof readConfig<(typeof FOLD_SETTINGS)[number]>>;
  readonly makeFold: (host: FoldProcess) => Promise<Fold>;
}

/** Folds until a signal. @returns the exit code */
export async function serveFold({
  name,
  connections = 1,
  intervalMs = INTERVAL_MS,
  rebuildReason,
  config,
  makeFold,
}: FoldService): Promise<number> {
  const { metrics, logger } = await makeInstruments(name, config.LOG_LEVEL);
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
    settings: config,
    metrics,
    logger,
    async start({ start, stop }) {
      const applicationName = `promo-intake-${name}`;
      const access = { ...config.DATABASE, maxConnections: connections, applicationName };
      const pool = await start(postgresComponent(access, logger));
      const step = makeStart(stop, logger);
      await needMigrations(step, config.DATABASE);
      const fold = await makeFold({ pool, logger, metrics, holder: leaseHolder(), step });
      if (rebuildReason !== undefined && !(await step('Postgres', () => fold.rebuild(rebuildReason))))
        logger.warn('no rebuild began: one is running, or nothing was counted yet');
      await start(
        loopComponent({
          name: 'fold',
          run: (stop) => runFold({ fold, clock: systemClock, logger, intervalMs, observe }, stop),
          release: () => fold.release(),
          isLive: () => systemClock.now() - triedAt < config.LIVENESS_SECONDS * 1_000,
        }),
      );
    },
  });
}
