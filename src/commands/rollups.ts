/** `promo-intake rollups`: keeps the rollups up to date, until a signal stops it. */
import type { Options } from '../cli/option-values';
import { makeFold } from '../fold/fold';
import { systemClock } from '../lib/clock';
import { ROLLUP_RESULTS } from '../rollups/rollups';
import { FILL, LEASE_MS, SLICE, serveFold } from './fold-service';

/** @returns the exit code */
export function rollups(options: Options): Promise<number> {
  return serveFold({
    name: 'rollups',
    metricsOf: (metrics) => ({
      lagSeconds: metrics.rollupsLagSeconds,
      folding: metrics.rollupsFolding,
      verdicts: metrics.rollupsVerdicts,
      sliceSeconds: metrics.rollupsSliceSeconds,
      failures: metrics.rollupsFailures,
    }),
    async makeFold({ pool, logger, holder, step }) {
      const fold = makeFold(pool, ROLLUP_RESULTS, {
        ...{ holder, leaseMs: LEASE_MS, slice: SLICE, fill: FILL, now: systemClock.now },
      });
      const reason = options.get('rebuild');
      if (reason !== undefined && !(await step('Postgres', () => fold.rebuild(reason))))
        logger.warn('no rebuild began: one is running, or there are no rollups yet');
      return fold;
    },
  });
}
