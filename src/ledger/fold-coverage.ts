/** How far the results of each fold are, for `status`. */
import type { StoreAccess } from '../postgres/pool';
import { inStore, READ_TIMEOUT_MS } from './in-store';

export const FOLDS = ['rollups', 'pseudonyms', 'promotions'] as const;
export type FoldName = (typeof FOLDS)[number];

export interface FoldCoverage {
  readonly lagSeconds: number;
  /** Whether a process works now, or a transaction holds the results. */
  readonly isRunning: boolean;
  /** The process of Postgres whose open transaction holds the results without a lease. */
  readonly heldByPid: number | null;
  /** Whether a new set of results is being filled: in a rebuild, or for a new key of pseudonyms. */
  readonly isFilling: boolean;
}

/** The view of each fold, and its column that is null unless a new set is being filled. */
const VIEWS: Readonly<Record<FoldName, readonly [view: string, filling: string]>> = {
  rollups: ['rollup_coverage', 'rebuilt_because'],
  pseudonyms: ['pseudonym_coverage', 'next_key_id'],
  promotions: ['promotion_coverage', 'rebuilt_because'],
};

/** @returns null where the fold never ran. @throws StoreError */
export function readFoldCoverage(
  database: string | StoreAccess,
  fold: FoldName,
): Promise<FoldCoverage | null> {
  const [view, filling] = VIEWS[fold];
  return inStore(database, { timeoutMs: READ_TIMEOUT_MS }, async (query) => {
    const [row] = await query(
      `select lag_seconds::float8, coalesce(is_running, false), held_by_pid, ${filling} is not null from promo.${view}`,
    );
    if (row === undefined) return null;
    const [lag, isRunning, pid, isFilling] = row;
    return {
      lagSeconds: Number(lag ?? 0),
      isRunning: isRunning === true,
      heldByPid: typeof pid === 'number' ? pid : null,
      isFilling: isFilling === true,
    };
  });
}
