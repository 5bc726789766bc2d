/** The ledger by day. */
import { beginOfDay, DATE, DAY, joinOperators } from './parts';

/** Games of an operator on a day that have rows of their own. Each event may have a new id. */
export const MOST_GAMES = 10_000;
/** Counts all further games, and a game of this name. */
export const OTHER_GAMES = '(other games)';
/** A longer id would not fit into the index. */
const LONGEST_GAME_BYTES = 255;
const NO_GAME = `game_id in ('', '${OTHER_GAMES}')`;
export const GAME = `case when octet_length(h.game_id) > ${LONGEST_GAME_BYTES} then '${OTHER_GAMES}' else coalesce(h.game_id, '') end as game_id`;

/**
 * The reversals in `reversed`, on the day of their refund and on that of their entry. They come behind all
 * entries, which have the places of their verdicts.
 */
export const REVERSALS = `select ${beginOfDay('refunded_at')} as day_at, operator_no, brand_no, kind, currency_no, game_id, 0 as entries, 0 as entered_minor,
    1 as reversals, amount_minor as reversed_minor, 0 as refunded, 0 as refunded_minor, 9223372036854775807 as place
  from reversed
  union all
  select ${DAY}, operator_no, brand_no, kind, currency_no, game_id, 0, 0, 0, 0, 1, amount_minor, 9223372036854775807 from reversed`;

export const sumDays = (
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
export const addDays = (
  sums: string,
): string => `sums as materialized (${sums}), games as materialized (${FIND_GAMES}),
rooms as materialized (${FIND_ROOM}), named as materialized (${NAME_GAMES}), days as (${INSERT_DAYS})`;

/** Counts the entries of the slice `read`. */
export const COUNT_ENTRIES = `select day_at, operator_no, brand_no, kind, currency_no, game_id, entries, entered_minor,
    0 as reversals, 0 as reversed_minor, 0 as refunded, 0 as refunded_minor, place
  from (select day_at, feed_no, brand_no, kind, currency_no, game_id, count(*) as entries, coalesce(sum(amount_minor), 0) as entered_minor, min(verdict_id) as place
    from read where counted group by 1, 2, 3, 4, 5, 6) s
  ${joinOperators('s')}`;
export const DAY_COLUMNS = {
  day: 'date',
  operator_no: 'int',
  brand_no: 'int',
  kind: 'smallint',
  currency_no: 'smallint',
  game_id: 'text',
  entries: 'numeric',
  entered_minor: 'numeric',
  reversals: 'numeric',
  reversed_minor: 'numeric',
  refunded: 'numeric',
  refunded_minor: 'numeric',
  place: 'bigint',
};
