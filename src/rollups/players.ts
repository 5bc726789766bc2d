/** The ledger by day and player, and the players of each day. */
import { DATE, DAY } from './day';

/** Players are counted by bets, deposits, withdrawals and logins. Other kinds follow from a bet. */
export const KINDS_OF_PLAYERS = '1, 5, 6, 7';

const sumPlayers = (
  entries: string,
): string => `select day_at, operator_no, brand_no, kind, currency_no, player_ref, sum(entries)::int as entries, sum(amount_minor) as amount_minor
  from (${entries}) as entries group by 1, 2, 3, 4, 5, 6`;
/**
 * The days of players by brand and kind, with their place in the order of the key. Where a day is new, none
 * of its players has a row. Where it has one currency, each of its players has one sum.
 */
const FIND_PLAYER_DAYS = `select d.*, row_number() over (order by operator_no, kind, day, brand_no)::int as place, (select true from promo_store.rollup_players p
    where p.generation = $1::int and p.operator_no = d.operator_no and p.kind = d.kind and p.day = d.day and p.brand_no = d.brand_no limit 1) is null as is_new
  from (select ${DATE} as day, s.* from (select day_at, operator_no, brand_no, kind, min(currency_no) = max(currency_no) as has_one_currency,
      count(*) filter (where entries > 0) as sums
    from summed group by 1, 2, 3, 4) s) d`;
const FIND_PLAYED =
  'select s.*, d.day, d.place, d.is_new, d.has_one_currency from summed s join player_days d using (day_at, operator_no, brand_no, kind)';
/** Day after day: few pages are written at a time. A sort by players, too, takes longer than it spares. */
const insertPlayers = (condition: string): string =>
  `insert into promo_store.rollup_players as r (generation, day, operator_no, brand_no, kind, currency_no, entries, amount_minor, player_ref)
  select $1::int, day, operator_no, brand_no, kind, currency_no, entries, amount_minor, player_ref from played where ${condition}
  order by place`;
const CHANGE_PLAYER_SUMS = `${insertPlayers('not is_new')}
  on conflict on constraint rollup_players_pkey do update set entries = r.entries + excluded.entries, amount_minor = r.amount_minor + excluded.amount_minor
  returning day, operator_no, brand_no, kind, currency_no, player_ref, entries`;
/**
 * How many more players count. On days with rows, a player is looked up where one currency got its first
 * entries, or lost the last: another may have some. The lookup sees the table of before.
 */
const FIND_TURNED = `select day, operator_no, brand_no, kind, sums as change from player_days where is_new and has_one_currency
  union all
  select day, operator_no, brand_no, kind, count(*)
  from (select day, operator_no, brand_no, kind from played where is_new and not has_one_currency group by 1, 2, 3, 4, player_ref having bool_or(entries > 0)) n
  group by 1, 2, 3, 4
  union all
  select t.day, t.operator_no, t.brand_no, t.kind, case when t.counts then 1 else -1 end
  from (select day, operator_no, brand_no, kind, player_ref, bool_or(n.entries > 0) as counts, array_agg(currency_no) as currencies
    from player_sums n join (select * from played where not is_new) s using (day, operator_no, brand_no, kind, player_ref, currency_no)
    group by 1, 2, 3, 4, 5 having bool_or(n.entries > 0) <> bool_or(n.entries > s.entries)) t
  cross join lateral (select coalesce(bool_or(p.entries > 0), false) as counts
    from promo_store.rollup_players p where p.generation = $1::int and p.operator_no = t.operator_no and p.kind = t.kind
      and p.day = t.day and p.brand_no = t.brand_no and p.player_ref = t.player_ref and p.currency_no <> all(t.currencies)) other
  where not other.counts`;
/** A day with rows of players has a count, which may be 0: erasure and retention find rows by it. */
const ADD_PLAYER_COUNTS = `insert into promo_store.rollup_player_counts as r (generation, day, operator_no, brand_no, kind, players)
  select $1::int, day, operator_no, brand_no, kind, coalesce(sum(t.change), 0)
  from player_days left join turned t using (day, operator_no, brand_no, kind) group by 2, 3, 4, 5
  on conflict on constraint rollup_player_counts_pkey do update set players = r.players + excluded.players`;
/**
 * Adds entries to the sums of players, and counts players. A player counts on a day while there are entries
 * of any currency.
 */
export const addPlayers = (entries: string): string => `summed as materialized (${sumPlayers(entries)}),
player_days as materialized (${FIND_PLAYER_DAYS}), played as materialized (${FIND_PLAYED}),
new_player_sums as (${insertPlayers('is_new')}), player_sums as (${CHANGE_PLAYER_SUMS}),
turned as (${FIND_TURNED}), player_counts as (${ADD_PLAYER_COUNTS})`;
/** The entries in `reversed` count no more for their players. */
export const REVERSED_OF_PLAYERS = `select ${DAY} as day_at, operator_no, brand_no, kind, currency_no, player_ref, -1 as entries, -amount_minor as amount_minor
  from reversed where kind in (${KINDS_OF_PLAYERS}) and player_ref is not null`;
/** The entries of the slice `read`. */
export const PLAYED = `select day_at, operator_no, brand_no, kind, currency_no, player_ref, 1 as entries, coalesce(amount_minor, 0) as amount_minor
  from read where player_ref is not null`;
export const PLAYED_COLUMNS = {
  day_at: 'timestamptz',
  operator_no: 'int',
  brand_no: 'int',
  kind: 'smallint',
  currency_no: 'smallint',
  player_ref: 'text',
  entries: 'int',
  amount_minor: 'bigint',
};
