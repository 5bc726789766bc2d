/** The verdicts by hour. */
import { joinOperators } from './parts';

/** The columns of the time to decide, each with its bound. A day of a time zone may have 23 hours. */
const BOUNDS = [
  ['within_100ms', '100 ms'],
  ['within_1s', '1 s'],
  ['within_10s', '10 s'],
  ['within_1m', '1 min'],
  ['within_10m', '10 min'],
  ['within_1h', '1 h'],
  ['within_1d', '24 h'],
] as const;
/** Events that are early are in the bucket 0, and those of the first bound in the bucket 1. */
export const BUCKET = `case when h.occurred_at is null then null when h.occurred_at > h.decided_at then 0${BOUNDS.map(
  ([, bound], index) => ` when h.occurred_at >= h.decided_at - interval '${bound}' then ${index + 1}`,
).join('')} else ${BOUNDS.length + 1} end`;
const TIMES_OF_BUCKETS: readonly (readonly [column: string, condition: string])[] = [
  ['timed', 'bucket >= 0'],
  ['early', 'bucket = 0'],
  ...BOUNDS.map(([column], index) => [column, `bucket <= ${index + 1}`] as const),
];
const TIMES = TIMES_OF_BUCKETS.map(([column]) => column).join(', ');
const SUM_TIMES = TIMES_OF_BUCKETS.map(
  ([, condition]) => `coalesce(sum(verdicts) filter (where ${condition}), 0)`,
).join(', ');
const ADD_TIMES = TIMES_OF_BUCKETS.map(([column]) => `${column} = r.${column} + excluded.${column}`).join(
  ', ',
);

/** Counts the slice `read` by hour and time to decide. */
export const COUNT_CELLS = `select hour, operator_no, brand_no, connection_no, kind, outcome, currency_no, bucket, verdicts, amount_minor, newest_at
  from (select date_bin('1 hour', decided_at, '2000-01-01 00:00:00+00') as hour, feed_no, brand_no, connection_no, kind, outcome, currency_no, bucket,
      count(*) as verdicts, coalesce(sum(amount_minor), 0) as amount_minor, max(decided_at) as newest_at
    from read group by 1, 2, 3, 4, 5, 6, 7, 8) s
  ${joinOperators('s')}`;
export const CELL_COLUMNS = {
  hour: 'timestamptz',
  operator_no: 'int',
  brand_no: 'int',
  connection_no: 'int',
  kind: 'smallint',
  outcome: 'smallint',
  currency_no: 'smallint',
  bucket: 'int',
  verdicts: 'bigint',
  amount_minor: 'numeric',
  newest_at: 'timestamptz',
};
/** Adds `cells` to the hours. */
export const ADD_HOURS = `insert into promo_store.rollup_verdicts as r (generation, hour, operator_no, brand_no, connection_no, kind, outcome, currency_no, verdicts, amount_minor, ${TIMES})
  select $1::int, hour, operator_no, brand_no, connection_no, kind, outcome, currency_no, sum(verdicts), sum(amount_minor), ${SUM_TIMES}
  from cells group by 2, 3, 4, 5, 6, 7, 8
  on conflict on constraint rollup_verdicts_pkey do update set verdicts = r.verdicts + excluded.verdicts, amount_minor = r.amount_minor + excluded.amount_minor, ${ADD_TIMES}`;
/** The number of the verdicts, and the time of the newest one. */
export const SUM_CELLS = `(select coalesce(sum(verdicts), 0) from cells), (select max(newest_at) from cells)`;
