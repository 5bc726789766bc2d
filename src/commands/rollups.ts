/** `promo-intake rollups`: keeps the rollups up to date, until a signal stops it. */
import type { Options } from '../cli/option-values';
import { readConfig } from '../config/config';
import { makeFold } from '../fold/fold';
import { ROLLUP_RESULTS } from '../rollups/rollups';
import { FOLDING, serveFold } from './fold-service';
import { ROLLUPS_SETTINGS } from './settings';

/** @returns the exit code */
export function rollups(options: Options): Promise<number> {
  return serveFold({
    name: 'rollups',
    config: readConfig(process.env, ROLLUPS_SETTINGS),
    async makeFold({ pool, logger, holder, step }) {
      const fold = makeFold(pool, ROLLUP_RESULTS, { ...FOLDING, holder });
      const reason = options.get('rebuild');
      if (reason !== undefined && !(await step('Postgres', () => fold.rebuild(reason))))
        logger.warn('no rebuild began: one is running, or there are no rollups yet');
      return fold;
    },
  });
}
