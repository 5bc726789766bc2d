/** The ledger of completions in the store (docs/rules.md, P12, P14). */
import { arrays } from '../postgres/binary-format';
import type { Session, Statement } from '../postgres/transaction';
import { COMPLETION_CHANGES, type CompletionEntry } from '../promotions/completion';

/** An entry, and the number of its window. */
export type PlacedEntry = readonly [windowNo: number, entry: CompletionEntry];

const ENTER: Statement = {
  name: 'promotions_enter',
  text: `insert into promo_store.promotion_completions (completion_id, change, window_no, player_ref, ordinal, attempt, change_no, changed_at)
select decode(completion_id, 'hex'), change, window_no, player_ref, ordinal, attempt, change_no, 'epoch'::timestamptz + changed_at * interval '1 microsecond'
from unnest($1::text[], $2::smallint[], $3::int[], $4::text[], $5::int[], $6::int[], $7::bigint[], $8::bigint[]) with ordinality
  w (completion_id, change, window_no, player_ref, ordinal, attempt, change_no, changed_at, place) order by place`,
};

export async function enterCompletions(session: Session, entries: readonly PlacedEntry[]): Promise<void> {
  if (entries.length === 0) return;
  const column = <T>(of: (entry: CompletionEntry) => T) => entries.map(([, entry]) => of(entry));
  await session.query(ENTER, [
    arrays.text(column(({ completionId }) => completionId)),
    arrays.int2(column(({ change }) => COMPLETION_CHANGES.indexOf(change))),
    arrays.int4(entries.map(([windowNo]) => windowNo)),
    arrays.text(column(({ playerRef }) => playerRef)),
    arrays.int4(column(({ ordinal }) => ordinal)),
    arrays.int4(column(({ attempt }) => attempt)),
    arrays.int8(column(({ changeNo }) => changeNo)),
    arrays.int8(column(({ at }) => at)),
  ]);
}

/** Attempts that hold in a generation, with their ids. */
const HELD = `select promo_store.completion_id(a.window_no, a.player_ref, a.ordinal, a.attempt) as completion_id, a.*,
    v.definition ? 'confirm_after' and a.confirms_at is null as is_confirmed
  from promo_store.promotion_attempts a
  join promo_store.promotion_windows w using (window_no)
  join promo_store.promotion_versions v using (promotion_no, version)
  where a.generation = $1 and a.is_held`;
/** An id that was revoked stays revoked. The completion then is a further attempt. */
const AVOID_REVOKED: Statement = {
  name: 'promotions_avoid_revoked',
  text: `with held as materialized (${HELD}), again as (
  select h.window_no, h.player_ref, h.ordinal, (
    select max(c.attempt) + 1 from promo_store.promotion_completions c where c.window_no = h.window_no and c.player_ref = h.player_ref and c.ordinal = h.ordinal
  ) as attempt
  from held h where exists (select from promo_store.promotion_completions c where c.completion_id = h.completion_id and c.change = 1)
)
update promo_store.promotion_attempts a set attempt = again.attempt from again
where a.generation = $1 and a.window_no = again.window_no and a.player_ref = again.player_ref and a.ordinal = again.ordinal`,
};
/**
 * A confirmation stays. The generation was counted up to its last row, and the time may have confirmed since
 * then. It would confirm a second time, which the ledger refuses.
 */
const KEEP_CONFIRMED: Statement = {
  name: 'promotions_keep_confirmed',
  text: `update promo_store.promotion_attempts a set confirms_at = null
from promo_store.promotion_completions c
where a.generation = $1 and a.is_held and a.confirms_at is not null and c.change = 2
  and c.window_no = a.window_no and c.player_ref = a.player_ref and c.ordinal = a.ordinal and c.attempt = a.attempt`,
};
const ENTER_DIFFERENCE: Statement = {
  name: 'promotions_enter_difference',
  text: `with held as materialized (${HELD}), present as materialized (
  select c.*, exists (select from promo_store.promotion_completions x where x.completion_id = c.completion_id and x.change = 2) as is_confirmed
  from promo_store.promotion_completions c
  where c.change = 0 and not exists (select from promo_store.promotion_completions x where x.completion_id = c.completion_id and x.change = 1)
), difference as (
  select p.completion_id, 1 as change, p.window_no, p.player_ref, p.ordinal, p.attempt, null::bigint as change_no,
    (select coalesce(g.newest_at, now()) from promo_store.fold_generations g where g.fold = 'promotions' and g.generation = $1) as changed_at
  from present p where not exists (select from held h where h.completion_id = p.completion_id)
  union all
  select h.completion_id, 0, h.window_no, h.player_ref, h.ordinal, h.attempt, h.decided_no, h.decided_at
  from held h where not exists (select from present p where p.completion_id = h.completion_id)
  union all
  select h.completion_id, 2, h.window_no, h.player_ref, h.ordinal, h.attempt, null, h.decided_at + (v.definition ->> 'confirm_after')::interval
  from held h
  join promo_store.promotion_windows w using (window_no)
  join promo_store.promotion_versions v using (promotion_no, version)
  where h.is_confirmed and not exists (select from present p where p.completion_id = h.completion_id and p.is_confirmed)
)
insert into promo_store.promotion_completions (completion_id, change, window_no, player_ref, ordinal, attempt, change_no, changed_at)
select * from difference order by case change when 1 then 0 when 0 then 1 else 2 end, window_no, ordinal, player_ref`,
};

/** Makes the ledger of completions that of a generation: it enters the differences. */
export async function enterDifference(session: Session, generation: number): Promise<void> {
  await session.query(AVOID_REVOKED, [generation]);
  await session.query(KEEP_CONFIRMED, [generation]);
  await session.query(ENTER_DIFFERENCE, [generation]);
}
