/** How far promotions are counted, for `status`. */
import type { StoreAccess } from '../postgres/pool';
import { inStore } from './operations';

const READ_TIMEOUT_MS = 10_000;

export interface PromotionCoverage {
  readonly lagSeconds: number;
  /** Whether a process counts them now. */
  readonly isRunning: boolean;
  /** Whether they are being counted again. */
  readonly isRebuilt: boolean;
}

const COVERAGE = `select lag_seconds::float8, coalesce(is_running, false), rebuilt_because is not null from promo.promotion_coverage`;

/** @returns null where promotions were never counted @throws StoreError */
export function readPromotionCoverage(database: string | StoreAccess): Promise<PromotionCoverage | null> {
  return inStore(database, { timeoutMs: READ_TIMEOUT_MS }, async (query) => {
    const [row] = await query(COVERAGE);
    if (row === undefined) return null;
    const [lag, isRunning, isRebuilt] = row;
    return { lagSeconds: Number(lag ?? 0), isRunning: isRunning === true, isRebuilt: isRebuilt === true };
  });
}
