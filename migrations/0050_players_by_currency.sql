-- A player of a day counts while there are entries of any currency. Slices of the rollups then look up the
-- other currencies of new players alone. An erasure counts in the same way.
--
-- Locks: replaces a function, and waits for nothing. Time: instant. Safe while older workers run: they need
-- nothing of this. Counts differ only where a player with several currencies is being erased at that moment.

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
    where c.operator_no = of_operator and c.day >= first_kept and p.generation = c.generation and p.operator_no = c.operator_no and p.kind = c.kind
      and p.day = c.day and p.brand_no = c.brand_no and p.player_ref = player
    returning p.*
  ), of_both as (
    select g.generation, g.kind, g.day, g.brand_no, g.currency_no, g.entries as of_player, 0 as of_replacement from gone g
    union all
    select d.generation, d.kind, d.day, d.brand_no, p.currency_no, 0, p.entries
    from (select distinct g.generation, g.kind, g.day, g.brand_no from gone g) d
    join promo_store.rollup_players p on p.generation = d.generation and p.operator_no = of_operator and p.kind = d.kind
      and p.day = d.day and p.brand_no = d.brand_no and p.player_ref = replacement
  ), joined as (
    select s.generation, s.kind, s.day, s.brand_no,
      bool_or(s.of_player + s.of_replacement > 0)::int - bool_or(s.of_player > 0)::int - bool_or(s.of_replacement > 0)::int as change
    from (
      select b.generation, b.kind, b.day, b.brand_no, sum(b.of_player) as of_player, sum(b.of_replacement) as of_replacement
      from of_both b group by b.generation, b.kind, b.day, b.brand_no, b.currency_no
    ) s group by 1, 2, 3, 4
  ), counted as (
    update promo_store.rollup_player_counts c
    set players = c.players + j.change
    from joined j
    where c.generation = j.generation and c.operator_no = of_operator and c.kind = j.kind and c.day = j.day and c.brand_no = j.brand_no
      and j.change <> 0
  )
  insert into promo_store.rollup_players as p (generation, day, operator_no, brand_no, kind, currency_no, entries, amount_minor, player_ref)
  select g.generation, g.day, g.operator_no, g.brand_no, g.kind, g.currency_no, g.entries, g.amount_minor, replacement from gone g
  on conflict on constraint rollup_players_pkey do update set entries = p.entries + excluded.entries, amount_minor = p.amount_minor + excluded.amount_minor;
end
$$;
