-- Players counted by day, and the ledger of each day by player: kept by the fold of the rollups.
--
-- Locks: replaces promo.erase_player, and creates the rest. Waits for nothing. Time: instant. Safe while
-- older workers run: they need nothing of this. End promo-intake rollups before, and start the new one after.

-- ---------------------------------------------------------------- results

create table promo_store.rollup_players (
  generation int not null,
  day date not null,
  operator_no int not null,
  brand_no int not null,
  kind smallint not null,
  currency_no smallint not null,
  entries int not null,
  amount_minor numeric not null,
  player_ref text collate "C" not null,
  -- The player comes before the currency: a player with two of them is counted once.
  primary key (generation, operator_no, kind, day, brand_no, player_ref, currency_no)
) with (fillfactor = 70);
comment on table promo_store.rollup_players is 'The ledger by day and player, as long as history has the day: see promo.player_ledger_daily.';
comment on column promo_store.rollup_players.generation is 'Generation of the fold.';
comment on column promo_store.rollup_players.day is 'Day in UTC.';
comment on column promo_store.rollup_players.operator_no is 'The operator.';
comment on column promo_store.rollup_players.brand_no is 'The brand; 0: none.';
comment on column promo_store.rollup_players.kind is 'Kind of the entries.';
comment on column promo_store.rollup_players.currency_no is 'The currency; 0: none.';
comment on column promo_store.rollup_players.entries is 'Entries of the day that still count. Negative for a moment, while an erasure of several calls has changed one name of two.';
comment on column promo_store.rollup_players.amount_minor is 'Sum of their amounts.';
comment on column promo_store.rollup_players.player_ref is 'The player, as in history.';

create table promo_store.rollup_player_counts (
  generation int not null,
  day date not null,
  operator_no int not null,
  brand_no int not null,
  kind smallint not null,
  players bigint not null,
  primary key (generation, operator_no, kind, day, brand_no)
) with (fillfactor = 50);
comment on table promo_store.rollup_player_counts is 'Players by day: see promo.players_daily. It has no player, and stays when history drops the day.';
comment on column promo_store.rollup_player_counts.generation is 'Generation of the fold.';
comment on column promo_store.rollup_player_counts.day is 'Day in UTC.';
comment on column promo_store.rollup_player_counts.operator_no is 'The operator.';
comment on column promo_store.rollup_player_counts.brand_no is 'The brand; 0: none.';
comment on column promo_store.rollup_player_counts.kind is 'Kind of the entries.';
comment on column promo_store.rollup_player_counts.players is 'Different players with entries that still count.';

-- Rollups that are shown have no players yet: count again beside them.
update promo_store.fold_generations set state = 'retired' where fold = 'rollups' and state = 'filling';
insert into promo_store.fold_generations (fold, generation, state, after, lineage, complete_since, reason)
select g.fold, max(g.generation) + 1, 'filling', -1, promo.lineage(), promo_store.complete_history_since(), 'players are counted'
from promo_store.fold_generations g where g.fold = 'rollups' group by g.fold;

-- ---------------------------------------------------------------- what people read

create view promo.players_daily as
select r.day, o.operator_id, b.brand_id as brand, promo_store.kind_name(r.kind) as kind, r.players
from promo_store.rollup_player_counts r
join promo_store.operators o using (operator_no)
left join promo_store.brands b on b.brand_no = r.brand_no
where r.generation = (select f.generation from promo_store.folds f where f.fold = 'rollups') and r.players > 0;
comment on view promo.players_daily is 'The different players of each day, counted. A player whose entries of the day are all refunded is not in it. Kept when months of history are dropped, and when players are erased. See promo.rollup_coverage for since when and up to where.';
comment on column promo.players_daily.day is 'Day in UTC on which the entries were decided.';
comment on column promo.players_daily.operator_id is 'Operator of the players.';
comment on column promo.players_daily.brand is 'Brand of the entries; null where there is none. A player of two brands is counted in each.';
comment on column promo.players_daily.kind is 'Kind of the entries: bet, deposit, withdrawal or login. Wins and settled events belong to bets.';
comment on column promo.players_daily.players is 'Different players with entries that still count. Days, kinds and brands do not add up: a player is in many of them.';

create view promo.player_ledger_daily as
select
  r.day,
  o.operator_id,
  b.brand_id as brand,
  k.name as kind,
  u.code as currency,
  u.scale,
  r.player_ref,
  r.entries,
  r.amount_minor,
  r.amount_minor * u.unit as amount
from promo_store.rollup_players r
join promo_store.operators o using (operator_no)
-- With a join, a condition on the kind uses the index.
join (values (1::smallint, 'bet'), (5::smallint, 'deposit'), (6::smallint, 'withdrawal'), (7::smallint, 'login')) k (kind, name) on k.kind = r.kind
left join promo_store.brands b on b.brand_no = r.brand_no
left join promo_store.currencies u on u.currency_no = r.currency_no
where r.generation = (select f.generation from promo_store.folds f where f.fold = 'rollups') and r.entries > 0;
comment on view promo.player_ledger_daily is 'The entries of each day and player that still count. A month leaves it when history drops the month. See promo.rollup_coverage for since when and up to where.';
comment on column promo.player_ledger_daily.day is 'Day in UTC on which the entries were decided.';
comment on column promo.player_ledger_daily.operator_id is 'Operator of the player.';
comment on column promo.player_ledger_daily.brand is 'Brand of the entries; null where there is none.';
comment on column promo.player_ledger_daily.kind is 'Kind of the entries: bet, deposit, withdrawal or login.';
comment on column promo.player_ledger_daily.currency is 'Currency code; null for login.';
comment on column promo.player_ledger_daily.scale is 'Decimals of the currency.';
comment on column promo.player_ledger_daily.player_ref is 'The player of the events.';
comment on column promo.player_ledger_daily.entries is 'Entries that still count: without those of refunded rounds.';
comment on column promo.player_ledger_daily.amount_minor is 'Sum of their amounts in minor units.';
comment on column promo.player_ledger_daily.amount is 'The same in major units, exact; null for login.';
select promo_store.show_to_readers('players_daily'), promo_store.show_to_readers('player_ledger_daily');

-- ---------------------------------------------------------------- erasure and retention

create function promo_store.wait_for_rollups() returns void language plpgsql
set search_path = pg_catalog, pg_temp
as $$
begin
  insert into promo_store.folds (fold, generation) values ('rollups', 0) on conflict do nothing;
  perform from promo_store.folds f where f.fold = 'rollups' for share;
end
$$;
comment on function promo_store.wait_for_rollups is 'Waits for the end of the slice of the rollups that runs, and lets no other begin before the end of this transaction.';
revoke execute on function promo_store.wait_for_rollups from public;
-- With the row, erasures at once do not wait for each other to insert it.
insert into promo_store.folds (fold, generation) values ('rollups', 0) on conflict do nothing;

create function promo_store.forget_player_sums(operator text, player text, replacement text) returns void language plpgsql
set search_path = pg_catalog, pg_temp
-- Force each day to be looked up by its key.
set enable_seqscan = off
set enable_hashjoin = off
set enable_mergejoin = off
as $$
#variable_conflict use_variable
declare
  of_operator constant int := (select o.operator_no from promo_store.operators o where o.operator_id = operator);
  first_kept constant date := (select min(t.month) from promo_store.month_tables() t where t.parent = 'history');
begin
  -- A slice may have read the player before this transaction. Wait for its end, and change what it wrote.
  -- The next slice waits for this transaction, and reads no such player any more.
  perform promo_store.wait_for_rollups();
  -- An erasure of several calls finds sums of both names, which become one player.
  with gone as (
    delete from promo_store.rollup_players p
    using promo_store.rollup_player_counts c
    where c.operator_no = of_operator and c.day >= first_kept and p.generation = c.generation and p.operator_no = c.operator_no and p.kind = c.kind
      and p.day = c.day and p.brand_no = c.brand_no and p.player_ref = player
    returning p.*
  ), joined as (
    select g.generation, g.kind, g.day, g.brand_no, sum(g.entries) as of_player, coalesce((
      select sum(p.entries) from promo_store.rollup_players p where p.generation = g.generation and p.operator_no = of_operator and p.kind = g.kind
        and p.day = g.day and p.brand_no = g.brand_no and p.player_ref = replacement), 0) as of_replacement
    from gone g group by 1, 2, 3, 4
  ), counted as (
    update promo_store.rollup_player_counts c
    set players = c.players + (j.of_player + j.of_replacement > 0)::int - (j.of_player > 0)::int - (j.of_replacement > 0)::int
    from joined j
    where c.generation = j.generation and c.operator_no = of_operator and c.kind = j.kind and c.day = j.day and c.brand_no = j.brand_no
      and j.of_replacement <> 0
  )
  insert into promo_store.rollup_players as p (generation, day, operator_no, brand_no, kind, currency_no, entries, amount_minor, player_ref)
  select g.generation, g.day, g.operator_no, g.brand_no, g.kind, g.currency_no, g.entries, g.amount_minor, replacement from gone g
  on conflict on constraint rollup_players_pkey do update set entries = p.entries + excluded.entries, amount_minor = p.amount_minor + excluded.amount_minor;
end
$$;
comment on function promo_store.forget_player_sums is 'Gives the daily sums of an erased player to its replacement: a step of each call of promo.erase_player. Counts of players stay.';
revoke execute on function promo_store.forget_player_sums from public;

do $$
declare
  source constant text := pg_get_functiondef('promo.erase_player(text, text, int, bigint)'::regprocedure);
  place constant text := '  perform promo_store.forget_progress(operator, player, replacement);
';
begin
  if position(place in source) = 0 then
    raise exception 'promo.erase_player is not the function of 0039_promotion_erasure';
  end if;
  execute replace(source, place, place || '  perform promo_store.forget_player_sums(operator, player, replacement);
');
end
$$;

create function promo.forget_dropped_player_sums(most int default 20000) returns bigint language plpgsql
security definer set search_path = pg_catalog, pg_temp
-- Force each day to be looked up by its key.
set enable_hashjoin = off
set enable_mergejoin = off
set lock_timeout = '5s'
as $$
declare
  forgotten bigint;
begin
  if coalesce(most, 0) < 1 then
    raise exception 'name how many rows to delete at most' using errcode = 'invalid_parameter_value';
  end if;
  delete from promo_store.rollup_players p where p.ctid = any(array(
    select d.place
    from promo_store.rollup_player_counts c
    cross join lateral (
      select r.ctid as place from promo_store.rollup_players r
      where r.generation = c.generation and r.operator_no = c.operator_no and r.kind = c.kind and r.day = c.day and r.brand_no = c.brand_no
      limit most
    ) d
    where date_trunc('month', c.day::timestamp)::date not in (select t.month from promo_store.month_tables() t where t.parent = 'history')
    limit most
  ));
  get diagnostics forgotten = row_count;
  return forgotten;
end
$$;
comment on function promo.forget_dropped_player_sums is 'Deletes the daily sums of players of months that history has dropped, at most the given number of rows. Call it again until it is 0. Counts of players stay.';
revoke execute on function promo.forget_dropped_player_sums from public;
