-- Promotions take a round of an erased player from the player who was credited with it, as a rebuild does.
--
-- Locks: replaces promo.erase_player, and creates the rest. Waits for a slice of promotions. Time: instant.
-- Safe while older workers run: they need nothing of this. End promo-intake promotions before, and start the
-- new one after: an older one credits no erased round again.

create table promo_store.erased_credits (
  change_no bigint not null,
  erased_no bigint not null,
  erased_at timestamptz not null,
  feed_no int not null,
  round_key bytea not null,
  player_ref text collate "C" not null,
  primary key (feed_no, round_key, change_no),
  foreign key (feed_no, round_key) references promo_store.attributions on delete cascade
);
comment on table promo_store.erased_credits is 'Versions of erased attributions that promotions have counted, until they have counted the erasure, too. Then the rows are deleted.';
comment on column promo_store.erased_credits.change_no is 'Number of the version in promo_store.attribution_changes.';
comment on column promo_store.erased_credits.erased_no is 'Number of the erasure: the change_no of the attribution.';
comment on column promo_store.erased_credits.erased_at is 'When the erasure began to change the attribution.';
comment on column promo_store.erased_credits.feed_no is 'Feed of the round.';
comment on column promo_store.erased_credits.round_key is 'Key of the round_id (see id_key).';
comment on column promo_store.erased_credits.player_ref is 'The player whose progress has the round. Never the erased player.';
create index erased_credits_player on promo_store.erased_credits (player_ref);

create or replace function promo_store.number_change() returns trigger language plpgsql
security definer set search_path = pg_catalog, pg_temp
as $$
begin
  new.change_no := promo_store.take_change_no();
  new.change := case when new.player_ref ~ '^erased:[0-9]+$' then 2 else 1 end;
  insert into promo_store.attribution_versions (change_no, feed_no, brand_no, change, attributed_at, round_key, player_ref, attributed_by)
  values (old.change_no, old.feed_no, old.brand_no, old.change, old.attributed_at, old.round_key, old.player_ref, old.attributed_by);
  if new.change = 2 then
    -- Promotions have credited these versions up to their cursors, and take the round from their players. An
    -- erasure holds the cursors still.
    insert into promo_store.erased_credits (change_no, erased_no, erased_at, feed_no, round_key, player_ref)
    select v.change_no, new.change_no, now(), v.feed_no, v.round_key, v.player_ref from promo_store.attribution_versions v
    where v.feed_no = new.feed_no and v.round_key = new.round_key and v.player_ref <> new.player_ref
      and v.change_no <= (select max(g.after) from promo_store.fold_generations g where g.fold = 'promotions' and g.state <> 'retired')
    on conflict do nothing;
    -- Each version names the person behind the erased player.
    update promo_store.attribution_versions v set player_ref = new.player_ref where v.feed_no = new.feed_no and v.round_key = new.round_key;
  end if;
  return new;
end
$$;
comment on function promo_store.number_change is 'Gives each correction and each erasure of an attribution a number, and keeps the version before. Promotions find there from whom they take an erased round.';

do $$
declare
  source constant text := pg_get_functiondef('promo_store.forget_progress(text, text, text)'::regprocedure);
  place constant text := '  perform from promo_store.folds f where f.fold = ''promotions'' for share;
';
begin
  if position(place in source) = 0 then
    raise exception 'promo_store.forget_progress is not the function of 0039_promotion_erasure';
  end if;
  execute replace(source, place, place || '
  -- Progress gets the other name below, so a version that promotions have counted gets it, too.
  update promo_store.erased_credits e set player_ref = replacement
  where e.player_ref = player and e.feed_no = any(array(select f.feed_no from promo_store.feeds f where f.operator_id = operator));
  -- An attribution that has the name itself takes the round from nobody else.
  delete from promo_store.erased_credits e using promo_store.attributions a
  where e.player_ref = replacement and a.feed_no = e.feed_no and a.round_key = e.round_key and a.player_ref = replacement;
');
end
$$;

do $$
declare
  source constant text := pg_get_functiondef('promo.erase_player(text, text, int, bigint)'::regprocedure);
  place constant text := '  -- An attribution names the person behind the erased player';
begin
  if position(place in source) = 0 then
    raise exception 'promo.erase_player is not the function of 0020_attributions';
  end if;
  -- Erased attributions have numbers, for which a slice waits.
  execute replace(source, place, '  -- Wait for a slice of promotions that runs, before this transaction takes numbers. Otherwise both would wait
  -- for each other. No cursor moves until this transaction ends.
  perform from promo_store.folds f where f.fold = ''promotions'' for share;

' || place);
end
$$;

create or replace function promo_store.find_attribution_damages()
returns table (invariant text, what text, feed_id text, event_id text, round_id text, source text, in_all bigint)
language sql stable set search_path = pg_catalog, pg_temp
as $$
  with given as (
    select (promo_store.last_batch() + 1) * 8192 - 1 as last
  ), damages as (
    select a.feed_no, a.round_id, unnest(array_remove(array[
      case when f.feed_no is null then format('the attribution is of the feed number %s, and there is no such feed', a.feed_no) end,
      case when a.round_key <> promo_store.id_key(a.round_id)
        and (a.round_id !~ '[.]{3} sha256:[0-9a-f]{64}$' or encode(a.round_key, 'hex') <> left(right(a.round_id, 64), 40))
        then 'key and round_id of the attribution disagree' end,
      case when r.round_id is not null and promo.stored_id(r.round_id) <> a.round_id then 'the attribution has another round_id than its round' end,
      case when a.brand_no is not null and b.operator_no is distinct from f.operator_no then 'the brand of the attribution is not one of its operator' end,
      promo_store.attribution_problem(a.round_id, a.player_ref, '', 0, null, null, ''),
      case when a.change_no > g.last then 'the attribution has a number that was not given' end
    ], null)) as what
    from promo_store.attributions a
    cross join given g
    left join promo_store.feeds f on f.feed_no = a.feed_no
    left join promo_store.brands b on b.brand_no = a.brand_no
    left join promo_store.rounds r on r.feed_no = a.feed_no and r.round_key = a.round_key
    union all
    select v.feed_no, a.round_id, unnest(array_remove(array[
      promo_store.attribution_problem(a.round_id, v.player_ref, '', 0, null, null, ''),
      case when v.change_no >= a.change_no then 'a version before has no lower number than the attribution' end,
      case when a.change = 2 and v.player_ref !~ '^erased:[0-9]+$' then 'a version before names a player, and the attribution is erased' end
    ], null))
    from promo_store.attribution_versions v join promo_store.attributions a on a.feed_no = v.feed_no and a.round_key = v.round_key
    union all
    select e.feed_no, a.round_id, unnest(array_remove(array[
      case when a.change <> 2 or a.change_no <> e.erased_no then 'a player is kept as that of an erased attribution, which is not erased' end,
      case when e.erased_no <= all (select n.after from promo_store.fold_generations n where n.fold = 'promotions' and n.state <> 'retired')
        then 'the player of before an erasure is kept, and promotions have counted the erasure' end
    ], null))
    from promo_store.erased_credits e join promo_store.attributions a on a.feed_no = e.feed_no and a.round_key = e.round_key
  )
  select 'I6', d.what, f.feed_id, null::text, d.round_id, null::text, count(*) over ()
  from damages d left join promo_store.feeds f using (feed_no)
  order by d.feed_no, d.round_id, d.what limit 100
$$;

-- Erasures of before have left credits where they were: count again.
do $$
begin
  perform from promo_store.folds f where f.fold = 'promotions' for update;
  if exists (select from promo_store.attributions a where a.change = 2) then
    update promo_store.fold_generations set state = 'retired' where fold = 'promotions' and state = 'filling';
    insert into promo_store.fold_generations (fold, generation, state, after, lineage, complete_since, reason)
    select g.fold, max(g.generation) + 1, 'filling', -1, promo.lineage(), promo_store.complete_history_since(), 'rounds of erased players are credited to them'
    from promo_store.fold_generations g where g.fold = 'promotions' group by g.fold;
  end if;
end
$$;
