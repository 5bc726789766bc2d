-- Numbers for attributions, of the same sequence as those of verdicts. So the horizon covers attributions,
-- too: copies read each change once, and a fold knows which attributions its slice has.
--
-- Locks: takes promo_store.attributions for a moment, and waits for attributions and readers of them. Time:
-- one reading of the attributions for an index, 1 s for 2 million of them. Safe while older workers run: they
-- neither read nor write attributions, and older commands call functions of the same names.

alter table promo_store.attributions
  -- Attributions from before have the number 0. Without a default at first: Postgres writes no row again.
  add column change_no bigint not null default 0,
  add column change smallint not null default 0 check (change in (0, 1, 2));
update promo_store.attributions set change = case when player_ref ~ '^erased:[0-9]+$' then 2 else 1 end
where corrections > 0 or player_ref ~ '^erased:[0-9]+$';
-- A row that is inserted by hand gets a number of its own.
alter table promo_store.attributions alter column change_no set default nextval('promo_store.batch_numbers') * 8192;
comment on column promo_store.attributions.change_no is 'Number of its last change, of the sequence of verdict_id. 0: the last change was before the migration 0034.';
comment on column promo_store.attributions.change is 'Its last change. 0: set. 1: corrected. 2: erased.';
create index attributions_change on promo_store.attributions (change_no);

create table promo_store.attribution_versions (
  change_no bigint not null,
  feed_no int not null,
  brand_no int,
  change smallint not null check (change in (0, 1, 2)),
  attributed_at timestamptz not null,
  round_key bytea not null,
  player_ref text collate "C" not null,
  attributed_by text not null,
  primary key (feed_no, round_key, change_no),
  foreign key (feed_no, round_key) references promo_store.attributions on delete cascade
);
comment on table promo_store.attribution_versions is 'Attributions as they were before a correction or an erasure. The row of promo_store.attributions is the newest version.';
comment on column promo_store.attribution_versions.change_no is 'Number of the change that made the version.';
comment on column promo_store.attribution_versions.feed_no is 'Feed of the round.';
comment on column promo_store.attribution_versions.brand_no is 'Brand whose events are credited; null: events of any brand.';
comment on column promo_store.attribution_versions.change is 'The change that made it, as in promo_store.attributions.';
comment on column promo_store.attribution_versions.attributed_at is 'When it was set, or corrected last.';
comment on column promo_store.attribution_versions.round_key is 'Key of the round_id (see id_key).';
comment on column promo_store.attribution_versions.player_ref is 'The player that was credited.';
comment on column promo_store.attribution_versions.attributed_by is 'The role of the database that set it, or corrected it last.';
create index attribution_versions_change on promo_store.attribution_versions (change_no);
create index attribution_versions_player on promo_store.attribution_versions (player_ref);

-- ---------------------------------------------------------------- numbers

create function promo_store.take_change_no() returns bigint language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
begin
  -- The horizon waits for this transaction from now on, so Postgres ends it where it makes no progress.
  -- Postgres does the same for transactions of workers.
  if current_setting('idle_in_transaction_session_timeout')::interval not between '1 ms' and '15 s' then
    perform set_config('idle_in_transaction_session_timeout', '15s', true);
  end if;
  -- A copy may have read the change before a crash of the server, which must not lose it then.
  if current_setting('synchronous_commit') = 'off' then
    perform set_config('synchronous_commit', 'on', true);
  end if;
  return nextval('promo_store.batch_numbers') * 8192;
end
$$;
comment on function promo_store.take_change_no is 'The first of 8192 numbers for changes of attributions. Until the transaction ends, the horizon stays below them. It ends by itself where it is idle for 15 s.';
revoke execute on function promo_store.take_change_no from public;

create function promo_store.number_change() returns trigger language plpgsql
security definer set search_path = pg_catalog, pg_temp
as $$
begin
  new.change_no := promo_store.take_change_no();
  new.change := case when new.player_ref ~ '^erased:[0-9]+$' then 2 else 1 end;
  insert into promo_store.attribution_versions (change_no, feed_no, brand_no, change, attributed_at, round_key, player_ref, attributed_by)
  values (old.change_no, old.feed_no, old.brand_no, old.change, old.attributed_at, old.round_key, old.player_ref, old.attributed_by);
  if new.change = 2 then
    -- Each version names the person behind the erased player.
    update promo_store.attribution_versions v set player_ref = new.player_ref where v.feed_no = new.feed_no and v.round_key = new.round_key;
  end if;
  return new;
end
$$;
comment on function promo_store.number_change is 'Gives each correction and each erasure of an attribution a number, and keeps the version before.';
revoke execute on function promo_store.number_change from public;
create trigger number_change before update of player_ref on promo_store.attributions
for each row when (new.player_ref is distinct from old.player_ref) execute function promo_store.number_change();

create or replace function promo.attribute_rounds(operator text, rounds text[], players text[], feeds text[] default null, brands text[] default null)
returns table (place int, outcome text, problem text)
language plpgsql
security definer set search_path = pg_catalog, pg_temp
-- Force each statement to use its index: the planner's statistics of a growing table may be old.
set enable_seqscan = off
set lock_timeout = '5s'
as $$
#variable_conflict use_variable
declare
  operator_no constant int := (select o.operator_no from promo_store.operators o where o.operator_id = operator);
  wanted promo_store.wanted_attribution[];
  fresh promo_store.wanted_attribution[];
  numbers bigint[];
  new_keys text[];
begin
  if operator_no is null then
    raise exception 'InvalidArgument: there is no operator %', coalesce(quote_literal(operator), 'null')
      using errcode = 'invalid_parameter_value', hint = 'Name an operator of the reference data.';
  end if;
  if cardinality(rounds) is distinct from cardinality(players) or cardinality(feeds) <> cardinality(rounds) or cardinality(brands) <> cardinality(rounds) then
    raise exception 'InvalidArgument: the arrays have different lengths' using errcode = 'invalid_parameter_value', hint = 'Pass one element a round in each array, or null in place of feeds or brands.';
  end if;
  if current_setting('transaction_isolation') <> 'read committed' then
    raise exception 'attributions cannot be set in a transaction that is %', current_setting('transaction_isolation')
      using errcode = 'invalid_transaction_state', hint = 'Use the isolation level read committed. An older snapshot does not see an erasure that has just ended.';
  end if;
  -- An erasure waits for this transaction, and this function for the erasure. The statements below then see
  -- all that the erasure changed.
  lock table promo_store.attribution_guard in row exclusive mode;

  wanted := (
    select array_agg(row(g.place, f.feed_no, b.brand_no, promo_store.id_key(g.round), promo.stored_id(g.round), g.player,
        promo_store.attribution_problem(g.round, g.player, coalesce(g.feed, operator), f.feed_no, g.brand, b.brand_no, operator),
        exists (select from promo_store.erased_rounds e where e.feed_no = f.feed_no and e.round_key = promo_store.id_key(g.round)
        ))::promo_store.wanted_attribution order by g.place)
    from unnest(rounds, players, feeds, brands) with ordinality g (round, player, feed, brand, place)
    left join promo_store.feeds f on f.feed_id = coalesce(g.feed, operator) and f.operator_no = operator_no
    left join promo_store.brands b on b.brand_id = g.brand and b.operator_no = operator_no
  );
  -- Concurrent calls insert in one order, so that they wait for each other without a deadlock.
  fresh := (
    select array_agg(row(w.place, w.feed_no, w.brand_no, w.round_key, w.round_id, w.player_ref, w.problem, w.is_erased)::promo_store.wanted_attribution
      order by w.feed_no, w.round_key)
    from (select distinct on (u.feed_no, u.round_key) u.* from unnest(wanted) u
      where u.problem is null and not u.is_erased order by u.feed_no, u.round_key, u.place) w
    where not exists (select from promo_store.attributions a where a.feed_no = w.feed_no and a.round_key = w.round_key)
  );
  if fresh is not null then
    -- The horizon waits from here to the end of the transaction, so a call that sets nothing takes none.
    numbers := array(select promo_store.take_change_no() from generate_series(0, (cardinality(fresh) - 1) / 8192));
    with new as (
      insert into promo_store.attributions (feed_no, brand_no, round_key, round_id, player_ref, change_no)
      select w.feed_no, w.brand_no, w.round_key, w.round_id, w.player_ref, numbers[(w.nth - 1) / 8192 + 1] + (w.nth - 1) % 8192
      from unnest(fresh) with ordinality w (place, feed_no, brand_no, round_key, round_id, player_ref, problem, is_erased, nth) order by w.nth
      on conflict on constraint attributions_pkey do nothing
      returning feed_no, round_key
    )
    select array_agg(n.feed_no || ':' || encode(n.round_key, 'hex')) into new_keys from new n;
  end if;

  return query
  select w.place,
    case
      when w.problem is not null then 'invalid'
      when w.is_erased then 'erased'
      when a.feed_no is null then 'lost'
      when a.player_ref = w.player_ref and a.brand_no is not distinct from w.brand_no then
        case when w.turn = 1 and w.feed_no || ':' || encode(w.round_key, 'hex') = any(new_keys) then 'set' else 'unchanged' end
      when a.player_ref ~ '^erased:[0-9]+$' then 'erased'
      else 'conflict'
    end,
    case
      when w.problem is not null then w.problem
      when not w.is_erased and a.feed_no is null then 'the attribution was dropped at this moment: set it again'
      when a.player_ref <> w.player_ref and a.player_ref !~ '^erased:[0-9]+$' then 'the round is attributed to another player, which stays: correct promo_player_ref or round_id'
      when a.player_ref = w.player_ref and a.brand_no is distinct from w.brand_no then 'the round is attributed with another brand, which stays: correct the brand'
    end
  from (select *, row_number() over (partition by u.feed_no, u.round_key, u.problem is null order by u.place) as turn from unnest(wanted) u) w
  left join promo_store.attributions a on a.feed_no = w.feed_no and a.round_key = w.round_key and w.problem is null and not w.is_erased
  order by w.place;
end
$$;

-- The function is long, and other migrations change it, too: so the stored text is changed in place.
do $$
declare
  before constant text := '    attributions := attributions + found_attributions;
';
  after constant text := before || '    -- A correction has replaced the player, who is still named in the version before.
    with mine as materialized (
      select v.feed_no, v.round_key, v.change_no from promo_store.attribution_versions v where v.player_ref = player and v.feed_no = any(feeds)
      order by v.feed_no, v.round_key, v.change_no for update
    )
    update promo_store.attribution_versions v set player_ref = replacement from mine
    where v.feed_no = mine.feed_no and v.round_key = mine.round_key and v.change_no = mine.change_no;
';
  source constant text := pg_get_functiondef('promo.erase_player(text, text, int, bigint)'::regprocedure);
begin
  if position(before in source) = 0 then
    raise exception 'promo.erase_player is not the function of 0020_attributions';
  end if;
  execute replace(source, before, after);
end
$$;

-- ---------------------------------------------------------------- increments

create view promo_store.attribution_changes as
with versions as (
  select a.change_no, a.change, a.feed_no, a.brand_no, a.round_key, a.round_id, a.player_ref, a.attributed_at, a.attributed_by from promo_store.attributions a
  union all
  select v.change_no, v.change, v.feed_no, v.brand_no, v.round_key, a.round_id, v.player_ref, v.attributed_at, v.attributed_by
  from promo_store.attribution_versions v join promo_store.attributions a on a.feed_no = v.feed_no and a.round_key = v.round_key
)
select
  c.*,
  (
    select p.player_ref from promo_store.attribution_versions p
    where p.feed_no = c.feed_no and p.round_key = c.round_key and p.change_no < c.change_no order by p.change_no desc limit 1
  ) as replaced_player
from versions c;
comment on view promo_store.attribution_changes is 'Each change of an attribution with its number. The attribution of a round as of a number is the row of the round with the highest change_no up to it.';
comment on column promo_store.attribution_changes.change_no is 'Number of the change.';
comment on column promo_store.attribution_changes.change is '0: set. 1: corrected. 2: erased.';
comment on column promo_store.attribution_changes.feed_no is 'Feed of the round.';
comment on column promo_store.attribution_changes.brand_no is 'Brand whose events are credited; null: events of any brand.';
comment on column promo_store.attribution_changes.round_key is 'Key of the round_id (see id_key).';
comment on column promo_store.attribution_changes.round_id is 'The round''s id, as promo.stored_id returns it.';
comment on column promo_store.attribution_changes.player_ref is 'The player that is credited from this change on.';
comment on column promo_store.attribution_changes.attributed_at is 'When it was set, or corrected last.';
comment on column promo_store.attribution_changes.attributed_by is 'The role of the database that set it, or corrected it last.';
comment on column promo_store.attribution_changes.replaced_player is 'The player that was credited before; null for the first change.';

create function promo.attribution_changes_with_players(after bigint, up_to bigint default null, lineage text default null)
returns table (change_no bigint, change text, operator_id text, feed_id text, round_id text, round_key bytea, brand text, attributed_at timestamptz, attributed_by text,
  credited_player text, replaced_player text)
-- Volatile: each statement in it sees a snapshot of its own, so one from after the horizon.
language plpgsql volatile
security definer set search_path = pg_catalog, pg_temp
set plan_cache_mode = force_custom_plan
as $$
#variable_conflict use_column
declare
  horizon constant bigint := promo_store.horizon_of($1, $2, $3);
begin
  return query
  select c.change_no, (array['set', 'corrected', 'erased'])[c.change + 1], f.operator_id, f.feed_id, c.round_id, c.round_key, b.brand_id, c.attributed_at, c.attributed_by,
    c.player_ref, c.replaced_player
  from promo_store.attribution_changes c
  join promo_store.feeds f on f.feed_no = c.feed_no and f.test_mark <> 1
  left join promo_store.brands b on b.brand_no = c.brand_no
  where c.change_no > $1 and c.change_no <= horizon order by c.change_no, c.feed_no, c.round_key;
end
$$;
comment on function promo.attribution_changes_with_players is 'As promo.attribution_changes, with the credited player and the player that was credited before. For roles that may see players: no role of promo-intake grant may call it.';
revoke execute on function promo.attribution_changes_with_players from public;

create function promo.attribution_changes(after bigint, up_to bigint default null, lineage text default null)
returns table (change_no bigint, change text, operator_id text, feed_id text, round_id text, round_key bytea, brand text, attributed_at timestamptz, attributed_by text)
language sql volatile
security definer set search_path = pg_catalog, pg_temp
as $$
  select c.change_no, c.change, c.operator_id, c.feed_id, c.round_id, c.round_key, c.brand, c.attributed_at, c.attributed_by
  from promo.attribution_changes_with_players($1, $2, $3) c
$$;
comment on function promo.attribution_changes is 'The changes of promo.attributions with numbers above after, in the way of promo.changes: set, corrected or erased. Attributions that did not change since the migration 0034 have the number 0: a new copy, which begins after -1, reads them first.';
revoke execute on function promo.attribution_changes from public;

-- ---------------------------------------------------------------- invariants

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
  )
  select 'I6', d.what, f.feed_id, null::text, d.round_id, null::text, count(*) over ()
  from damages d left join promo_store.feeds f using (feed_no)
  order by d.feed_no, d.round_id, d.what limit 100
$$;
