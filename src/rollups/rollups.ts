/** The rollups as results of a fold: verdicts by hour, the ledger by day, and that of players by day. */
import type { Results } from '../fold/fold';
import { BATCH_NUMBERS } from '../fold/statements';
import type { Statement } from '../postgres/transaction';

/** Games of an operator on a day that have rows of their own. Each event may have a new id. */
export const MOST_GAMES = 10_000;
/** Counts all further games, and a game of this name. */
export const OTHER_GAMES = '(other games)';
/** A longer id would not fit into the index. */
const LONGEST_GAME_BYTES = 255;
const NO_GAME = `game_id in ('', '${OTHER_GAMES}')`;
const GAME = `case when octet_length(h.game_id) > ${LONGEST_GAME_BYTES} then '${OTHER_GAMES}' else coalesce(h.game_id, '') end as game_id`;

/** The begin of the day in UTC. Groups of rows turn it into a date: for each row that is slow. */
const dayOf = (time: string): string => `date_bin('1 day', ${time}, '2000-01-01 00:00:00+00')`;
const DAY = dayOf('decided_at');
const DATE = `(day_at at time zone 'utc')::date`;

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
const BUCKET = `case when h.occurred_at is null then null when h.occurred_at > h.decided_at then 0${BOUNDS.map(
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

/**
 * The reversals in `reversed`, on the day of their refund and on that of their entry. They come behind all
 * entries, which have the places of their verdicts.
 */
const REVERSALS = `select ${dayOf('refunded_at')} as day_at, operator_no, brand_no, kind, currency_no, game_id, 0 as entries, 0 as entered_minor,
    1 as reversals, amount_minor as reversed_minor, 0 as refunded, 0 as refunded_minor, 9223372036854775807 as place
  from reversed
  union all
  select ${DAY}, operator_no, brand_no, kind, currency_no, game_id, 0, 0, 0, 0, 1, amount_minor, 9223372036854775807 from reversed`;

const sumDays = (
  entries: string,
): string => `select ${DATE} as day, operator_no, brand_no, kind, currency_no, game_id, sum(entries) as entries, sum(entered_minor) as entered_minor,
    sum(reversals) as reversals, sum(reversed_minor) as reversed_minor, sum(refunded) as refunded, sum(refunded_minor) as refunded_minor, min(place) as place
  from (${entries}) as entries group by day_at, 2, 3, 4, 5, 6`;
/** The games of each day, and whether they have rows. */
const FIND_GAMES = `select g.*, (select true from promo_store.rollup_ledger r
    where r.generation = $1::int and r.day = g.day and r.operator_no = g.operator_no and r.game_id = g.game_id limit 1) as has_rows
  from (select day, operator_no, game_id, min(place) as place from sums where not ${NO_GAME} group by 1, 2, 3) g`;
/** How many new games get rows. A game never loses its rows, so entries and their reversals meet in one. */
const FIND_ROOM = `select d.*, ${MOST_GAMES} - (select count(distinct r.game_id) from promo_store.rollup_ledger r
    where r.generation = $1::int and r.day = d.day and r.operator_no = d.operator_no and not r.${NO_GAME}) as room
  from (select distinct day, operator_no from games where has_rows is null) d`;
const NAME_GAMES = `select day, operator_no, game_id from games where has_rows
  union all
  select n.day, n.operator_no, n.game_id
  from (select g.*, row_number() over (partition by g.day, g.operator_no order by g.place, g.game_id) as rank from games g where g.has_rows is null) n
  join rooms m on m.day = n.day and m.operator_no = n.operator_no
  where n.rank <= m.room`;
const INSERT_DAYS = `insert into promo_store.rollup_ledger as r (generation, day, operator_no, brand_no, kind, currency_no, game_id,
    entries, entered_minor, reversals, reversed_minor, refunded, refunded_minor)
  select $1::int, s.day, s.operator_no, s.brand_no, s.kind, s.currency_no, case when s.${NO_GAME} then s.game_id else coalesce(n.game_id, '${OTHER_GAMES}') end as game,
    sum(s.entries), sum(s.entered_minor), sum(s.reversals), sum(s.reversed_minor), sum(s.refunded), sum(s.refunded_minor)
  from sums s left join named n on n.day = s.day and n.operator_no = s.operator_no and n.game_id = s.game_id
  group by s.day, s.operator_no, s.brand_no, s.kind, s.currency_no, game
  on conflict on constraint rollup_ledger_pkey do update set entries = r.entries + excluded.entries, entered_minor = r.entered_minor + excluded.entered_minor,
    reversals = r.reversals + excluded.reversals, reversed_minor = r.reversed_minor + excluded.reversed_minor,
    refunded = r.refunded + excluded.refunded, refunded_minor = r.refunded_minor + excluded.refunded_minor`;
const addDays = (
  entries: string,
): string => `sums as materialized (${sumDays(entries)}), games as materialized (${FIND_GAMES}),
rooms as materialized (${FIND_ROOM}), named as materialized (${NAME_GAMES}), days as (${INSERT_DAYS})`;

/** Players are counted by bets, deposits, withdrawals and logins. Other kinds follow from a bet. */
const KINDS_OF_PLAYERS = '1, 5, 6, 7';

const sumPlayers = (
  entries: string,
): string => `select day_at, operator_no, brand_no, kind, currency_no, player_ref, sum(entries)::int as entries, sum(amount_minor) as amount_minor
  from (${entries}) as entries group by 1, 2, 3, 4, 5, 6`;
/**
 * The days of players by brand and kind. Where a day is new, nothing of before is looked up for each of its
 * players.
 */
const FIND_PLAYER_DAYS = `select d.*, (select true from promo_store.rollup_players p
    where p.generation = $1::int and p.operator_no = d.operator_no and p.kind = d.kind and p.day = d.day and p.brand_no = d.brand_no limit 1) is null as is_new
  from (select ${DATE} as day, s.* from (select distinct day_at, operator_no, brand_no, kind from summed) s) d`;
/** Players with what they had before. Like each part of a statement, it sees the tables of before. */
const FIND_PLAYERS = `select s.*, d.day, 0 as before, false as has_row
  from summed s join player_days d using (day_at, operator_no, brand_no, kind) where d.is_new
  union all
  select s.*, d.day, x.before, x.has_row
  from summed s join player_days d using (day_at, operator_no, brand_no, kind)
  cross join lateral (select coalesce(sum(p.entries), 0) as before, coalesce(bool_or(p.currency_no = s.currency_no), false) as has_row
    from promo_store.rollup_players p where p.generation = $1::int and p.operator_no = s.operator_no and p.kind = s.kind
      and p.day = d.day and p.brand_no = s.brand_no and p.player_ref = s.player_ref) x
  where not d.is_new`;
const insertPlayers = (condition: string): string =>
  `insert into promo_store.rollup_players as r (generation, day, operator_no, brand_no, kind, currency_no, entries, amount_minor, player_ref)
  select $1::int, day, operator_no, brand_no, kind, currency_no, entries, amount_minor, player_ref from played where ${condition}
  order by operator_no, kind, day, brand_no, player_ref, currency_no`;
const CHANGE_PLAYER_SUMS = `${insertPlayers('has_row')}
  on conflict on constraint rollup_players_pkey do update set entries = r.entries + excluded.entries, amount_minor = r.amount_minor + excluded.amount_minor`;
const ADD_PLAYER_COUNTS = `insert into promo_store.rollup_player_counts as r (generation, day, operator_no, brand_no, kind, players)
  select $1::int, day, operator_no, brand_no, kind, sum((before + change > 0)::int - (before > 0)::int)
  from (select day, operator_no, brand_no, kind, player_ref, max(before) as before, sum(entries) as change from played group by 1, 2, 3, 4, 5) t group by 2, 3, 4, 5
  on conflict on constraint rollup_player_counts_pkey do update set players = r.players + excluded.players`;
/** Adds entries to the sums of players. Counts those who got a first entry, or lost the last one. */
const addPlayers = (entries: string): string => `summed as materialized (${sumPlayers(entries)}),
player_days as materialized (${FIND_PLAYER_DAYS}), played as materialized (${FIND_PLAYERS}),
new_player_sums as (${insertPlayers('not has_row')}), player_sums as (${CHANGE_PLAYER_SUMS}), player_counts as (${ADD_PLAYER_COUNTS})`;
/** The entries in `reversed` count no more for their players. */
const REVERSED_OF_PLAYERS = `select ${DAY} as day_at, operator_no, brand_no, kind, currency_no, player_ref, -1 as entries, -amount_minor as amount_minor
  from reversed where kind in (${KINDS_OF_PLAYERS}) and player_ref is not null`;

/**
 * Adds the verdicts of a slice, and the reversals of the rounds that opened in it or near it: behind $5, and
 * not before $4. One scan of the batches before the slice finds them all. It keeps no other row. A round has
 * the number of its first batch, so it has no event before.
 *
 * @returns the refunded rounds that opened earlier
 */
const FOLD: Statement = {
  name: 'rollups_fold',
  text: `with read as materialized (
  select h.verdict_id, h.decided_at, f.operator_no, coalesce(h.brand_no, 0) as brand_no, h.connection_no, coalesce(h.kind, 0::smallint) as kind,
    h.outcome, coalesce(h.currency_no, 0::smallint) as currency_no, h.amount_minor, h.counted, h.round_no, ${GAME}, ${DAY} as day_at,
    ${BUCKET} as bucket, case when h.counted and h.kind in (${KINDS_OF_PLAYERS}) then h.player_ref end as player_ref,
    case when h.kind = 4 and h.outcome = 0 then h.event_id end as refund
  from promo_store.history h
  join promo_store.feeds f on f.feed_no = h.feed_no and f.test_mark <> 1
  where h.verdict_id > $2::bigint and h.verdict_id <= $3::bigint and h.decided_at >= $4::timestamptz
), refunds as materialized (
  select x.round_no, coalesce(x.refunded_at, x.opened_at) as refunded_at,
    x.round_no / ${BATCH_NUMBERS} * ${BATCH_NUMBERS} > $5::bigint and x.opened_at >= $4 as is_near
  from read s
  cross join lateral (select * from promo_store.refunds x where x.round_no = s.round_no and x.refunded_by = s.refund offset 0) x
  where s.refund is not null
), reversed as materialized (
  select h.decided_at, x.refunded_at, h.operator_no, h.brand_no, h.kind, h.currency_no, coalesce(h.amount_minor, 0) as amount_minor, h.game_id, h.player_ref
  from refunds x
  join read h on h.round_no = x.round_no
  where x.is_near and h.counted
  union all
  select h.decided_at, x.refunded_at, f.operator_no, coalesce(h.brand_no, 0), h.kind, coalesce(h.currency_no, 0::smallint),
    coalesce(h.amount_minor, 0), ${GAME}, h.player_ref
  from refunds x
  join promo_store.history h on h.round_no = x.round_no
  join promo_store.feeds f on f.feed_no = h.feed_no
  where x.is_near and h.counted and h.verdict_id > $5::bigint and h.verdict_id <= $2::bigint and h.decided_at >= $4::timestamptz
), cells as materialized (
  select date_bin('1 hour', decided_at, '2000-01-01 00:00:00+00') as hour, operator_no, brand_no, connection_no, kind, outcome, currency_no, bucket,
    count(*) as verdicts, coalesce(sum(amount_minor), 0) as amount_minor, max(decided_at) as newest_at
  from read group by 1, 2, 3, 4, 5, 6, 7, 8
), hours as (
  insert into promo_store.rollup_verdicts as r (generation, hour, operator_no, brand_no, connection_no, kind, outcome, currency_no, verdicts, amount_minor, ${TIMES})
  select $1::int, hour, operator_no, brand_no, connection_no, kind, outcome, currency_no, sum(verdicts), sum(amount_minor), ${SUM_TIMES}
  from cells group by 2, 3, 4, 5, 6, 7, 8
  on conflict on constraint rollup_verdicts_pkey do update set verdicts = r.verdicts + excluded.verdicts, amount_minor = r.amount_minor + excluded.amount_minor, ${ADD_TIMES}
), ${addDays(`select day_at, operator_no, brand_no, kind, currency_no, game_id, count(*) as entries, coalesce(sum(amount_minor), 0) as entered_minor,
    0 as reversals, 0 as reversed_minor, 0 as refunded, 0 as refunded_minor, min(verdict_id) as place
  from read where counted group by 1, 2, 3, 4, 5, 6
  union all
  ${REVERSALS}`)}, ${addPlayers(`select day_at, operator_no, brand_no, kind, currency_no, player_ref, 1 as entries, coalesce(amount_minor, 0) as amount_minor
  from read where player_ref is not null
  union all
  ${REVERSED_OF_PLAYERS}`)}
select coalesce(sum(verdicts), 0), max(newest_at), (select string_agg(round_no::text, ',') from refunds where not is_near) from cells`,
};

/**
 * Adds the reversals of rounds that opened long ago. The bloom index of history finds each of them, in the
 * months from the opening to the refund: Postgres skips all others. A day on each side is for clocks that
 * were set.
 */
const REVERSE_FAR: Statement = {
  name: 'rollups_reverse_far',
  text: `with reversed as materialized (
  select h.decided_at, coalesce(x.refunded_at, x.opened_at) as refunded_at, f.operator_no, coalesce(h.brand_no, 0) as brand_no, h.kind,
    coalesce(h.currency_no, 0::smallint) as currency_no, coalesce(h.amount_minor, 0) as amount_minor, ${GAME}, h.player_ref
  from promo_store.refunds x
  cross join lateral (select * from (select decided_at, feed_no, brand_no, kind, currency_no, amount_minor, game_id, counted, player_ref
    from promo_store.history h where h.round_no = x.round_no
      and h.decided_at >= x.opened_at - interval '1 day' and h.decided_at <= coalesce(x.refunded_at, 'infinity') + interval '1 day' offset 0) h where h.counted) h
  join promo_store.feeds f on f.feed_no = h.feed_no
  where x.round_no = any(string_to_array($2, ',')::bigint[])
), ${addPlayers(REVERSED_OF_PLAYERS)}, ${addDays(REVERSALS)}
select`,
};
/** Without nested loops, one scan of a slice is joined by hash, whatever the planner expects. */
const ALLOW_LOOPS: Statement = {
  name: 'rollups_loops',
  text: `select set_config('enable_nestloop', $1, true)`,
};
/** Most refunds are of rounds that opened a moment before. */
const NEAR_BATCHES = 100;
/** Of a store with verdicts of another: numbers say nothing about time. */
const NONE_NEAR = '9223372036854775807';

/**
 * Results of the time that history no longer has wholly. Those of the older generation have more. Sums of
 * players go with history.
 */
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
  {
    name: 'rollups_clear_player_counts',
    text: `delete from promo_store.rollup_player_counts where generation = $2 and day < ($3::timestamptz at time zone 'utc')::date and $1::int is not null`,
  },
  {
    name: 'rollups_keep_player_counts',
    text: `insert into promo_store.rollup_player_counts select $2, day, operator_no, brand_no, kind, players
from promo_store.rollup_player_counts where generation = $1 and day < ($3::timestamptz at time zone 'utc')::date`,
  },
];

const SWEEP_ROWS = 20_000;
const sweepOf = (table: string): Statement => ({
  name: `rollups_sweep_${table}`,
  text: `with gone as (delete from promo_store.${table} where ctid = any(array(
  select ctid from promo_store.${table} where generation = $1 limit ${SWEEP_ROWS})) returning 1) select count(*) from gone`,
});
const SWEEPS = ['rollup_verdicts', 'rollup_ledger', 'rollup_players', 'rollup_player_counts'].map(sweepOf);

export const ROLLUP_RESULTS: Results = {
  name: 'rollups',
  async fold(session, { generation, after, upTo, since, isInOrder }) {
    const near = isInOrder ? Math.max(-1, after - NEAR_BATCHES * BATCH_NUMBERS) : NONE_NEAR;
    await session.query(ALLOW_LOOPS, ['off']);
    const [[rows, newestAt = null, far = null] = []] = await session.query(FOLD, [
      ...[generation, after, upTo, since, near],
    ]);
    if (far !== null) {
      await session.query(ALLOW_LOOPS, ['on']);
      await session.query(REVERSE_FAR, [generation, far]);
    }
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
