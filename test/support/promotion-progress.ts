/** Promotions of a store: how they are applied, and their progress, as the process of promotions keeps it. */
import { makeFold } from '../../src/fold/fold';
import type { PostgresPool } from '../../src/postgres/pool';
import type { Store } from '../../src/postgres/transaction';
import { applyPromotions, type PromotionPlan } from '../../src/promotion-store/documents';
import { makePromotionResults } from '../../src/promotion-store/results';
import type { PromotionDefinition } from '../../src/promotions/definition';
import type { Takeover } from '../../src/promotions/timeline';
import { asRole } from './as-role';
import { foldAll } from './folds';

/** Applies definitions as the only ones of the store. */
export function applyDefinitions(
  store: Store,
  promotions: readonly PromotionDefinition[],
  takeover: Takeover = 'next_window',
): Promise<PromotionPlan> {
  return applyPromotions(store, { promotions }, { by: 'anna', reason: null, takeover }, () => true);
}

const SLICE = { rows: 20_000, ms: 500 };

/** Folds until nothing is left. */
export async function foldPromotions(pool: PostgresPool): Promise<void> {
  const asPromotions = asRole(pool, 'promotions');
  const fold = makeFold(asPromotions, makePromotionResults(asPromotions), {
    holder: 'test',
    leaseMs: 10_000,
    now: () => performance.now(),
    slice: SLICE,
    fill: SLICE,
  });
  await foldAll(fold);
}
