/**
 * The queries of a report, for the role of a reader. None reads an id of a player, an event or a round.
 *
 * The parameters: the operator or null, the begins of buckets, and the range.
 */
import type { Source } from './plan';

/** The most rows of one answer. Those of games come last, the most refunded first. */
export const MOST_ROWS = 20_000;

export interface ReportQuery {
  /** A noun, for the list of parts that were too slow. */
  readonly name: string;
  readonly text: string;
}

const LIMITS_SECONDS = [0.1, 1, 10, 60, 600, 3_600, 86_400] as const;
/** Columns of the rollups, and the names of the same counts in a report. */
export const DELAY_COUNTS = [
  ...(['within_100ms', 'within_1s', 'within_10s', 'within_1m', 'within_10m', 'within_1h'] as const),
  'within_1d',
] as const;

const OF_OPERATOR = '($1::text is null or operator_id = $1::text)';
const between = (column: string, type: 'timestamptz' | 'date' = 'timestamptz') =>
  `${column} >= $3::${type} and ${column} < $4::${type} and ${OF_OPERATOR}`;

/** By bucket, and by connection, in one pass. */
const VERDICT_SETS =
  'group by grouping sets ((bucket, verdict, reason), (operator_id, connection_id, verdict, reason))';

const VERDICTS: Readonly<Record<Source, string>> = {
  rollups: `select bucket, operator_id, connection_id, verdict, reason, sum(verdicts), max(hour), sum(timed), sum(early),
  ${DELAY_COUNTS.map((name) => `sum(${name})`).join(', ')}
from (
  select width_bucket(hour, $2::timestamptz[]) as bucket, * from promo.verdicts_hourly where ${between('hour')}
) h ${VERDICT_SETS}`,
  views: `select bucket, operator_id, connection_id, verdict, reason, count(*), max(decided_at), count(delay), count(*) filter (where delay < 0),
  ${LIMITS_SECONDS.map((seconds) => `count(*) filter (where delay <= ${seconds})`).join(', ')}
from (
  select width_bucket(decided_at, $2::timestamptz[]) as bucket, operator_id, connection_id, verdict, reason, decided_at,
    extract(epoch from decided_at - occurred_at) as delay
  from promo.verdicts where ${between('decided_at')}
) v ${VERDICT_SETS}`,
};

/** By day and brand, by brand, by currency, and by game, in one pass. */
const amountsFrom = (
  rows: string,
): string => `select grouping(bucket, brand, game_id), bucket, operator_id, brand, game_id, currency,
  coalesce(sum(net_amount) filter (where kind = 'bet'), 0), coalesce(sum(net_amount) filter (where kind = 'win'), 0),
  coalesce(sum(net_amount) filter (where kind = 'bet'), 0) - coalesce(sum(net_amount) filter (where kind = 'win'), 0),
  coalesce(sum(entries) filter (where kind = 'bet'), 0), coalesce(sum(refunded) filter (where kind = 'bet'), 0),
  coalesce(sum(amount - net_amount) filter (where kind = 'bet'), 0)
from (${rows}) r
group by grouping sets ((bucket, operator_id, brand, currency), (operator_id, brand, currency), (currency), (operator_id, game_id, currency))
order by grouping(game_id) desc, sum(refunded) filter (where kind = 'bet') desc nulls last, operator_id, game_id, currency, bucket, brand`;

const AMOUNTS: Readonly<Record<Source, string>> = {
  rollups: amountsFrom(`
  select width_bucket(day::timestamp at time zone 'utc', $2::timestamptz[]) as bucket, * from promo.ledger_daily
  where kind in ('bet', 'win') and ${between('day', 'date')}
`),
  views: amountsFrom(`
  select width_bucket(decided_at, $2::timestamptz[]) as bucket, operator_id, brand, game_id, currency, kind, amount,
    case when counts_now then amount else 0 end as net_amount, 1 as entries, case when counts_now then 0 else 1 end as refunded
  from promo.verdicts where kind in ('bet', 'win') and counted and ${between('decided_at')}
`),
};

export const verdictsQuery = (source: Source): ReportQuery => ({ name: 'verdicts', text: VERDICTS[source] });
export const amountsQuery = (source: Source): ReportQuery => ({ name: 'amounts', text: AMOUNTS[source] });

export const RESENDS: ReportQuery = {
  name: 'resends',
  text: `select bucket, operator_id, connection_id, count(*) filter (where not content_differs), count(*) filter (where content_differs)
from (
  select width_bucket(received_at, $2::timestamptz[]) as bucket, operator_id, connection_id, content_differs
  from promo.deliveries where ${between('received_at')}
) d group by grouping sets ((bucket), (operator_id, connection_id))`,
};

export const ANOMALY_COUNTS: ReportQuery = {
  name: 'contradictions',
  text: `select operator_id, anomaly, count(*) from promo.anomalies
where ${between('opened_at')} and $2::timestamptz[] is not null
group by 1, 2 order by 3 desc, 1, 2`,
};

export const DEFINED_PROMOTIONS: ReportQuery = {
  name: 'promotions',
  text: `select operator_id, promotion_id, type, state from promo.promotions where ${OF_OPERATOR} order by 1, 2`,
};

/** Windows that overlap the range. */
export const PROGRESS_SHARES: ReportQuery = {
  name: 'shares',
  text: `select operator_id, promotion_id, count(*), count(*) filter (where share < 0.5), count(*) filter (where share >= 0.5 and share < 1),
  count(*) filter (where share >= 1)
from promo.promotion_progress
where coalesce(starts_at < $4::timestamptz, true) and coalesce(ends_at > $3::timestamptz, true) and ${OF_OPERATOR} and $2::timestamptz[] is not null
group by 1, 2`,
};

export const COMPLETION_COUNTS: ReportQuery = {
  name: 'completions',
  text: `select width_bucket(changed_at, $2::timestamptz[]), operator_id, promotion_id, count(*) filter (where change = 'completed'),
  count(*) filter (where change = 'completed' and holds), count(*) filter (where change = 'revoked')
from promo.completions where ${between('changed_at')}
group by 1, 2, 3`,
};

/** Reads the events of the range once for each promotion. */
export const MISS_COUNTS: ReportQuery = {
  name: 'misses',
  text: `select operator_id, promotion_id, m.reason, count(*)
from promo.promotions cross join lateral promo.promotion_misses(operator_id, promotion_id, $3::timestamptz, $4::timestamptz) m
where ${OF_OPERATOR} and $2::timestamptz[] is not null
group by 1, 2, 3`,
};

export const REGISTERED: ReportQuery = {
  name: 'connections',
  text: `select operator_id, connection_id, transport, topic from promo.connections where not is_test and ${OF_OPERATOR} order by 1, 2`,
};

/** The time of the store, and the state of the rollups. */
export const COVERAGE: ReportQuery = {
  name: 'coverage',
  text: `select (extract(epoch from statement_timestamp()) * 1000)::bigint, c.generation, (extract(epoch from c.complete_since) * 1000)::bigint,
  (extract(epoch from c.caught_up_at) * 1000)::bigint, coalesce(c.is_running, false), c.rebuilt_because is not null
from (select 1) as one left join promo.rollup_coverage c on true`,
};
