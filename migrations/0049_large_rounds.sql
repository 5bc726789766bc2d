-- Sums of the progress that the entries of large rounds make. A refund takes the sums back, and does not read
-- the entries again: a round may have a million of them.
--
-- Locks: adds two columns to promo_store.promotion_rounds, replaces two functions, and creates the rest.
-- Waits for a slice of promotions. Time: instant. Safe while older workers run: an older process of
-- promotions keeps no sums, and reads all entries of a round.

alter table promo_store.promotion_rounds
  add column entries_before int not null default 0,
  add column is_summed boolean not null default false;
comment on column promo_store.promotion_rounds.entries_before is 'How many entries the rows of the round before this one have.';
comment on column promo_store.promotion_rounds.is_summed is 'The entries are in promotion_round_sums, too: the round was large by then. A later refund takes the sums back.';

create table promo_store.promotion_round_sums (
  generation int not null,
  round_no bigint not null,
  month date not null,
  window_no int not null,
  player_ref text collate "C" not null,
  brand_id text collate "C" not null,
  item text collate "C" not null,
  currency text collate "C" not null,
  amount numeric not null,
  primary key (generation, round_no, month, window_no, player_ref, brand_id, item, currency)
);
comment on table promo_store.promotion_round_sums is 'The progress that summed entries of large rounds make (promotion_rounds.is_summed), by the player whom the events name. A refund applies attributions.';
comment on column promo_store.promotion_round_sums.generation is 'Generation of the fold.';
comment on column promo_store.promotion_round_sums.round_no is 'The round.';
comment on column promo_store.promotion_round_sums.month is 'The month of decided_at. The row is deleted once history has dropped the month.';
comment on column promo_store.promotion_round_sums.window_no is 'The window.';
comment on column promo_store.promotion_round_sums.player_ref is 'The player of the entries.';
comment on column promo_store.promotion_round_sums.brand_id is 'The brand of the entries; empty: none. An attribution may be of one brand.';
comment on column promo_store.promotion_round_sums.item is 'The row of progress, as in promotion_progress.items.';
comment on column promo_store.promotion_round_sums.currency is 'The currency of the row; empty where the row counts events.';
comment on column promo_store.promotion_round_sums.amount is 'The sum: minor units, or a number of events.';
-- An erasure finds the player by it.
create index promotion_round_sums_player on promo_store.promotion_round_sums (player_ref);

do $$
declare
  source constant text := pg_get_functiondef('promo_store.forget_progress(text, text, text)'::regprocedure);
  place constant text := '  with gone as (
    delete from promo_store.promotion_attempts a
';
begin
  if position(place in source) = 0 then
    raise exception 'promo_store.forget_progress is not the function of 0047_joined_progress';
  end if;
  execute replace(source, place, '  -- A slice between two calls may have begun sums of the player again.
  -- An older process leaves the sums of a generation that it sweeps, so any generation may have some.
  with gone as (
    delete from promo_store.promotion_round_sums s
    where s.player_ref = player and s.window_no = any(windows) returning s.*
  )
  insert into promo_store.promotion_round_sums as s (generation, round_no, month, window_no, player_ref, brand_id, item, currency, amount)
  select g.generation, g.round_no, g.month, g.window_no, replacement, g.brand_id, g.item, g.currency, g.amount from gone g
  on conflict on constraint promotion_round_sums_pkey do update set amount = s.amount + excluded.amount;

' || place);
end
$$;

do $$
declare
  source constant text := pg_get_functiondef('promo_store.find_promotion_damages()'::regprocedure);
  place constant text := '    union all
    select h.window_no, unnest(array_remove(array[
      case when not bool_or(w.is_closed)';
begin
  if position(place in source) = 0 then
    raise exception 'promo_store.find_promotion_damages is not the function of 0041_promotion_invariants';
  end if;
  execute replace(source, place, '    union all
    select s.window_no, ''is of a window that does not exist'', format(''the sum of the round number %s in the window number %s '', s.round_no, s.window_no)
    from promo_store.promotion_round_sums s join shown g on g.generation = s.generation
    where not exists (select from windows w where w.window_no = s.window_no)
' || place);
end
$$;
