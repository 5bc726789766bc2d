/** `promo-intake promotions`: keeps the progress of players up to date, until a signal stops it. */
import type { Options } from '../../cli/option-values';
import { readConfig } from '../../config/config';
import { makeFold } from '../../fold/fold';
import { makePromotionResults } from '../../promotion-store/results';
import { FOLDING, serveFold } from '../services/fold-service';
import { FOLD_SETTINGS } from '../shared/settings';

/**
 * A long slice writes the progress of a player once for several events, so a process that is behind catches
 * up faster. An erasure waits for the end of a slice, for 5 s at most.
 */
const SLICE = { rows: 200_000, ms: 2_000 };
const FILL = { rows: 1_000_000, ms: 3_000 };
/** A shorter interval costs more CPU for each verdict, and a longer one delays progress (docs/tuning.md). */
const INTERVAL_MS = 300;

/** @returns the exit code */
export function promotions(options: Options): Promise<number> {
  return serveFold({
    name: 'promotions',
    // Slices that are behind take both.
    connections: 2,
    intervalMs: INTERVAL_MS,
    config: readConfig(process.env, FOLD_SETTINGS),
    rebuildReason: options.get('rebuild'),
    makeFold: async ({ pool, holder }) =>
      makeFold(pool, makePromotionResults(pool), { ...FOLDING, slice: SLICE, fill: FILL, holder }),
  });
}
