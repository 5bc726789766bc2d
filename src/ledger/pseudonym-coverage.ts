/** How far the pseudonyms are, for `status`. */
import type { StoreAccess } from '../postgres/pool';
import { inStore } from './operations';

const READ_TIMEOUT_MS = 10_000;

export interface PseudonymCoverage {
  readonly lagSeconds: number;
  /** Whether a process computes them now. */
  readonly isRunning: boolean;
  /** Whether the pseudonyms of a new key are being computed. */
  readonly isRotated: boolean;
}

const COVERAGE = `select lag_seconds::float8, coalesce(is_running, false), next_key_id is not null from promo.pseudonym_coverage`;

/** @returns null where pseudonyms were never computed @throws StoreError */
export function readPseudonymCoverage(database: string | StoreAccess): Promise<PseudonymCoverage | null> {
  return inStore(database, { timeoutMs: READ_TIMEOUT_MS }, async (query) => {
    const [row] = await query(COVERAGE);
    if (row === undefined) return null;
    const [lag, isRunning, isRotated] = row;
    return { lagSeconds: Number(lag ?? 0), isRunning: isRunning === true, isRotated: isRotated === true };
  });
}
