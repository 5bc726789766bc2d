/** How far completions are published, for `status`. */
import type { StoreAccess } from '../postgres/pool';
import { inStore, READ_TIMEOUT_MS } from './in-store';

export interface HeldBackOperator {
  readonly operatorId: string;
  /** Why its topic refused last; null where that is not known yet. */
  readonly reason: string | null;
  readonly seconds: number;
}

export interface CompletionState {
  /** How long the oldest entry has waited; 0 where all are published. */
  readonly lagSeconds: number;
  /** Whether a process publishes now. */
  readonly isRunning: boolean;
  readonly heldBack: readonly HeldBackOperator[];
}

const STATE = 'select lag_seconds::float8, is_running from promo.completion_publishing';
const HELD_BACK = `select operator_id, reason, extract(epoch from clock_timestamp() - since)::float8 from promo.held_back_completions order by 1`;

/** @returns null where completions were never published @throws StoreError */
export function readCompletionState(database: string | StoreAccess): Promise<CompletionState | null> {
  return inStore(database, { timeoutMs: READ_TIMEOUT_MS }, async (query) => {
    const [row] = await query(STATE);
    if (row === undefined) return null;
    const [lag, isRunning] = row;
    const heldBack = (await query(HELD_BACK)).map(([operator, reason, seconds]) => ({
      operatorId: String(operator),
      reason: typeof reason === 'string' ? reason : null,
      seconds: Number(seconds),
    }));
    return { lagSeconds: Number(lag ?? 0), isRunning: isRunning === true, heldBack };
  });
}
