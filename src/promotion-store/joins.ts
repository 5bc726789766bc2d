/** Progress that an erasure has joined from two names (docs/rules.md, B6). */
import type { Session, Statement } from '../postgres/transaction';
import { type DueWindow, dueWindowOf, WINDOW } from './board-rows';
import { finiteMicrosOf } from './times';

/** Progress, and the last change of it. */
export interface JoinedProgress extends DueWindow {
  readonly playerRef: string;
  readonly changeNo: number;
  /** Microseconds since 1970. */
  readonly at: bigint;
}

const TAKE_JOINED: Statement = {
  name: 'promotions_take_joined',
  text: `with taken as (delete from promo_store.promotion_joins where generation = $1 returning window_no, player_ref)
select ${WINDOW}, p.player_ref, p.changed_no, ${finiteMicrosOf('p.changed_at')} from taken t
join promo_store.promotion_windows w using (window_no)
cross join lateral (select p.player_ref, p.changed_no, p.changed_at from promo_store.promotion_progress p
  where p.generation = $1 and p.window_no = t.window_no and p.player_ref = t.player_ref offset 0) p
order by p.changed_no`,
};

/** Deletes the list of joined progress of a generation. @returns the list, which the slice has to judge */
export async function takeJoined(session: Session, generation: number): Promise<JoinedProgress[]> {
  return (await session.query(TAKE_JOINED, [generation])).map((row) => {
    const [playerRef, changeNo, at] = row.slice(-3);
    return {
      ...{ ...dueWindowOf(row), playerRef: playerRef ?? '' },
      ...{ changeNo: Number(changeNo), at: BigInt(at ?? 0) },
    };
  });
}
