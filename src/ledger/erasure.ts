/** Erases a player from the store. */
import type { StoreAccess } from '../postgres/pool';
import { inStore, type Requester } from './in-store';

const ERASE_TIMEOUT_MS = 60_000;

export interface Erased {
  /** The number of the erasure, which replaces the player. */
  readonly erasure: number;
  readonly verdicts: number;
  readonly rounds: number;
  readonly payloads: number;
  /** Open wallet calls that were stopped, and are unresolved. Absent where there are none. */
  readonly walletCalls?: number;
}

/**
 * Replaces a player everywhere, in transactions of `batch` verdicts each. After an interruption, run it again
 * with the same arguments: finished transactions remain.
 *
 * @param progress receives the totals so far
 * @throws StoreError
 */
export async function erasePlayer(
  database: string | StoreAccess,
  { requestedBy }: Requester,
  { operator, player, batch }: { operator: string; player: string; batch: number },
  progress: (erased: Erased) => void,
): Promise<Erased> {
  let sum: Erased = { erasure: 0, verdicts: 0, rounds: 0, payloads: 0 };
  for (;;) {
    const erasureNo = sum.erasure === 0 ? null : sum.erasure;
    const { erased, isDone } = await eraseSome(database, requestedBy, [operator, player, batch, erasureNo]);
    sum = {
      erasure: erased.erasure,
      verdicts: sum.verdicts + erased.verdicts,
      rounds: sum.rounds + erased.rounds,
      payloads: sum.payloads + erased.payloads,
      ...(erased.walletCalls !== undefined && { walletCalls: erased.walletCalls }),
    };
    progress(sum);
    if (isDone) return sum;
  }
}

const ERASE = `select erasure_no::text, verdicts::text, rounds::text, payloads::text, is_done
from promo.erase_player($1, $2, $3, $4)`;
/** All calls of the erasure so far. */
const ERASED_CALLS = `select outcome ->> 'wallet_calls' from promo.operations where operation_no = $1`;

async function eraseSome(
  database: string | StoreAccess,
  requestedBy: string,
  values: readonly unknown[],
): Promise<{ erased: Erased; isDone: boolean }> {
  return inStore(database, { timeoutMs: ERASE_TIMEOUT_MS, requestedBy }, async (query) => {
    const [row = []] = await query(ERASE, values);
    const [[calls = null] = []] = await query(ERASED_CALLS, [row[0]]);
    const [erasure = 0, verdicts = 0, rounds = 0, payloads = 0] = row.slice(0, 4).map(Number);
    const walletCalls = calls === null ? {} : { walletCalls: Number(calls) };
    return { erased: { erasure, verdicts, rounds, payloads, ...walletCalls }, isDone: row[4] === true };
  });
}
