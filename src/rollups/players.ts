/** The ledger by day and player, and the players of each day. */
import { DATE, DAY } from './day';

/** Players are counted by bets, deposits, withdrawals and logins. Other kinds follow from a bet. */
export const KINDS_OF_PLAYERS = '1, 5, 6, 7';

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
export const addPlayers = (entries: string): string => `summed as materialized (${sumPlayers(entries)}),
player_days as materialized (${FIND_PLAYER_DAYS}), played as materialized (${FIND_PLAYERS}),
new_player_sums as (${insertPlayers('not has_row')}), player_sums as (${CHANGE_PLAYER_SUMS}), player_counts as (${ADD_PLAYER_COUNTS})`;
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
