/**
 * The rows of a slice: those with numbers above $2 and up to $3. None of them was decided before $4.
 */
import { BATCH_NUMBERS } from '../fold/statements';
import { DAY } from './day';
import { GAME } from './days';
import { BUCKET } from './hours';
import { KINDS_OF_PLAYERS } from './players';

/** Columns of a slice for hours and days, and for players. */
export const FOR_COUNTS = `h.verdict_id, h.connection_no, h.outcome, ${BUCKET} as bucket`;
export const FOR_PLAYERS = `h.round_no, case when h.counted and h.kind in (${KINDS_OF_PLAYERS}) then h.player_ref end as player_ref,
    case when h.kind = 4 and h.outcome = 0 then h.event_id end as refund`;

export const readSlice = (
  columns: string,
): string => `select h.decided_at, ${DAY} as day_at, f.operator_no, coalesce(h.brand_no, 0) as brand_no, coalesce(h.kind, 0::smallint) as kind,
    coalesce(h.currency_no, 0::smallint) as currency_no, h.amount_minor, h.counted, ${GAME}, ${columns}
  from promo_store.history h
  join promo_store.feeds f on f.feed_no = h.feed_no and f.test_mark <> 1
  where h.verdict_id > $2::bigint and h.verdict_id <= $3::bigint and h.decided_at >= $4::timestamptz
`;

/** The rounds that `read` refunds. Near ones opened in it or a moment before: behind $5, not before $4. */
const FIND_REFUNDS = `select x.round_no, coalesce(x.refunded_at, x.opened_at) as refunded_at,
    x.round_no / ${BATCH_NUMBERS} * ${BATCH_NUMBERS} > $5::bigint and x.opened_at >= $4 as is_near
  from read s
  cross join lateral (select * from promo_store.refunds x where x.round_no = s.round_no and x.refunded_by = s.refund offset 0) x
  where s.refund is not null
`;
/**
 * The entries of near rounds. One scan of the batches before the slice finds them all. It keeps no other row.
 * A round has the number of its first batch, so it has no event before.
 */
const FIND_ENTRIES = `select h.decided_at, x.refunded_at, h.operator_no, h.brand_no, h.kind, h.currency_no, coalesce(h.amount_minor, 0) as amount_minor, h.game_id, h.player_ref
  from refunds x
  join read h on h.round_no = x.round_no
  where x.is_near and h.counted
  union all
  select h.decided_at, x.refunded_at, f.operator_no, coalesce(h.brand_no, 0), h.kind, coalesce(h.currency_no, 0::smallint),
    coalesce(h.amount_minor, 0), ${GAME}, h.player_ref
  from refunds x
  join promo_store.history h on h.round_no = x.round_no
  join promo_store.feeds f on f.feed_no = h.feed_no
  where x.is_near and h.counted and h.verdict_id > $5::bigint and h.verdict_id <= $2::bigint and h.decided_at >= $4::timestamptz`;
export const FIND_REVERSED = `refunds as materialized (${FIND_REFUNDS}), reversed as materialized (${FIND_ENTRIES})`;
/** The refunded rounds that opened earlier. */
export const FAR_ROUNDS = `(select string_agg(round_no::text, ',') from refunds where not is_near)`;
