/** The rollups as results of a fold: verdicts by hour, and the ledger by day. */
import type { Results } from '../fold/fold';
import type { Statement } from '../postgres/transaction';

/**
 * Adds a slice: its verdicts, and the entries that its refunds reverse. A refund of the slice may reverse
 * entries of any earlier slice, so these are read from history.
 *
 * Time bounds are those of promo.ledger: a day allows for clocks that were set.
 */
const FOLD: Statement = {
  name: 'rollups_fold',
  text: `with slice as materialized (
  select h.verdict_id, h.decided_at, f.operator_no, coalesce(h.brand_no, 0) as brand_no, h.connection_no, coalesce(h.kind, 0::smallint) as kind,
    h.outcome, coalesce(h.currency_no, 0::smallint) as currency_no, h.amount_minor, h.counted, h.round_no, coalesce(h.game_id, '') as game_id,
    date_part('epoch', h.decided_at - h.occurred_at) as delay,
    case when h.kind = 4 and h.outcome = 0 then h.event_id end as refund
  from promo_store.history h
  join promo_store.feeds f on f.feed_no = h.feed_no and f.test_mark <> 1
  where h.verdict_id > $2::bigint and h.verdict_id <= $3::bigint and h.decided_at >= $4::timestamptz
), reversed as materialized (
  select h.decided_at, coalesce(x.refunded_at, s.decided_at) as refunded_at, s.operator_no, coalesce(h.brand_no, 0) as brand_no, h.kind,
    coalesce(h.currency_no, 0::smallint) as currency_no, coalesce(h.amount_minor, 0) as amount_minor, coalesce(h.game_id, '') as game_id
  from slice s
  join promo_store.refunds x on x.round_no = s.round_no and x.refunded_by = s.refund
  join promo_store.history h on h.round_no = x.round_no and h.counted
    and h.decided_at >= x.opened_at - interval '1 day' and h.decided_at <= coalesce(x.refunded_at, 'infinity') + interval '1 day'
  where s.refund is not null
), hours as (
  insert into promo_store.rollup_verdicts as r (generation, hour, operator_no, brand_no, connection_no, kind, outcome, currency_no,
    verdicts, amount_minor, timed, early, within_100ms, within_1s, within_10s, within_1m, within_10m, within_1h, within_1d)
  select $1::int, date_bin('1 hour', decided_at, '2000-01-01 00:00:00+00'), operator_no, brand_no, connection_no, kind, outcome, currency_no,
    count(*), coalesce(sum(amount_minor), 0), count(delay), count(*) filter (where delay < 0), count(*) filter (where delay <= 0.1),
    count(*) filter (where delay <= 1), count(*) filter (where delay <= 10), count(*) filter (where delay <= 60),
    count(*) filter (where delay <= 600), count(*) filter (where delay <= 3600), count(*) filter (where delay <= 86400)
  from slice group by 2, 3, 4, 5, 6, 7, 8
  on conflict on constraint rollup_verdicts_pkey do update set verdicts = r.verdicts + excluded.verdicts, amount_minor = r.amount_minor + excluded.amount_minor,
    timed = r.timed + excluded.timed, early = r.early + excluded.early, within_100ms = r.within_100ms + excluded.within_100ms,
    within_1s = r.within_1s + excluded.within_1s, within_10s = r.within_10s + excluded.within_10s, within_1m = r.within_1m + excluded.within_1m,
    within_10m = r.within_10m + excluded.within_10m, within_1h = r.within_1h + excluded.within_1h, within_1d = r.within_1d + excluded.within_1d
), days as (
  insert into promo_store.rollup_ledger as r (generation, day, operator_no, brand_no, kind, currency_no, game_id,
    entries, entered_minor, reversals, reversed_minor, refunded, refunded_minor)
  select $1::int, (at at time zone 'utc')::date, operator_no, brand_no, kind, currency_no, game_id,
    coalesce(sum(entries), 0), coalesce(sum(entered_minor), 0), coalesce(sum(reversals), 0), coalesce(sum(reversed_minor), 0),
    coalesce(sum(refunded), 0), coalesce(sum(refunded_minor), 0)
  from (
    select decided_at as at, operator_no, brand_no, kind, currency_no, game_id, 1 as entries, coalesce(amount_minor, 0) as entered_minor,
      0 as reversals, 0 as reversed_minor, 0 as refunded, 0 as refunded_minor
    from slice where counted
    union all
    select refunded_at, operator_no, brand_no, kind, currency_no, game_id, 0, 0, 1, amount_minor, 0, 0 from reversed
    union all
    select decided_at, operator_no, brand_no, kind, currency_no, game_id, 0, 0, 0, 0, 1, amount_minor from reversed
  ) as entries
  group by 2, 3, 4, 5, 6, 7
  on conflict on constraint rollup_ledger_pkey do update set entries = r.entries + excluded.entries, entered_minor = r.entered_minor + excluded.entered_minor,
    reversals = r.reversals + excluded.reversals, reversed_minor = r.reversed_minor + excluded.reversed_minor,
    refunded = r.refunded + excluded.refunded, refunded_minor = r.refunded_minor + excluded.refunded_minor
)
select count(*), max(decided_at) from slice`,
};

/** Results of the time that history no longer has wholly. Those of the older generation have more. */
const KEEPS: readonly Statement[] = [
  {
    name: 'rollups_clear_hours',
    text: 'delete from promo_store.rollup_verdicts where generation = $2 and hour < $3::timestamptz and $1::int is not null',
  },
  {
    name: 'rollups_keep_hours',
    text: `insert into promo_store.rollup_verdicts select $2, hour, operator_no, brand_no, connection_no, kind, outcome, currency_no,
  verdicts, amount_minor, timed, early, within_100ms, within_1s, within_10s, within_1m, within_10m, within_1h, within_1d
from promo_store.rollup_verdicts where generation = $1 and hour < $3::timestamptz`,
  },
  {
    name: 'rollups_clear_days',
    text: `delete from promo_store.rollup_ledger where generation = $2 and day < ($3::timestamptz at time zone 'utc')::date and $1::int is not null`,
  },
  {
    name: 'rollups_keep_days',
    text: `insert into promo_store.rollup_ledger select $2, day, operator_no, brand_no, kind, currency_no, game_id,
  entries, entered_minor, reversals, reversed_minor, refunded, refunded_minor
from promo_store.rollup_ledger where generation = $1 and day < ($3::timestamptz at time zone 'utc')::date`,
  },
];

const SWEEP_ROWS = 20_000;
const sweepOf = (table: string): Statement => ({
  name: `rollups_sweep_${table}`,
  text: `with gone as (delete from promo_store.${table} where ctid = any(array(
  select ctid from promo_store.${table} where generation = $1 limit ${SWEEP_ROWS})) returning 1) select count(*) from gone`,
});
const SWEEPS = ['rollup_verdicts', 'rollup_ledger'].map(sweepOf);

export const ROLLUP_RESULTS: Results = {
  name: 'rollups',
  async fold(session, { generation, after, upTo, since }) {
    const [[rows, newestAt = null] = []] = await session.query(FOLD, [generation, after, upTo, since]);
    return { rows: Number(rows), newestAt };
  },
  async keepOlder(session, from, to, since) {
    for (const statement of KEEPS) await session.query(statement, [from, to, since]);
  },
  async sweep(session, generation) {
    let deleted = 0;
    for (const statement of SWEEPS) {
      const [[count] = []] = await session.query(statement, [generation]);
      deleted += Number(count);
    }
    return deleted === 0;
  },
};
