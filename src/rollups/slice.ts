/**
 * The rows of a slice: those with numbers above $2 and up to $3. None of them was decided before $4. $5 says
 * whether higher numbers were decided later.
 */
import { BATCH_NUMBERS } from '../fold/statements';
import type { Statement } from '../postgres/transaction';
import { GAME } from './days';
import { BUCKET } from './hours';
import { beginOfDay, DAY, joinOperators } from './parts';
import { KINDS_OF_PLAYERS } from './players';

const HAS_PLAYER = `h.counted and h.kind in (${KINDS_OF_PLAYERS})`;
const OF_LEDGER = `${DAY} as day_at, coalesce(h.brand_no, 0) as brand_no, coalesce(h.kind, 0::smallint) as kind,
    coalesce(h.currency_no, 0::smallint) as currency_no`;
const IN_SLICE = `h.verdict_id > $2::bigint and h.verdict_id <= $3::bigint and h.decided_at >= $4::timestamptz`;

const READ_ALL = `select h.decided_at, h.feed_no, ${OF_LEDGER}, h.amount_minor, h.counted, ${GAME}, h.verdict_id, h.connection_no, h.outcome, ${BUCKET} as bucket,
    h.round_no, case when ${HAS_PLAYER} then h.player_ref end as player_ref, case when h.kind = 4 and h.outcome = 0 then h.event_id end as refund
  from promo_store.history h where ${IN_SLICE}`;
/** Begins a statement that reads the slice for all rollups. */
export const READ = `read as materialized (${READ_ALL})`;
/** The same for a large slice: to scan it for each rollup takes less time than to keep it. */
export const SCAN = `read as not materialized (${READ_ALL})`;
/** The entries of players, for a statement that reads nothing else of the slice. */
export const READ_PLAYED = `select f.operator_no, ${OF_LEDGER}, h.player_ref, 1 as entries, coalesce(h.amount_minor, 0) as amount_minor
  from promo_store.history h ${joinOperators('h')} where ${IN_SLICE} and ${HAS_PLAYER} and h.player_ref is not null`;

/** To look up the entries of a round in history takes as long as to read so many verdicts. */
const VERDICTS_A_LOOKUP = 10_000;
/** The rounds that `read` refunds. */
const FIND_REFUNDS = `select x.round_no / ${BATCH_NUMBERS} * ${BATCH_NUMBERS} as opened_in, x.round_no, coalesce(x.refunded_at, x.opened_at) as refunded_at, x.opened_at >= $4 and $5::boolean as can_be_near
  from read s ${joinOperators('s')}
  cross join lateral (select * from promo_store.refunds x where x.round_no = s.round_no and x.refunded_by = s.refund offset 0) x
  where s.refund is not null
`;
/**
 * The batch with which a scan of the verdicts before the slice begins. It is the earliest one from which the
 * scan takes less time than the lookups that it spares. Verdicts are expected to be as dense as in the slice.
 * A round has the number of its first batch, so it has no event before.
 */
const FIND_NEAREST = `select min(opened_in) as first
  from (select opened_in, row_number() over (order by opened_in desc) as rounds from refunds where can_be_near) r
  where ($2::bigint - opened_in) * ((select sum(verdicts) from cells)::float8 / ($3::bigint - $2::bigint)) <= rounds * ${VERDICTS_A_LOOKUP}`;
const IS_NEAR = 'x.can_be_near and x.opened_in >= (select first from scan)';
/** The entries of near rounds: those in the slice, and those before it. The scan keeps no other row. */
const FIND_ENTRIES = `select h.decided_at, x.refunded_at, f.operator_no, h.brand_no, h.kind, h.currency_no, coalesce(h.amount_minor, 0) as amount_minor, h.game_id, h.player_ref
  from refunds x
  join (select * from read where counted and (round_no in (select round_no from refunds)) is true) h on h.round_no = x.round_no
  ${joinOperators('h')}
  where ${IS_NEAR}
  union all
  select h.decided_at, x.refunded_at, f.operator_no, coalesce(h.brand_no, 0), h.kind, coalesce(h.currency_no, 0::smallint),
    coalesce(h.amount_minor, 0), ${GAME}, h.player_ref
  from refunds x
  join promo_store.history h on h.round_no = x.round_no
  join promo_store.feeds f on f.feed_no = h.feed_no
  where ${IS_NEAR} and h.counted and h.verdict_id >= (select first from scan) and h.verdict_id <= $2::bigint and h.decided_at >= $4::timestamptz`;
export const FIND_REVERSED = `refunds as materialized (${FIND_REFUNDS}), scan as materialized (${FIND_NEAREST}), reversed as materialized (${FIND_ENTRIES})`;
/** The other refunded rounds: each is looked up. */
export const FAR_ROUNDS = `(select string_agg(x.round_no::text, ',') from refunds x where (${IS_NEAR}) is not true)`;

/**
 * The entries of rounds that opened long ago, each by a lookup. The bloom index of history finds each of
 * them, in the months from the opening to the refund: Postgres skips all others. A day on each side is for
 * clocks that were set.
 */
export const findFar = (
  rounds: string,
): string => `select h.decided_at, coalesce(x.refunded_at, x.opened_at) as refunded_at, f.operator_no, coalesce(h.brand_no, 0) as brand_no, h.kind,
    coalesce(h.currency_no, 0::smallint) as currency_no, coalesce(h.amount_minor, 0) as amount_minor, ${GAME}, h.player_ref
  from promo_store.refunds x
  cross join lateral (select * from (select decided_at, feed_no, brand_no, kind, currency_no, amount_minor, game_id, counted, player_ref
    from promo_store.history h where h.round_no = x.round_no
      and h.decided_at >= x.opened_at - interval '1 day' and h.decided_at <= coalesce(x.refunded_at, 'infinity') + interval '1 day' offset 0) h where h.counted) h
  join promo_store.feeds f on f.feed_no = h.feed_no
  where x.round_no = any(string_to_array(${rounds}, ',')::bigint[])`;
/** One scan of a slice is joined by hash, whatever the planner expects: by no loop, and without a sort. */
export const PLAN: Statement = {
  name: 'rollups_plan',
  text: `select set_config('enable_nestloop', $1, true), set_config('enable_mergejoin', 'off', true)`,
};

/** Among so many last numbers of a slice is a verdict, else the slice ends anywhere. */
const NEWEST_NUMBERS = 4 * BATCH_NUMBERS;
/**
 * The end of the last whole day of a slice, before a batch, or the end of the slice where it has no midnight.
 * Players of a new day are only inserted, which takes half of the time. The day begins with the first verdict
 * of its first hour. To look further takes longer than it spares.
 */
export const LAST_DAY_END = `with newest as (
  select ${beginOfDay('max(h.decided_at)')} as day_at from promo_store.history h
  where h.verdict_id > greatest($1::bigint, $2::bigint - ${NEWEST_NUMBERS}) and h.verdict_id <= $2::bigint and h.decided_at >= $3::timestamptz
), first as (
  select min(h.verdict_id) / ${BATCH_NUMBERS} * ${BATCH_NUMBERS} - 1 as before from promo_store.history h
  where h.verdict_id > $1::bigint and h.verdict_id <= $2::bigint and h.decided_at >= $3::timestamptz
    and h.decided_at >= (select day_at from newest) and h.decided_at < (select day_at from newest) + interval '1 hour'
)
select case when before > $1::bigint then before else $2::bigint end from first`;
