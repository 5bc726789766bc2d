/** Leaderboards and confirmations that are due, and the windows that they are in. */
import type { Session, Statement } from '../postgres/transaction';
import { WINDOW, type WindowRow, windowRowOf } from './windows';

/** The players of a window that may be ranked: the best ones of before the slice. */
const POOL: Statement = {
  name: 'promotions_pool',
  text: `select player_ref from promo_store.promotion_progress where generation = $1 and window_no = $2 and score > 0
order by score desc, scored_no, player_ref limit $3`,
};
const RANKED: Statement = {
  name: 'promotions_ranked',
  text: 'select player_ref from promo_store.promotion_attempts where generation = $1 and window_no = $2 and is_held',
};

/** @param most the number of ranks, and of players that the slice may take from them */
export async function rankedPlayers(
  session: Session,
  generation: number,
  windowNo: number,
  most: number,
): Promise<string[]> {
  const values = [generation, windowNo];
  const [pool, ranked] = await Promise.all([
    session.query(POOL, [...values, most]),
    session.query(RANKED, values),
  ]);
  return [...new Set([...pool, ...ranked].map(([player]) => player ?? ''))];
}

/** Few windows are due, so the progress of each is looked up. A join would read the progress of all. */
const DUE_BOARDS: Statement = {
  name: 'promotions_due_boards',
  text: `select ${WINDOW} from promo_store.promotion_windows w
where w.closes_at <= 'epoch'::timestamptz + $2 * interval '1 microsecond'
  and not exists (select from promo_store.promotion_boards b where b.generation = $1 and b.window_no = w.window_no)
  and exists (select from promo_store.promotion_progress p where p.generation = $1 and p.window_no = w.window_no offset 0)`,
};

/** Leaderboards whose ranks count from now on. */
export async function dueBoards(session: Session, generation: number, asOf: bigint): Promise<WindowRow[]> {
  return (await session.query(DUE_BOARDS, [generation, asOf.toString()])).map((row) => windowRowOf(row)[0]);
}

const DUE_CONFIRMATIONS: Statement = {
  name: 'promotions_due_confirmations',
  text: `select distinct ${WINDOW}, a.player_ref
from (select window_no, player_ref from promo_store.promotion_attempts
  where generation = $1 and confirms_at <= 'epoch'::timestamptz + $2 * interval '1 microsecond' order by confirms_at limit $3) a
join promo_store.promotion_windows w using (window_no)`,
};

/** Players with a completion that is due for its confirmation, at most so many. */
export async function dueConfirmations(
  session: Session,
  generation: number,
  asOf: bigint,
  most: number,
): Promise<(WindowRow & { readonly playerRef: string })[]> {
  const rows = await session.query(DUE_CONFIRMATIONS, [generation, asOf.toString(), most]);
  return rows.map((row) => {
    const [window, [playerRef]] = windowRowOf(row);
    return { ...window, playerRef: playerRef ?? '' };
  });
}

const CLOSED: Statement = {
  name: 'promotions_closed',
  text: 'select window_no from promo_store.promotion_boards where generation = $1 and window_no = any($2::int[])',
};
const CLOSE: Statement = {
  name: 'promotions_close',
  text: `insert into promo_store.promotion_boards (generation, window_no, closed_at)
select $1, window_no, closes_at from promo_store.promotion_windows where window_no = any($2::int[]) on conflict do nothing`,
};

export async function closedBoards(
  session: Session,
  generation: number,
  windows: readonly number[],
): Promise<Set<number>> {
  if (windows.length === 0) return new Set();
  return new Set((await session.query(CLOSED, [generation, windows])).map(([no]) => Number(no)));
}

export async function closeBoards(
  session: Session,
  generation: number,
  windows: readonly number[],
): Promise<void> {
  if (windows.length > 0) await session.query(CLOSE, [generation, windows]);
}
