/** The daily sums of players, as far as retention deletes them. */
import type { StoreAccess } from '../postgres/pool';
import { untilNone } from './retention';

const DELETE_TIMEOUT_MS = 10 * 60_000;
/** Rows of one transaction. */
const FORGET_SUMS = 20_000;

/**
 * Deletes the daily sums of players of dropped months. Counts of players stay.
 *
 * @returns their number
 * @throws StoreError
 */
export function forgetDroppedPlayerSums(database: string | StoreAccess): Promise<number> {
  const text = 'select promo.forget_dropped_player_sums($1)::text';
  return untilNone(database, DELETE_TIMEOUT_MS, text, [FORGET_SUMS]);
}
