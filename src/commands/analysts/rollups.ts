/** `promo-intake rollups`: keeps the rollups up to date, until a signal stops it. */
import type { Options } from '../../cli/option-values';
import { readConfig } from '../../config/config';
import { makeFold } from '../../fold/fold';
import { makeRollups } from '../../rollups/rollups';
import { FOLDING, serveFold } from '../services/fold-service';
import { FOLD_SETTINGS } from '../shared/settings';

/**
 * Of a day that ends in a slice, players are looked up in the next one: larger slices look up fewer. An
 * erasure waits for the end of a slice, for 5 s at most.
 */
const SLICE = { rows: 400_000, ms: 2_000 };

/** Larger slices cost less CPU for each verdict (docs/tuning.md), and rollups may be 2 s behind a commit. */
const INTERVAL_MS = 800;

/** @returns the exit code */
export function rollups(options: Options): Promise<number> {
  return serveFold({
    name: 'rollups',
    // Slices that are behind take both.
    connections: 2,
    intervalMs: INTERVAL_MS,
    config: readConfig(process.env, FOLD_SETTINGS),
    rebuildReason: options.get('rebuild'),
    makeFold: async ({ pool, holder }) =>
      makeFold(pool, makeRollups(pool), { ...FOLDING, slice: SLICE, fill: SLICE, holder }),
  });
}
