/** How far the rollups are, for `status`. */
import type { StoreAccess } from '../postgres/pool';
import { inStore } from './operations';

const READ_TIMEOUT_MS = 10_000;

export interface RollupCoverage {
  readonly lagSeconds: number;
  /** Whether a process keeps them now. */
  readonly isRunning: boolean;
  readonly isRebuilt: boolean;
}

const COVERAGE = `select lag_seconds::float8, coalesce(is_running, false), rebuilt_because is not null from promo.rollup_coverage`;

/** @returns null where the rollups never ran @throws StoreError */
export function readRollupCoverage(database: string | StoreAccess): Promise<RollupCoverage | null> {
  return inStore(database, { timeoutMs: READ_TIMEOUT_MS }, async (query) => {
    const [row] = await query(COVERAGE);
    if (row === undefined) return null;
    const [lag, isRunning, isRebuilt] = row;
    return { lagSeconds: Number(lag ?? 0), isRunning: isRunning === true, isRebuilt: isRebuilt === true };
  });
}
