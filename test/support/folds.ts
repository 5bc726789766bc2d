/** Folds of a store, as their processes run them. */
import { type Fold, type FoldOptions, makeFold } from '../../src/fold/fold';
import type { Store } from '../../src/postgres/transaction';
import { makeRollups } from '../../src/rollups/rollups';
import { asRole } from './as-role';

const SLICE = { rows: 200_000, ms: 500 };

/** The fold of the rollups, with the rights of its role. */
export function aRollupFold(
  store: Store,
  { holder = 'test', leaseMs = 10_000, slice = SLICE, fill = slice }: Partial<FoldOptions> = {},
): Fold {
  const options = { holder, leaseMs, slice, fill, now: () => performance.now() };
  const asRollups = asRole(store, 'rollups');
  return makeFold(asRollups, makeRollups(asRollups), options);
}

/** Folds until nothing is left. @throws where another process folds */
export async function foldAll(fold: Fold): Promise<void> {
  for (;;) {
    const { kind } = await fold.step();
    if (kind === 'idle') return;
    if (kind === 'standby') throw new Error('another process folds');
  }
}
