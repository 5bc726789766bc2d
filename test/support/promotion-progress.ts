/** The progress of promotions in a store, as the process of promotions keeps it. */
import { makeFold } from '../../src/fold/fold';
import type { PostgresPool } from '../../src/postgres/pool';
import { makePromotionResults } from '../../src/promotion-store/results';
import { asRole } from './as-role';
import { foldAll } from './folds';

const SLICE = { rows: 20_000, ms: 500 };

/** Folds until nothing is left. */
export async function foldPromotions(pool: PostgresPool): Promise<void> {
  const asPromotions = asRole(pool, 'promotions');
  const fold = makeFold(asPromotions, makePromotionResults(asPromotions), {
    ...{ holder: 'test', leaseMs: 10_000, now: () => performance.now(), slice: SLICE, fill: SLICE },
  });
  await foldAll(fold);
}
