/** The store's side of retention: drops months that are over, and forgets what only they have needed. */
import type { StoreAccess } from '../postgres/pool';
import { inStore, READ_TIMEOUT_MS, type Requester } from './in-store';

/** The deadline of a drop. Dropped rows are counted first. */
const DROP_TIMEOUT_MS = 30 * 60_000;

export interface OldTable {
  readonly name: string;
  readonly rowEstimate: number;
  readonly bytes: number;
}

/** The fold of a rebuild, and why it began. */
export interface Rebuild {
  readonly fold: string;
  readonly reason: string;
}

const rebuildsOf = (rows: readonly unknown[][]): Rebuild[] =>
  rows.map(([fold, reason]) => ({ fold: String(fold), reason: String(reason) }));

/** The rebuilds for which promo.drop_months_before drops nothing. */
const REBUILDS = `select 'promotions', rebuilt_because from promo.promotion_coverage where rebuilt_up_to >= 0
union all select 'rollups', rebuilt_because from promo.rollup_coverage where rebuilt_up_to >= 0`;

/**
 * The time of the store, in milliseconds since 1970, and the first day of the month `keepMonths` before it.
 * Also the tables of all months before that day, and the rebuilds that are in the way.
 * @throws StoreError
 */
export async function planRetention(
  database: string | StoreAccess,
  keepMonths: number,
): Promise<{ storeMs: number; firstKept: string; tables: OldTable[]; rebuilds: Rebuild[] }> {
  return inStore(database, { timeoutMs: READ_TIMEOUT_MS }, async (query) => {
    const [[first, ms] = []] = await query(
      // Formatted explicitly: a role or a database may have its own DateStyle, and its own digits of a float.
      `select to_char(date_trunc('month', now() at time zone 'utc') - make_interval(months => $1), 'YYYY-MM-DD'),
        (extract(epoch from now()) * 1000)::bigint`,
      [keepMonths],
    );
    const firstKept = String(first);
    const rows = await query(
      'select name, row_estimate::text, bytes::text from promo.retention_plan($1::date)',
      [firstKept],
    );
    return {
      storeMs: Number(ms),
      firstKept,
      tables: rows.map(([name, rowEstimate, bytes]) => ({
        name: String(name),
        rowEstimate: Number(rowEstimate),
        bytes: Number(bytes),
      })),
      rebuilds: rebuildsOf(await query(REBUILDS)),
    };
  });
}

/**
 * Drops the tables of all months before the date. A rebuild that has counted something is in the way: then
 * nothing is dropped, or each such rebuild begins again with the kept months.
 * @throws StoreError
 */
export async function dropMonthsBefore(
  database: string | StoreAccess,
  { requestedBy }: Requester,
  firstKept: string,
  restartsRebuilds = false,
): Promise<{ dropped: string[]; restarted: Rebuild[] }> {
  return inStore(database, { timeoutMs: DROP_TIMEOUT_MS, requestedBy }, async (query) => {
    const restarted = restartsRebuilds
      ? await query('select fold, reason from promo.restart_rebuilds()')
      : [];
    const dropped = await query('select promo.drop_months_before($1::date)', [firstKept]);
    return { dropped: dropped.map(([name]) => String(name)), restarted: rebuildsOf(restarted) };
  });
}

/** The number of pages in one transaction, which locks the rounds in them. */
const FORGET_PAGES = 500;

/**
 * Deletes the unkeyed hashes that lead to players, of events and rounds of dropped months. The next run
 * continues an interrupted one.
 *
 * @returns the numbers of events and rounds
 * @throws StoreError
 */
export async function forgetDroppedPlayers(
  database: string | StoreAccess,
): Promise<{ events: number; rounds: number }> {
  const sum = { events: 0, rounds: 0 };
  for (;;) {
    const [[events, rounds, isDone] = []] = await inStore(database, { timeoutMs: DROP_TIMEOUT_MS }, (query) =>
      query('select events::text, rounds::text, is_done from promo.forget_dropped_players($1)', [
        FORGET_PAGES,
      ]),
    );
    sum.events += Number(events);
    sum.rounds += Number(rounds);
    if (isDone === true) return sum;
  }
}

/**
 * Deletes the attributions of dropped months that credit no kept event.
 *
 * @returns their number
 * @throws StoreError
 */
export async function forgetDroppedAttributions(database: string | StoreAccess): Promise<number> {
  const [[forgotten] = []] = await inStore(database, { timeoutMs: DROP_TIMEOUT_MS }, (query) =>
    query('select promo.forget_dropped_attributions()::text'),
  );
  return Number(forgotten);
}

/** Pages of one transaction, for whose end the next slice of the pseudonyms waits. */
const PSEUDONYM_PAGES = 100;

/**
 * Deletes the pseudonyms of players without a kept event.
 *
 * @returns their number
 * @throws StoreError
 */
export async function forgetDroppedPseudonyms(database: string | StoreAccess): Promise<number> {
  let sum = 0;
  for (let page: unknown = '0'; page !== null; ) {
    const [row] = await inStore(database, { timeoutMs: DROP_TIMEOUT_MS }, (query) =>
      query('select next_page::text, forgotten::text from promo.forget_dropped_pseudonyms($1::bigint, $2)', [
        page,
        PSEUDONYM_PAGES,
      ]),
    );
    sum += Number(row?.[1]);
    page = row?.[0] ?? null;
  }
  return sum;
}

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
  return untilNone(database, text, [FORGET_SUMS]);
}

/** The number of calls in one transaction. */
const FORGET_CALLS = 10_000;

/**
 * Deletes wallet calls that were over before the date, and for the given months.
 *
 * @param leastMonths how long wallets keep their answers. Until then, a repeated call has to find its state
 * @returns their number
 * @throws StoreError
 */
export function forgetWalletCalls(
  database: string | StoreAccess,
  firstKept: string,
  leastMonths: number,
): Promise<number> {
  const text = `select promo.forget_wallet_calls(least($1::date at time zone 'utc', now() - make_interval(months => $2)), $3)::text`;
  return untilNone(database, text, [firstKept, leastMonths, FORGET_CALLS]);
}

/** Runs a statement that returns how many rows it deleted, until there are none. @returns their number */
async function untilNone(
  database: string | StoreAccess,
  text: string,
  values: readonly unknown[],
): Promise<number> {
  for (let sum = 0; ; ) {
    const [[gone] = []] = await inStore(database, { timeoutMs: DROP_TIMEOUT_MS }, (query) =>
      query(text, values),
    );
    if (Number(gone) === 0) return sum;
    sum += Number(gone);
  }
}
