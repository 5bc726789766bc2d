/** How far the results of each fold are, for `status`. Null where the fold never ran. */
import type { StoreAccess } from '../postgres/pool';
import { inStore } from './operations';

const READ_TIMEOUT_MS = 10_000;

interface FoldCoverage {
  readonly lagSeconds: number;
  /** Whether a process works now, or a transaction holds the results. */
  readonly isRunning: boolean;
  /** The process of Postgres whose open transaction holds the results without a lease. */
  readonly heldByPid: number | null;
}

export interface RollupCoverage extends FoldCoverage {
  readonly isRebuilt: boolean;
}

export interface PromotionCoverage extends FoldCoverage {
  /** Whether they are being counted again. */
  readonly isRebuilt: boolean;
}

export interface PseudonymCoverage extends FoldCoverage {
  /** Whether the pseudonyms of a new key are being computed. */
  readonly isRotated: boolean;
}

const columns = (filling: string) =>
  `select lag_seconds::float8, coalesce(is_running, false), ${filling} is not null, held_by_pid`;

const ROLLUPS = `${columns('rebuilt_because')} from promo.rollup_coverage`;
const PROMOTIONS = `${columns('rebuilt_because')} from promo.promotion_coverage`;
const PSEUDONYMS = `${columns('next_key_id')} from promo.pseudonym_coverage`;

/** @throws StoreError */
export async function readRollupCoverage(database: string | StoreAccess): Promise<RollupCoverage | null> {
  const found = await read(database, ROLLUPS);
  return found && { ...found.state, isRebuilt: found.isFilling };
}

/** @throws StoreError */
export async function readPromotionCoverage(
  database: string | StoreAccess,
): Promise<PromotionCoverage | null> {
  const found = await read(database, PROMOTIONS);
  return found && { ...found.state, isRebuilt: found.isFilling };
}

/** @throws StoreError */
export async function readPseudonymCoverage(
  database: string | StoreAccess,
): Promise<PseudonymCoverage | null> {
  const found = await read(database, PSEUDONYMS);
  return found && { ...found.state, isRotated: found.isFilling };
}

function read(database: string | StoreAccess, text: string) {
  return inStore(database, { timeoutMs: READ_TIMEOUT_MS }, async (query) => {
    const [row] = await query(text);
    if (row === undefined) return null;
    const [lag, isRunning, isFilling, pid] = row;
    const heldByPid = typeof pid === 'number' ? pid : null;
    return {
      state: { lagSeconds: Number(lag ?? 0), isRunning: isRunning === true, heldByPid },
      isFilling: isFilling === true,
    };
  });
}
