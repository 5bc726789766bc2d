/** The ledger of completions in the store (docs/rules.md, P12, P14). */
import { arrays } from '../postgres/binary-format';
import type { Session, Statement } from '../postgres/transaction';
import { COMPLETION_CHANGES, type CompletionEntry } from '../promotions/completion';
import { compareEntries } from '../promotions/judging';
import { byHash } from './plans';

/** An entry, and the number of its window. */
export type PlacedEntry = readonly [windowNo: number, entry: CompletionEntry];

const ENTER: Statement = {
  name: 'promotions_enter',
  text: `insert into promo_store.promotion_completions (completion_id, change, window_no, player_ref, ordinal, attempt, change_no, changed_at)
select decode(completion_id, 'hex'), change, window_no, player_ref, ordinal, attempt, change_no, 'epoch'::timestamptz + changed_at * interval '1 microsecond'
from unnest($1::text[], $2::smallint[], $3::int[], $4::text[], $5::int[], $6::int[], $7::bigint[], $8::bigint[]) with ordinality
  w (completion_id, change, window_no, player_ref, ordinal, attempt, change_no, changed_at, place) order by place`,
};

/** Writes the entries of a slice, in their order. */
export async function enterCompletions(session: Session, unordered: readonly PlacedEntry[]): Promise<void> {
  if (unordered.length === 0) return;
  const entries = unordered.toSorted(([, a], [, b]) => compareEntries(a, b));
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

/** The text of a column within the id of a completion. */
const part = (column: string): string => `convert_to(${column}::text, 'UTF8') || '\\x00'`;
/**
 * Attempts that hold in a generation, with their ids. There are thousands, so the names of a window are not
 * looked up for each, as promo_store.completion_id does.
 */
const HELD = `select substr(sha256(w.names || ${part('a.player_ref')} || w.key || ${part('a.ordinal')} || ${part('a.attempt')}), 1, 16) as completion_id, a.*,
    w.confirms and a.confirms_at is null as is_confirmed
  from promo_store.promotion_attempts a
  join (
    select w.window_no, ${part('o.operator_id')} || ${part('p.promotion_id')} || ${part('w.version')} as names, ${part('w.window_key')} as key,
      v.definition ? 'confirm_after' as confirms
    from promo_store.promotion_windows w
    join promo_store.promotion_versions v using (promotion_no, version)
    join promo_store.promotions p using (promotion_no)
    join promo_store.operators o using (operator_no)
  ) w using (window_no)
  where a.generation = $1 and a.is_held`;
/** The last attempt of each ordinal in the ledger of completions, and the last one that was revoked. */
const ENTERED = `select window_no, player_ref, ordinal, max(attempt) as attempt, max(attempt) filter (where change = 1) as revoked, max(changed_at) as changed_at
  from promo_store.promotion_completions group by 1, 2, 3`;
/**
 * Where the ledger has had more attempts, its last one goes on. An erasure may have taken rounds from the
 * player, and a rebuild does not see them. It may also have ended attempts with the name of the player: then
 * the one that holds has a lower number. An id that was revoked stays revoked. The completion then is a
 * further attempt.
 */
const KEEP_NUMBERS: Statement = {
  name: 'promotions_keep_numbers',
  text: `with entered as materialized (
  select e.*, e.revoked is not distinct from e.attempt as is_over from (${ENTERED}) e
)
update promo_store.promotion_attempts a set attempt = e.attempt + e.is_over::int from entered e
where a.generation = $1 and a.is_held and a.window_no = e.window_no and a.player_ref = e.player_ref and a.ordinal = e.ordinal
  and (a.attempt < e.attempt + e.is_over::int or not e.is_over and a.attempt > e.attempt)`,
};
/**
 * The next attempt of an ordinal has a number that the ledger does not know. The generation may never have
 * attained it, or less often: rows may have come or gone since. The ledger takes each id once.
 */
const GO_ON_NUMBERING: Statement = {
  name: 'promotions_go_on_numbering',
  text: `with entered as materialized (${ENTERED}), behind as materialized (
  select e.* from entered e
  join promo_store.promotion_windows w using (window_no)
  join promo_store.promotion_versions v using (promotion_no, version)
  left join promo_store.promotion_attempts a on a.generation = $1 and a.window_no = e.window_no and a.player_ref = e.player_ref and a.ordinal = e.ordinal
  where (a.attempt is null or a.attempt < e.attempt)
    and (v.since is null or coalesce(w.starts_at, '-infinity') >= v.since) and (v.until is null or coalesce(w.starts_at, '-infinity') < v.until)
), numbered as (
  insert into promo_store.promotion_attempts (generation, window_no, player_ref, ordinal, attempt, is_held, decided_at)
  select $1, window_no, player_ref, ordinal, attempt, false, changed_at from behind
  on conflict (generation, window_no, player_ref, ordinal) do update set attempt = excluded.attempt
)
insert into promo_store.promotion_progress (generation, window_no, player_ref, items, currencies, amounts, attained, has_attempts, score, changed_no, changed_at)
select $1, window_no, player_ref, '{}', '{}', '{}', 0, true, 0, 0, max(changed_at) from behind group by window_no, player_ref
on conflict (generation, window_no, player_ref) do update set has_attempts = true`,
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
  await session.query(KEEP_NUMBERS, [generation]);
  await session.query(GO_ON_NUMBERING, [generation]);
  await session.query(KEEP_CONFIRMED, [generation]);
  // The planner does not know how many attempts hold. A loop over both lists would take minutes.
  await byHash(session, ENTER_DIFFERENCE, [generation]);
}
