-- The sums of players get a short key: the number of the day, brand and kind, then a hash of the player. A
-- slice inserts the players of a new day in its order, at the right end of the index.
--
-- Locks: copies rollup_players, and replaces a view and functions. Waits for a slice of the rollups and for
-- readers of the sums of players. Then readers and erasures wait for the copy. Time: one copy of the sums of
-- players. Safe while older workers run: they need nothing of this. End promo-intake rollups before, and
-- start the new one after the grants.

-- Wait here, while there is nothing to lose. A slice locks in this order, too.
lock table promo_store.rollup_players, promo_store.rollup_player_counts in access exclusive mode;

-- ---------------------------------------------------------------- numbers

alter table promo_store.rollup_player_counts add column player_day_no int;
update promo_store.rollup_player_counts c set player_day_no = n.place
from (
  select generation, operator_no, kind, day, brand_no, row_number() over (order by generation, day, operator_no, kind, brand_no) as place
  from promo_store.rollup_player_counts
) n
where n.generation = c.generation and n.operator_no = c.operator_no and n.kind = c.kind and n.day = c.day and n.brand_no = c.brand_no;
alter table promo_store.rollup_player_counts
  alter column player_day_no set not null,
  add constraint rollup_player_counts_no unique (player_day_no);
comment on column promo_store.rollup_player_counts.player_day_no is 'Number of the generation, day, operator, brand and kind.';

-- ---------------------------------------------------------------- sums

alter table promo_store.rollup_players rename to rollup_players_by_name;
alter table promo_store.rollup_players_by_name rename constraint rollup_players_pkey to rollup_players_by_name_pkey;
create table promo_store.rollup_players (
  player_day_no int not null,
  player_hash int not null,
  entries int not null,
  currency_no smallint not null,
  amount_minor numeric not null,
  player_ref text collate "C" not null
) with (fillfactor = 70);
comment on table promo_store.rollup_players is 'The ledger by day and player, as long as history has the day: see promo.player_ledger_daily.';
comment on column promo_store.rollup_players.player_day_no is 'Day, operator, brand and kind of the entries: see promo_store.rollup_player_counts.';
comment on column promo_store.rollup_players.player_hash is 'Hash of the player, which makes look-ups cheap. Players with equal hashes have rows of their own.';
comment on column promo_store.rollup_players.entries is 'Entries of the day that still count. Negative for a moment, while an erasure of several calls has changed one name of two.';
comment on column promo_store.rollup_players.currency_no is 'The currency; 0: none.';
comment on column promo_store.rollup_players.amount_minor is 'Sum of their amounts.';
comment on column promo_store.rollup_players.player_ref is 'The player, as in history.';
insert into promo_store.rollup_players (player_day_no, player_hash, entries, currency_no, amount_minor, player_ref)
select c.player_day_no, hashtext(p.player_ref), p.entries, p.currency_no, p.amount_minor, p.player_ref
from promo_store.rollup_players_by_name p
join promo_store.rollup_player_counts c using (generation, operator_no, kind, day, brand_no);
alter table promo_store.rollup_players
  -- The player comes before the currency: a player with two of them is counted once.
  add primary key (player_day_no, player_hash, player_ref, currency_no),
  -- A row with another hash would never be found. So a dump does not load where Postgres hashes differently.
  add constraint rollup_players_hash check (player_hash = hashtext(player_ref));

create or replace view promo.player_ledger_daily as
select
  c.day,
  o.operator_id,
  b.brand_id as brand,
  k.name as kind,
  u.code as currency,
  u.scale,
  r.player_ref,
  r.entries,
  r.amount_minor,
  r.amount_minor * u.unit as amount
from promo_store.rollup_player_counts c
join promo_store.rollup_players r using (player_day_no)
join promo_store.operators o using (operator_no)
-- With a join, a condition on the kind uses the index.
join (values (1::smallint, 'bet'), (5::smallint, 'deposit'), (6::smallint, 'withdrawal'), (7::smallint, 'login')) k (kind, name) on k.kind = c.kind
left join promo_store.brands b on b.brand_no = c.brand_no
left join promo_store.currencies u on u.currency_no = r.currency_no
where c.generation = (select f.generation from promo_store.folds f where f.fold = 'rollups') and r.entries > 0;
drop table promo_store.rollup_players_by_name;

-- ---------------------------------------------------------------- erasure and retention

create or replace function promo_store.forget_player_sums(operator text, player text, replacement text) returns void language plpgsql
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
    where c.operator_no = of_operator and c.day >= first_kept and p.player_day_no = c.player_day_no
      and p.player_hash = hashtext(player) and p.player_ref = player
    returning p.*
  ), of_both as (
    select g.player_day_no, g.currency_no, g.entries as of_player, 0 as of_replacement from gone g
    union all
    select d.player_day_no, p.currency_no, 0, p.entries
    from (select distinct g.player_day_no from gone g) d
    join promo_store.rollup_players p on p.player_day_no = d.player_day_no and p.player_hash = hashtext(replacement) and p.player_ref = replacement
  ), joined as (
    select s.player_day_no,
      bool_or(s.of_player + s.of_replacement > 0)::int - bool_or(s.of_player > 0)::int - bool_or(s.of_replacement > 0)::int as change
    from (
      select b.player_day_no, sum(b.of_player) as of_player, sum(b.of_replacement) as of_replacement
      from of_both b group by b.player_day_no, b.currency_no
    ) s group by 1
  ), counted as (
    update promo_store.rollup_player_counts c
    set players = c.players + j.change
    from joined j
    where c.player_day_no = j.player_day_no and j.change <> 0
  )
  insert into promo_store.rollup_players as p (player_day_no, player_hash, entries, currency_no, amount_minor, player_ref)
  select g.player_day_no, hashtext(replacement), g.entries, g.currency_no, g.amount_minor, replacement from gone g
  on conflict on constraint rollup_players_pkey do update set entries = p.entries + excluded.entries, amount_minor = p.amount_minor + excluded.amount_minor;
end
$$;

create or replace function promo.forget_dropped_player_sums(most int default 20000) returns bigint language plpgsql
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
      select r.ctid as place from promo_store.rollup_players r where r.player_day_no = c.player_day_no limit most
    ) d
    where date_trunc('month', c.day::timestamp)::date not in (select t.month from promo_store.month_tables() t where t.parent = 'history')
    limit most
  ));
  get diagnostics forgotten = row_count;
  return forgotten;
end
$$;
