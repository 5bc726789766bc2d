-- Promotions judge the progress that an erasure joins from two names. A slice between two calls of an erasure
-- may have counted events of the player, who then has progress and completions beside those of erased:N.
--
-- Locks: replaces promo_store.forget_progress, and creates the rest. Waits for a slice of promotions. Time:
-- instant. Safe while older workers run: they need nothing of this. End promo-intake promotions before, and
-- start the new one after: an older one does not judge such progress again.

create table promo_store.promotion_joins (
  generation int not null,
  window_no int not null,
  player_ref text collate "C" not null,
  primary key (generation, window_no, player_ref)
);
comment on table promo_store.promotion_joins is 'Progress that an erasure joined from two names, until the next slice has judged it. Then the rows are deleted.';
comment on column promo_store.promotion_joins.generation is 'Generation of the fold.';
comment on column promo_store.promotion_joins.window_no is 'The window.';
comment on column promo_store.promotion_joins.player_ref is 'The name erased:N that has the progress.';

create or replace function promo_store.forget_progress(operator text, player text, replacement text) returns void language plpgsql
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
  decided int[];
begin
  -- A slice may have read the player before this transaction. Wait for its end, and change what it wrote.
  -- The next slice waits for this transaction, and reads no such player any more.
  insert into promo_store.folds (fold, generation) values ('promotions', 0) on conflict do nothing;
  perform from promo_store.folds f where f.fold = 'promotions' for share;

  -- Progress gets the other name below, so a version that promotions have counted gets it, too.
  update promo_store.erased_credits e set player_ref = replacement
  where e.player_ref = player and e.feed_no = any(array(select f.feed_no from promo_store.feeds f where f.operator_id = operator));
  -- An attribution that has the name itself takes the round from nobody else.
  delete from promo_store.erased_credits e using promo_store.attributions a
  where e.player_ref = replacement and a.feed_no = e.feed_no and a.round_key = e.round_key and a.player_ref = replacement;

  -- In these windows the completions of the replacement go on, and those of the player end. One list of both
  -- would complete an id twice, or revoke it while it holds. The next slice judges the sum of both.
  decided := array(
    select a.window_no from promo_store.promotion_attempts a
    where a.generation = any(generations) and a.window_no = any(windows) and a.player_ref = replacement
    union select c.window_no from promo_store.promotion_completions c where c.player_ref = replacement and c.window_no = any(windows)
  );

  with gone as (
    delete from promo_store.promotion_progress p
    where p.generation = any(generations) and p.window_no = any(windows) and p.player_ref = player returning p.*
  ), joined as (
    insert into promo_store.promotion_joins (generation, window_no, player_ref)
    select g.generation, g.window_no, replacement from gone g
    where g.window_no = any(decided) or exists (
      select from promo_store.promotion_progress p where p.generation = g.generation and p.window_no = g.window_no and p.player_ref = replacement)
    on conflict do nothing
  )
  insert into promo_store.promotion_progress as p (generation, window_no, player_ref, items, currencies, amounts, attained, has_attempts, score, scored_no, changed_no, changed_at)
  select g.generation, g.window_no, replacement, g.items, g.currencies, g.amounts, case when g.window_no = any(decided) then 0 else g.attained end,
    g.has_attempts, g.score, g.scored_no, g.changed_no, g.changed_at from gone g
  on conflict (generation, window_no, player_ref) do update set
    (items, currencies, amounts) = (
      select array_agg(s.item), array_agg(s.currency), array_agg(s.amount) from (
        select v.item, v.currency, sum(v.amount) as amount from (
          select * from unnest(p.items, p.currencies, p.amounts) union all select * from unnest(excluded.items, excluded.currencies, excluded.amounts)
        ) v (item, currency, amount) group by 1, 2 order by 1, 2
      ) s
    ),
    -- One of them is 0: as many as the attempts that stay hold.
    attained = p.attained + excluded.attained, has_attempts = p.has_attempts or excluded.has_attempts, score = p.score + excluded.score,
    scored_no = greatest(p.scored_no, excluded.scored_no), changed_no = greatest(p.changed_no, excluded.changed_no), changed_at = greatest(p.changed_at, excluded.changed_at);

  with gone as (
    delete from promo_store.promotion_attempts a
    where a.generation = any(generations) and a.window_no = any(windows) and a.player_ref = player returning a.*
  )
  insert into promo_store.promotion_attempts (generation, window_no, player_ref, ordinal, attempt, is_held, decided_no, decided_at, confirms_at)
  select g.generation, g.window_no, replacement, g.ordinal, g.attempt, g.is_held, g.decided_no, g.decided_at, g.confirms_at from gone g
  where g.window_no <> all(decided);

  -- The id of before is a hash of the player's name: a list of candidates would lead from it to the player.
  -- Where there is none, the insert would make erasures at once wait for each other all the same.
  if exists (select from promo_store.promotion_completions c where c.player_ref = player and c.window_no = any(windows)) then
    with gone as (
      delete from promo_store.promotion_completions c where c.player_ref = player and c.window_no = any(windows) returning c.*
    )
    insert into promo_store.promotion_completions (entry_no, completion_id, change, window_no, player_ref, ordinal, attempt, change_no, changed_at, entered_at)
    overriding system value
    select g.entry_no, promo_store.completion_id(g.window_no, replacement, g.ordinal, g.attempt), g.change, g.window_no, replacement, g.ordinal, g.attempt,
      g.change_no, g.changed_at, g.entered_at from gone g where g.window_no <> all(decided) order by g.entry_no;
  end if;
end
$$;

-- Erasures of before may have joined completions that contradict each other: count again.
do $$
begin
  perform from promo_store.folds f where f.fold = 'promotions' for update;
  if exists (select from promo_store.operations o where o.operation = 'erasure') then
    update promo_store.fold_generations set state = 'retired' where fold = 'promotions' and state = 'filling';
    insert into promo_store.fold_generations (fold, generation, state, after, lineage, complete_since, reason)
    select g.fold, max(g.generation) + 1, 'filling', -1, promo.lineage(), promo_store.complete_history_since(), 'completions of erased players may contradict each other'
    from promo_store.fold_generations g where g.fold = 'promotions' group by g.fold;
  end if;
end
$$;
