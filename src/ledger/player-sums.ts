/** The daily sums of players, as far as retention deletes them. */
import type { StoreAccess } from '../postgres/pool';
import { inStore } from './operations';

const DELETE_TIMEOUT_MS = 10 * 60_000;
/** Rows of one transaction. */
const FORGET_SUMS = 20_000;

/**
 * Deletes the daily sums of players of dropped months. Counts of players stay.
 *
 * @returns their number
 * @throws StoreError
 */
export async function forgetDroppedPlayerSums(database: string | StoreAccess): Promise<number> {
  for (let sum = 0; ; ) {
    const [[forgotten] = []] = await inStore(database, { timeoutMs: DELETE_TIMEOUT_MS }, (query) =>
      query('select promo.forget_dropped_player_sums($1)::text', [FORGET_SUMS]),
    );
    if (Number(forgotten) === 0) return sum;
    sum += Number(forgotten);
  }
}
