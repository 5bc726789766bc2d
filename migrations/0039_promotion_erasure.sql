-- Promotions in the erasure of players, and how far promotions are counted.
--
-- Locks: replaces promo.erase_player, and creates the rest. Waits for nothing. Time: instant. Safe while
-- older workers run: they need nothing of this.

create function promo_store.forget_progress(operator text, player text, replacement text) returns void language plpgsql
set search_path = pg_catalog, pg_temp
as $$
#variable_conflict use_variable
declare
  windows constant int[] := array(
    select w.window_no from promo_store.operators o
    join promo_store.promotions p using (operator_no)
    join promo_store.promotion_windows w using (promotion_no)
    where o.operator_id = operator
  );
  -- With them, the rows of a player are looked up by the primary keys.
  generations constant int[] := array(select distinct g.generation from promo_store.promotion_generations g);
begin
  -- A slice may have read the player before this transaction. Wait for its end, and change what it wrote.
  -- The next slice waits for this transaction, and reads no such player any more.
  insert into promo_store.folds (fold, generation) values ('promotions', 0) on conflict do nothing;
  perform from promo_store.folds f where f.fold = 'promotions' for share;

  -- An erasure of several calls finds progress of both names: a refund in between took back an entry of one.
  with gone as (
    delete from promo_store.promotion_progress p
    where p.generation = any(generations) and p.window_no = any(windows) and p.player_ref = player returning p.*
  )
  insert into promo_store.promotion_progress as p (generation, window_no, player_ref, items, currencies, amounts, attained, has_attempts, score, scored_no, changed_no, changed_at)
  select g.generation, g.window_no, replacement, g.items, g.currencies, g.amounts, g.attained, g.has_attempts, g.score, g.scored_no, g.changed_no, g.changed_at from gone g
  on conflict (generation, window_no, player_ref) do update set
    (items, currencies, amounts) = (
      select array_agg(s.item), array_agg(s.currency), array_agg(s.amount) from (
        select v.item, v.currency, sum(v.amount) as amount from (
          select * from unnest(p.items, p.currencies, p.amounts) union all select * from unnest(excluded.items, excluded.currencies, excluded.amounts)
        ) v (item, currency, amount) group by 1, 2 order by 1, 2
      ) s
    ),
    attained = greatest(p.attained, excluded.attained), has_attempts = p.has_attempts or excluded.has_attempts, score = p.score + excluded.score, scored_no = greatest(p.scored_no, excluded.scored_no),
    changed_no = greatest(p.changed_no, excluded.changed_no), changed_at = greatest(p.changed_at, excluded.changed_at);

  with gone as (
    delete from promo_store.promotion_attempts a
    where a.generation = any(generations) and a.window_no = any(windows) and a.player_ref = player returning a.*
  )
  insert into promo_store.promotion_attempts as a (generation, window_no, player_ref, ordinal, attempt, is_held, decided_no, decided_at, confirms_at)
  select g.generation, g.window_no, replacement, g.ordinal, g.attempt, g.is_held, g.decided_no, g.decided_at, g.confirms_at from gone g
  on conflict (generation, window_no, player_ref, ordinal) do update set
    attempt = excluded.attempt, is_held = excluded.is_held, decided_no = excluded.decided_no, decided_at = excluded.decided_at, confirms_at = excluded.confirms_at
  where (excluded.attempt, excluded.is_held) > (a.attempt, a.is_held);

  -- The id of before is a hash of the player's name: a list of candidates would lead from it to the player.
  -- Where there is none, the insert would make erasures at once wait for each other all the same.
  if exists (select from promo_store.promotion_completions c where c.player_ref = player and c.window_no = any(windows)) then
    with gone as (
      delete from promo_store.promotion_completions c where c.player_ref = player and c.window_no = any(windows) returning c.*
    )
    insert into promo_store.promotion_completions (entry_no, completion_id, change, window_no, player_ref, ordinal, attempt, change_no, changed_at, entered_at)
    overriding system value
    select g.entry_no, promo_store.completion_id(g.window_no, replacement, g.ordinal, g.attempt), g.change, g.window_no, replacement, g.ordinal, g.attempt,
      g.change_no, g.changed_at, g.entered_at from gone g order by g.entry_no
    on conflict do nothing;
  end if;
end
$$;
comment on function promo_store.forget_progress is 'Gives the progress and the completions of an erased player to its replacement: a step of each call of promo.erase_player.';
revoke execute on function promo_store.forget_progress from public;

-- With the row, erasures at once do not wait for each other to insert it.
insert into promo_store.folds (fold, generation) values ('promotions', 0) on conflict do nothing;

do $$
declare
  source constant text := pg_get_functiondef('promo.erase_player(text, text, int, bigint)'::regprocedure);
  place constant text := '  perform promo_store.forget_pseudonym(operator, player, replacement);
';
begin
  if position(place in source) = 0 then
    raise exception 'promo.erase_player is not the function of 0033_pseudonyms';
  end if;
  execute replace(source, place, place || '  perform promo_store.forget_progress(operator, player, replacement);
');
end
$$;

create view promo.promotion_coverage as
select
  g.generation,
  nullif(g.complete_since, '-infinity') as complete_since,
  g.after as up_to_verdict_id,
  g.newest_at as newest_decided_at,
  g.caught_up_at,
  extract(epoch from clock_timestamp() - g.caught_up_at) as lag_seconds,
  f.holder,
  f.held_until > clock_timestamp() as is_running,
  n.reason as rebuilt_because,
  n.after as rebuilt_up_to
from promo_store.folds f
join promo_store.fold_generations g on g.fold = f.fold and g.generation = f.generation
left join promo_store.fold_generations n on n.fold = f.fold and n.state = 'filling'
where f.fold = 'promotions';
comment on view promo.promotion_coverage is 'Up to where promotions are counted: one row, or none where promo-intake promotions never ran.';
do $$
begin
  execute (
    select string_agg(format('comment on column promo.promotion_coverage.%I is %L', a.attname, col_description(l.attrelid, l.attnum)), ';')
    from pg_attribute a join pg_attribute l using (attname)
    where a.attrelid = 'promo.promotion_coverage'::regclass and l.attrelid = 'promo.rollup_coverage'::regclass and a.attnum > 0
  );
end
$$;
comment on column promo.promotion_coverage.complete_since is 'Windows that began later have all their events; null: all windows have. Windows from before were counted while history had their events.';
comment on column promo.promotion_coverage.up_to_verdict_id is 'Promotions have counted all verdicts up to this number, and no higher one.';
comment on column promo.promotion_coverage.caught_up_at is 'When promotions had last counted everything that was committed.';
comment on column promo.promotion_coverage.holder is 'The process that counts promotions, or counted them last.';
select promo_store.show_to_readers('promotion_coverage');
comment on column promo.promotion_coverage.rebuilt_because is 'Why promotions are being counted again; null where they are not.';
