/** The ledger by day and player, and the players of each day. */
import { DATE, DAY, joinOperators } from './parts';

/** Players are counted by bets, deposits, withdrawals and logins. Other kinds follow from a bet. */
export const KINDS_OF_PLAYERS = '1, 5, 6, 7';

const sumPlayers = (
  entries: string,
): string => `select day_at, operator_no, brand_no, kind, currency_no, player_ref, sum(entries)::int as entries, sum(amount_minor) as amount_minor
  from (${entries}) as entries group by 1, 2, 3, 4, 5, 6`;
/** The days of players by brand and kind. Where a day has one currency, each of its players has one sum. */
const FIND_DAYS = `select ${DATE} as day, s.* from (select day_at, operator_no, brand_no, kind, min(currency_no) = max(currency_no) as has_one_currency,
      count(*) filter (where entries > 0) as sums
    from summed group by 1, 2, 3, 4) s`;
/** The highest number of a day. Nobody else gives numbers while a slice runs. */
export const HIGHEST_DAY_NO =
  '(select coalesce(max(player_day_no), 0) from promo_store.rollup_player_counts)';
/** These days with their numbers. A new day gets the next number, and none of its players has a row. */
const NUMBER_DAYS = `select d.*, c.player_day_no is null as is_new,
    coalesce(c.player_day_no, ${HIGHEST_DAY_NO} + row_number() over (order by d.day, d.operator_no, d.kind, d.brand_no))::int as player_day_no
  from (${FIND_DAYS}) d
  left join lateral (select player_day_no from promo_store.rollup_player_counts c
    where c.generation = $1::int and c.operator_no = d.operator_no and c.kind = d.kind and c.day = d.day and c.brand_no = d.brand_no offset 0) c on true`;
const FIND_PLAYED = `select d.player_day_no, d.is_new, d.has_one_currency, s.currency_no, s.player_ref, s.entries, s.amount_minor
  from summed s join player_days d using (day_at, operator_no, brand_no, kind)`;
/**
 * In the order of the key: each player of a new day is inserted at the right end of the index. One number
 * sorts rows faster than two.
 */
const insertPlayers = (condition: string): string =>
  `insert into promo_store.rollup_players as r (player_day_no, player_hash, entries, currency_no, amount_minor, player_ref)
  select player_day_no, hashtext(player_ref), entries, currency_no, amount_minor, player_ref from played where ${condition}
  order by player_day_no * ${2 ** 32} + hashtext(player_ref)`;
const CHANGE_PLAYER_SUMS = `${insertPlayers('not is_new')}
  on conflict on constraint rollup_players_pkey do update set entries = r.entries + excluded.entries, amount_minor = r.amount_minor + excluded.amount_minor
  returning player_day_no, currency_no, player_ref, entries`;
/**
 * How many more players count. On days with rows, a player is looked up where one currency got its first
 * entries, or lost the last: another may have some. The lookup sees the table of before, where all other
 * currencies have entries if they have some now.
 */
const FIND_TURNED = `select player_day_no, sums as change from player_days where is_new and has_one_currency
  union all
  select player_day_no, count(*)
  from (select player_day_no from played where is_new and not has_one_currency group by player_day_no, player_ref having bool_or(entries > 0)) n
  group by 1
  union all
  select t.player_day_no, case when t.counts then 1 else -1 end
  from (select player_day_no, player_ref, bool_or(n.entries > 0) as counts, array_agg(currency_no) as currencies
    from player_sums n join (select * from played where not is_new) s using (player_day_no, player_ref, currency_no)
    where (n.entries > 0) <> (n.entries > s.entries)
    group by 1, 2 having bool_or(n.entries > 0) <> bool_or(n.entries > s.entries)) t
  cross join lateral (select coalesce(bool_or(p.entries > 0), false) as counts
    from promo_store.rollup_players p where p.player_day_no = t.player_day_no and p.player_hash = hashtext(t.player_ref)
      and p.player_ref = t.player_ref and p.currency_no <> all(t.currencies)) other
  where not other.counts`;
/** A day with rows of players has a count, which may be 0: its number leads to the rows. */
const ADD_PLAYER_COUNTS = `insert into promo_store.rollup_player_counts as r (generation, day, operator_no, brand_no, kind, player_day_no, players)
  select $1::int, day, operator_no, brand_no, kind, player_day_no, coalesce(sum(t.change), 0)
  from player_days left join turned t using (player_day_no) group by 2, 3, 4, 5, 6
  on conflict on constraint rollup_player_counts_pkey do update set players = r.players + excluded.players`;
/**
 * Adds entries to the sums of players, and counts players. A player counts on a day while there are entries
 * of any currency. To join players with their days several times takes less time than to keep them.
 */
export const addPlayers = (entries: string): string => `summed as materialized (${sumPlayers(entries)}),
player_days as materialized (${NUMBER_DAYS}), played as not materialized (${FIND_PLAYED}),
new_player_sums as (${insertPlayers('is_new')}), player_sums as (${CHANGE_PLAYER_SUMS}),
turned as (${FIND_TURNED}), player_counts as (${ADD_PLAYER_COUNTS})`;
/** The entries in `reversed` count no more for their players. */
export const REVERSED_OF_PLAYERS = `select ${DAY} as day_at, operator_no, brand_no, kind, currency_no, player_ref, -1 as entries, -amount_minor as amount_minor
  from reversed where kind in (${KINDS_OF_PLAYERS}) and player_ref is not null`;
/** The entries of the slice `read`. */
export const PLAYED = `select day_at, operator_no, brand_no, kind, currency_no, player_ref, 1 as entries, coalesce(amount_minor, 0) as amount_minor
  from read s ${joinOperators('s')} where player_ref is not null`;
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
