/** Folds of a store, as their processes run them. */
import { type Fold, type FoldOptions, makeFold } from '../../src/fold/fold';
import type { Store } from '../../src/postgres/transaction';
import { makePromotionResults } from '../../src/promotion-store/results';
import { makeRollups } from '../../src/rollups/rollups';
import { asRole } from './as-role';

const SLICE = { rows: 200_000, ms: 500 };

/**
 * The fold of the rollups, with the rights of its role.
 *
 * @param beside where the second connections of slices lead to: by default to the store
 */
export function aRollupFold(
  store: Store,
  {
    holder = 'test',
    leaseMs = 10_000,
    slice = SLICE,
    fill = slice,
    now = () => performance.now(),
  }: Partial<FoldOptions> = {},
  beside: Store = store,
): Fold {
  const options = { holder, leaseMs, slice, fill, now };
  const asRollups = asRole(store, 'rollups');
  return makeFold(asRollups, makeRollups(asRole(beside, 'rollups')), options);
}

/** An address that leads to another store for its next connection, as during a failover. */
export function leadingFirstTo(
  other: Store,
  store: Store,
): { readonly address: Store; readonly released: boolean[] } {
  const stores = [other];
  const released: boolean[] = [];
  const address: Store = {
    async acquire() {
      const connection = await (stores.pop() ?? store).acquire();
      return {
        query: (statement, values) => connection.query(statement, values),
        write: (writes) => connection.write(writes),
        begin: () => connection.begin(),
        release(isClean) {
          released.push(isClean);
          connection.release(isClean);
        },
      };
    },
  };
  return { address, released };
}

let holders = 0;
/**
 * The fold of promotions, with the rights of its role.
 *
 * @param now by default a clock that runs ahead: an idle fold looks for new versions every few seconds
 * @param beside where the second connections of slices lead to: by default to the store
 */
export function aPromotionFold(store: Store, rows = 20_000, now = clockAhead(), beside: Store = store): Fold {
  const slice = { rows, ms: 500 };
  // Small slices have several parts, players with several pages, and large rounds.
  const limits = {
    pageRows: Math.ceil(rows / 5),
    stepRows: Math.ceil(rows / 3),
    largeRound: Math.floor(rows / 10),
  };
  const results = makePromotionResults(asRole(beside, 'promotions'), limits);
  return makeFold(asRole(store, 'promotions'), results, {
    holder: `test ${holders++}`,
    leaseMs: 10_000,
    slice,
    fill: slice,
    now,
  });
}

function clockAhead(): () => number {
  let time = 0;
  return () => (time += 20_000);
}

/** Folds until this many steps found nothing to fold. @throws where another process folds */
export async function foldAll(fold: Fold, idleSteps = 1): Promise<void> {
  for (let idle = 0; idle < idleSteps; ) {
    const { kind } = await fold.step();
    if (kind === 'idle') idle++;
    if (kind === 'standby') throw new Error('another process folds');
  }
}
