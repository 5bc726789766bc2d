/** `promo-intake retention apply`: drops expired months, and records it in the log of operations. */
import { DONE } from '../../cli/exit-codes';
import { Unable } from '../../cli/explain-error';
import { integerOf, type Options, requestedBy } from '../../cli/option-values';
import { readConfig } from '../../config/config';
import { LIMITS } from '../../contract/limits';
import {
  dropMonthsBefore,
  forgetDroppedAttributions,
  forgetDroppedPlayerSums,
  forgetDroppedPlayers,
  forgetDroppedPseudonyms,
  forgetWalletCalls,
  planRetention,
} from '../../ledger/retention';
import { counted } from '../../lib/printable';
import { readStoredPromotions } from '../../promotion-store/documents';
import { timelinesOf } from '../../promotion-store/versions';
import { promotionStateOf } from '../../promotions/state';
import { withPromotions } from '../promotions/apply';

/** Drops months that are over. @returns the exit code */
export async function applyRetention(options: Options): Promise<number> {
  const keepMonths = integerOf(options, 'keep-months', 1) ?? 0;
  const { DATABASE } = readConfig(process.env, ['DATABASE']);
  const { storeMs, firstKept, tables, rebuilds } = await planRetention(DATABASE, keepMonths);
  refuseWrongClock(storeMs);
  console.log(`kept: ${firstKept} and later; of all earlier months, ids, rounds and counters stay`);
  for (const { name, rowEstimate, bytes } of tables)
    console.log(`${name}: about ${counted(rowEstimate, 'row')}, ${(bytes / 1e6).toFixed(1)} MB`);
  if (tables.length === 0) console.log('there is nothing to drop');
  else for (const line of await promotionsBefore(firstKept)) console.log(line);
  const restarts = options.has('restart-rebuilds');
  if (tables.length > 0 && !restarts)
    for (const { fold, reason } of rebuilds)
      console.log(`a rebuild of the ${fold} is in the way: ${reason}; nothing is dropped until it is shown`);
  if (options.has('dry-run')) {
    console.log('dry run: nothing was dropped');
    return DONE;
  }
  if (tables.length > 0) {
    const requester = { requestedBy: requestedBy(options) };
    const { dropped, restarted } = await dropMonthsBefore(DATABASE, requester, firstKept, restarts);
    console.log(`tables dropped: ${dropped.length}`);
    for (const { fold, reason } of restarted) console.log(`rebuild of the ${fold} begins again: ${reason}`);
  }
  const { events, rounds } = await forgetDroppedPlayers(DATABASE);
  if (events + rounds > 0)
    console.log(
      `player hashes of dropped months deleted: ${counted(events, 'event')}, ${counted(rounds, 'round')}`,
    );
  const storedAnswerMonths = LIMITS.wallet_stored_answer.value;
  for (const [rows, forget] of [
    ['attributions of dropped months', () => forgetDroppedAttributions(DATABASE)],
    ['daily sums of players of dropped months', () => forgetDroppedPlayerSums(DATABASE)],
    ['pseudonyms of players without a kept event', () => forgetDroppedPseudonyms(DATABASE)],
    ['wallet calls', () => forgetWalletCalls(DATABASE, firstKept, storedAnswerMonths)],
  ] as const) {
    const deleted = await forget();
    if (deleted > 0) console.log(`${rows} deleted: ${deleted}`);
  }
  return DONE;
}

/** Two clocks that are right differ by less. */
const MOST_APART_MS = 3_600_000;

/**
 * A clock of Postgres that is months ahead would drop months that are to be kept.
 * @throws Unable where it differs from the clock of this machine
 */
function refuseWrongClock(storeMs: number): void {
  const ownMs = Date.now();
  if (Math.abs(storeMs - ownMs) <= MOST_APART_MS) return;
  const [store, own] = [storeMs, ownMs].map((ms) => new Date(ms).toISOString());
  throw new Unable(
    `The clock of Postgres shows ${store}, and the clock of this machine shows ${own}. Nothing was dropped: correct the wrong clock`,
  );
}

/** The promotions whose window in progress has events that may be dropped. */
async function promotionsBefore(firstKept: string): Promise<string[]> {
  const { versions, at } = await withPromotions(readStoredPromotions);
  const first = BigInt(Date.parse(`${firstKept}T00:00:00Z`)) * 1000n;
  return [...timelinesOf(versions)].flatMap(([key, timeline]) => {
    const { window } = promotionStateOf(timeline, at);
    if (window === undefined || (window.startsAt !== null && window.startsAt >= first)) return [];
    return `promotion ${key}: its window in progress began before; its progress stays, and cannot be computed again`;
  });
}
