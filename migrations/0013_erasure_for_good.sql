-- After an erasure, no stored value confirms a guess of the player. The hash of an event's content has two
-- parts. The part that covers the player is keyed by month: an erasure removes it, and retention drops the
-- key with the month.
--
-- Locks: adds a column to rounds and sets the replica identity of history's months. It waits for running
-- batches and for long queries; workers and readers wait behind it for a moment. Time: instant, since no row
-- is rewritten. Afterwards `migrate` forgets the hashes of players erased before, one erasure a transaction,
-- and nobody waits for it. Run migrate again if this is interrupted.
--
-- Safe while older workers run. They compare content by the hash over everything. In a store that holds
-- events, workers write that hash until the first month that begins a week or more after this migration.
-- Replace all older workers before then. An older worker reports a duplicate of an event with the newer hash
-- as content_differs. In rounds it finds no hash beside a newer tag, and reports no mismatch.

create table promo_store.player_keys (
  month date primary key,
  key bytea
);
comment on table promo_store.player_keys is 'The key of the tags of players of each month, made with the month''s tables and dropped with them. Without its key a tag confirms no guess of a player.';
comment on column promo_store.player_keys.month is 'First day of the month (UTC) in which events were decided and rounds were opened.';
comment on column promo_store.player_keys.key is '16 random bytes. Null: a month from before tags, whose hashes older workers can still read.';

create function promo_store.new_player_key() returns bytea language sql volatile set search_path = pg_catalog, pg_temp as $$
  select substr(sha256(convert_to(gen_random_uuid()::text || gen_random_uuid()::text, 'UTF8')), 1, 16)
$$;
comment on function promo_store.new_player_key is 'A random key for the tags of players.';

create table promo_store.untagged (
  is_only boolean primary key default true check (is_only),
  until timestamptz not null,
  erased_up_to text collate "C" not null default 'erased:',
  dropped_before timestamptz,
  verdicts_below bigint,
  table_name text,
  next_page bigint
);
comment on table promo_store.untagged is 'One row: how far the hashes without a key are forgotten. These are hashes of players erased before there were tags, and of dropped months.';
comment on column promo_store.untagged.is_only is 'Always true: there is one row.';
comment on column promo_store.untagged.until is 'Events decided since then have tags.';
comment on column promo_store.untagged.erased_up_to is 'Label of the last erased player whose hashes are forgotten. Players are forgotten in the order of these labels, as texts.';
comment on column promo_store.untagged.dropped_before is 'Hashes from before this month are forgotten, or are being forgotten.';
comment on column promo_store.untagged.verdicts_below is 'Verdicts with a lower number belong to dropped months.';
comment on column promo_store.untagged.table_name is 'The table in progress; null where there is none.';
comment on column promo_store.untagged.next_page is 'The next page of that table to read.';

-- A store without events has no older workers. In any other store, older workers have at least a week.
insert into promo_store.player_keys (month, key)
select t.month, case when t.month >= now() at time zone 'utc' + interval '7 days' or not exists (select from promo_store.event_keys) then promo_store.new_player_key() end
from promo_store.month_tables() t where t.parent = 'history' and t.month >= date_trunc('month', now() at time zone 'utc');
insert into promo_store.untagged (until)
select coalesce(min(k.month)::timestamp, date_trunc('month', now() at time zone 'utc') + interval '3 months') at time zone 'utc'
from promo_store.player_keys k where k.key is not null;

-- ---------------------------------------------------------------- erasure

create type promo_store.forgotten_key as (feed_no int, event_key bytea, is_whole boolean);
comment on type promo_store.forgotten_key is 'The key of an event, and whether all of its content hash is forgotten or the player''s part alone.';

create function promo_store.forget_content(keys promo_store.forgotten_key[]) returns bigint language plpgsql
set search_path = pg_catalog, pg_temp set enable_seqscan = off
as $$
declare
  forgotten bigint;
begin
  with mine as materialized (
    select k.feed_no, k.event_key, f.is_whole from unnest(keys) f
    join promo_store.event_keys k on k.feed_no = f.feed_no and k.event_key = f.event_key
    order by k.feed_no, k.event_key for update of k
  )
  -- A hash of zero or more covers everything and is older than tags. The lowest number means unknown. The
  -- last 24 bits are the player's tag.
  update promo_store.event_keys k set content_hash = case when k.content_hash >= 0 or mine.is_whole then -9223372036854775808
    else k.content_hash & ~16777215::bigint end
  from mine where k.feed_no = mine.feed_no and k.event_key = mine.event_key;
  get diagnostics forgotten = row_count;
  return forgotten;
end
$$;
comment on function promo_store.forget_content is 'Removes the part that covers the player from the content hashes of events, and returns how many it changed.';

create or replace function promo.erase_player(operator text, player text, most int default 10000, erasure bigint default null,
  out erasure_no bigint, out verdicts bigint, out rounds bigint, out payloads bigint, out is_done boolean)
language plpgsql
security definer set search_path = pg_catalog, pg_temp
-- Force each statement to use its index: the planner's statistics of a growing table may be old.
set enable_seqscan = off
set lock_timeout = '5s'
as $$
#variable_conflict use_variable
declare
  feeds constant int[] := (select array_agg(f.feed_no) from promo_store.feeds f where f.operator_id = operator);
  replacement text;
  month record;
  round_nos bigint[];
  found_rounds bigint[];
  found_verdicts bigint;
  found_keys promo_store.forgotten_key[];
  forgotten promo_store.forgotten_key[];
  up_to bigint;
  last_looked bigint;
  looked bigint;
begin
  if feeds is null then
    raise exception 'there is no operator %', coalesce(quote_literal(operator), 'null') using errcode = 'invalid_parameter_value';
  end if;
  if coalesce(player, '') = '' or coalesce(most, 0) < 1 then
    raise exception 'name a player, and how many rows to change at most' using errcode = 'invalid_parameter_value';
  end if;
  if erasure is null then
    -- The player's name is stored nowhere: it would undo the erasure.
    insert into promo_store.operations (operation, request, outcome)
    values ('erasure', jsonb_build_object('operator', operator), '{"verdicts": 0, "rounds": 0, "payloads": 0}')
    returning operation_no into erasure_no;
  else
    select o.operation_no into erasure_no from promo_store.operations o
    where o.operation_no = erasure and o.operation = 'erasure' and o.request ->> 'operator' = operator and o.role = session_user and o.ended_at is null
    for update;
    if not found then
      raise exception 'no erasure % of a player of % is under way', erasure, operator using errcode = 'invalid_parameter_value';
    end if;
  end if;
  replacement := 'erased:' || erasure_no;
  verdicts := 0;
  rounds := 0;
  payloads := 0;
  perform pg_catalog.pg_advisory_xact_lock_shared(4915023772); -- months are not dropped meanwhile

  for month in select t.name from promo_store.month_tables() t where t.parent = 'history' order by t.month loop
    exit when verdicts >= most;
    execute format(
      'with mine as (
         update promo_store.%1$I set player_ref = $4,
           -- The sender wrote an unregistered brand, so it may contain the name of the player.
           unmapped_brand = case when brand_no is null and unmapped_brand <> %2$L then $4 else unmapped_brand end
         where ctid = any(array(select ctid from promo_store.%1$I where player_ref = $1 and feed_no = any($2) limit $3 for update))
         returning round_no, row(feed_no, promo_store.id_key(event_id), brand_no is null)::promo_store.forgotten_key as key)
       select count(*), array_agg(distinct round_no) filter (where round_no is not null), array_agg(key) from mine', month.name, '')
    into found_verdicts, found_rounds, found_keys using player, feeds, most - verdicts, replacement;
    verdicts := verdicts + found_verdicts;
    round_nos := round_nos || found_rounds;
    forgotten := forgotten || found_keys;
  end loop;
  is_done := false;

  -- Tags and hashes name nobody, but they confirm a guess of the player. Lock rounds first and then keys,
  -- each in order, as workers do.
  with mine as materialized (
    select r.feed_no, r.round_key from promo_store.rounds r
    where r.round_no = any(round_nos) and (r.player_tag is not null or r.player_hash is not null)
    order by r.feed_no, r.round_key for update
  )
  update promo_store.rounds r set player_tag = null, player_hash = null from mine where r.feed_no = mine.feed_no and r.round_key = mine.round_key;
  get diagnostics rounds = row_count;
  perform promo_store.forget_content(forgotten);

  -- Each panic is looked up in history. So a transaction takes a limited number of them, and holds no round.
  if verdicts = 0 then
    select coalesce((o.outcome ->> 'panics_up_to')::bigint, 0) into up_to from promo_store.operations o where o.operation_no = erasure_no;
    select max(p.verdict_id), count(*) into last_looked, looked from (
      select n.verdict_id from promo_store.panics n where n.verdict_id > up_to and n.payload is not null order by n.verdict_id limit least(most, 1000)
    ) p;
    -- A failed payload is stored byte for byte. It may contain the name in any form, escaped or in Avro, so
    -- all payloads of the operator are deleted.
    with mine as materialized (
      select p.verdict_id, h.feed_no, h.event_id from promo_store.panics p
      -- Both rows have the time of one transaction. The time selects the month; without it, Postgres searches
      -- all months.
      cross join lateral (select h.feed_no, h.event_id from promo_store.history h where h.verdict_id = p.verdict_id
        and h.decided_at between p.decided_at - interval '1 hour' and p.decided_at + interval '1 hour' limit 1) h
      where p.verdict_id > up_to and p.verdict_id <= last_looked and p.payload is not null and h.feed_no = any(feeds)
    ), changed as (
      update promo_store.panics p set payload = null, error = replacement from mine where p.verdict_id = mine.verdict_id
    )
    -- The hash of such an event covers a player that history does not name.
    select count(*), array_agg(row(feed_no, promo_store.id_key(event_id), true)::promo_store.forgotten_key) into payloads, found_keys from mine;
    perform promo_store.forget_content(found_keys);
    is_done := looked < least(most, 1000);
  end if;

  update promo_store.operations o set
    ended_at = case when is_done then clock_timestamp() end,
    outcome = jsonb_build_object('verdicts', (o.outcome ->> 'verdicts')::bigint + verdicts, 'rounds', (o.outcome ->> 'rounds')::bigint + rounds,
      'payloads', (o.outcome ->> 'payloads')::bigint + payloads)
      || case when is_done or last_looked is null then '{}' else jsonb_build_object('panics_up_to', last_looked) end
  where o.operation_no = erasure_no;
end
$$;

create function promo_store.forget_next_erased() returns text language plpgsql
set search_path = pg_catalog, pg_temp set enable_seqscan = off set statement_timeout = 0
as $$
declare
  up_to constant text := (select u.erased_up_to from promo_store.untagged u for update);
  months constant text[] := (select array_agg(t.name order by t.month) from promo_store.month_tables() t where t.parent = 'history');
  month text;
  found text;
  erased text;
  found_keys promo_store.forgotten_key[];
begin
  -- Start after the last label. A player erased by this version needs nothing more.
  foreach month in array coalesce(months, '{}') loop
    execute format('select player_ref from promo_store.%I where player_ref > $1 and player_ref < %L order by player_ref limit 1', month, 'erased;')
      into found using up_to;
    erased := least(erased, found);
  end loop;
  update promo_store.untagged set erased_up_to = coalesce(erased, 'erased;');
  if erased is null then
    return null;
  end if;
  foreach month in array months loop
    execute format('update promo_store.%I set unmapped_brand = player_ref where player_ref = $1 and brand_no is null and unmapped_brand not in (%L, $1)',
      month, '') using erased;
    execute format('select array_agg(row(feed_no, promo_store.id_key(event_id), true)::promo_store.forgotten_key) from promo_store.%I where player_ref = $1', month)
      into found_keys using erased;
    perform promo_store.forget_content(found_keys);
  end loop;
  return erased;
end
$$;
comment on function promo_store.forget_next_erased is 'Forgets the content hashes of the next player that was erased before there were tags. Returns the label in the player''s place; null where no such player is left.';

-- ---------------------------------------------------------------- months

create or replace function promo_store.ensure_months(months_ahead int default 2) returns int language plpgsql
-- Only the owner may attach a partition. The settings fix how the bounds of months are written as text and
-- parsed, whatever a database, a role or a session uses.
security definer set search_path = pg_catalog, pg_temp set timezone = 'UTC' set datestyle = 'ISO'
as $$
declare
  month date := date_trunc('month', now() at time zone 'utc');
  created int := 0;
  usual_lock_timeout text := current_setting('lock_timeout');
  parent text;
  name text;
begin
  for ahead in 0 .. least(months_ahead, 24) loop
    foreach parent in array array['history', 'resends', 'unstored'] loop
      name := parent || '_' || to_char(month, 'YYYY_MM');
      continue when to_regclass('promo_store.' || name) is not null;
      perform pg_advisory_xact_lock(4915023772); -- workers that start together make a month once
      -- Read the catalog table: to_regclass may answer from a cache that is older than the lock.
      continue when exists (select from pg_class where relnamespace = 'promo_store'::regnamespace and relname = name);
      -- Create the table alone and attach it: writers of the parent go on, which "partition of" would not
      -- allow.
      execute format('create table promo_store.%I (like promo_store.%I including defaults including comments)', name, parent);
      execute format('comment on table promo_store.%I is %L', name, 'One month of ' || parent || '.');
      -- A BRIN index finds only summarized blocks, and a vacuum summarizes them. By default a vacuum waits
      -- for a fifth of the table.
      execute format('alter table promo_store.%I set (autovacuum_vacuum_insert_scale_factor = 0, autovacuum_vacuum_insert_threshold = 100000)', name);
      perform promo_store.sample_little(name);
      if parent = 'history' then
        -- An erasure updates these rows. A publication refuses updates of a table without an identity, and no
        -- column is unique.
        execute format('alter table promo_store.%I replica identity full', name);
        insert into promo_store.player_keys (month, key) values (month, promo_store.new_player_key())
          on conflict on constraint player_keys_pkey do nothing;
      end if;
      execute format('alter table promo_store.%I attach partition promo_store.%I for values from (%L) to (%L)',
        parent, name, month, month + interval '1 month');
      insert into promo_store.months (parent, month, made_at) values (parent, month, clock_timestamp())
        on conflict on constraint months_pkey do update set made_at = excluded.made_at, dropped_at = null;
      created := created + 1;
    end loop;
    month := month + interval '1 month';
  end loop;
  -- Skip a table that a vacuum holds: a starting worker need not wait, and the hourly call tries again.
  perform set_config('lock_timeout', '500ms', true);
  -- Once a month is over, only these settings make a vacuum summarize its last rows, and rows that an erasure
  -- changed.
  for name in
    select t.name from promo_store.month_tables() t join pg_class c on c.relnamespace = 'promo_store'::regnamespace and c.relname = t.name
    where t.month < date_trunc('month', now() at time zone 'utc') and not coalesce('autovacuum_vacuum_insert_threshold=0' = any(c.reloptions), false)
  loop
    begin
      execute format('alter table promo_store.%I set (autovacuum_vacuum_insert_scale_factor = 0, autovacuum_vacuum_insert_threshold = 0,
        autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000)', name);
    exception when lock_not_available then
      null;
    end;
  end loop;
  perform set_config('lock_timeout', usual_lock_timeout, true);
  return created;
end
$$;

create or replace function promo.drop_months_before(first_kept date) returns setof text language plpgsql
security definer set search_path = pg_catalog, pg_temp
set lock_timeout = '3s'
as $$
#variable_conflict use_column
declare
  kept_from timestamptz := date_trunc('month', first_kept::timestamp) at time zone 'utc';
  began constant timestamptz := clock_timestamp();
  dropped text[] := '{}';
  old record;
begin
  if kept_from is null or kept_from > date_trunc('month', now() at time zone 'utc') at time zone 'utc' then
    raise exception 'only months that are over can be dropped: % is not, or is none', coalesce(first_kept::text, 'null')
      using errcode = 'invalid_parameter_value';
  end if;
  perform pg_catalog.pg_advisory_xact_lock(4915023772); -- one at a time, and none while months are made or players erased
  for old in select * from promo_store.month_tables() t where t.month < kept_from at time zone 'utc' loop
    -- Readers go on while the rows are counted. Nothing writes to a past month.
    execute format('lock table promo_store.%I in share mode', old.name);
  end loop;

  insert into promo_store.dropped_rows as d (partition_no, duplicates, dead_letters, without_key)
  select partition_no, sum(duplicate), sum(dead_letter), sum(without_key)
  from (
    select partition_no, 1, 0, 0 from promo_store.resends where received_at < kept_from and partition_no is not null
    union all
    select partition_no, 0, case when dead_letter is null then 0 else 1 end, case when dead_letter is null then 1 else 0 end
    from promo_store.unstored where received_at < kept_from
  ) as old_rows (partition_no, duplicate, dead_letter, without_key)
  group by partition_no
  on conflict (partition_no) do update set duplicates = d.duplicates + excluded.duplicates,
    dead_letters = d.dead_letters + excluded.dead_letters, without_key = d.without_key + excluded.without_key;
  -- Payloads may hold player data, so they are deleted with their verdicts.
  delete from promo_store.panics where decided_at < kept_from;
  -- Without the key, tags in event_keys and rounds confirm no guess of a player. No row of these tables has
  -- to change.
  delete from promo_store.player_keys where month < kept_from at time zone 'utc';

  for old in select * from promo_store.month_tables() t where t.month < kept_from at time zone 'utc' order by t.month, t.name loop
    execute format('drop table promo_store.%I', old.name);
    insert into promo_store.months (parent, month, made_at, dropped_at) values (old.parent, old.month, '-infinity', clock_timestamp())
      on conflict on constraint months_pkey do update set dropped_at = excluded.dropped_at;
    dropped := dropped || old.name;
    return next old.name;
  end loop;
  -- A daily run that drops nothing is not logged.
  if cardinality(dropped) > 0 then
    insert into promo_store.operations (operation, began_at, ended_at, request, outcome)
    values ('retention', began, clock_timestamp(), jsonb_build_object('first_kept', kept_from at time zone 'utc'), jsonb_build_object('dropped', dropped));
  end if;
end
$$;

create function promo.forget_dropped_players(pages int default 500, out events bigint, out rounds bigint, out is_done boolean)
language plpgsql
security definer set search_path = pg_catalog, pg_temp
set enable_seqscan = off
set lock_timeout = '5s'
as $$
#variable_conflict use_variable
declare
  going promo_store.untagged;
  kept_from timestamptz;
  last_page bigint;
  page_range text;
begin
  if coalesce(pages, 0) < 1 then
    raise exception 'name how many pages to read at most' using errcode = 'invalid_parameter_value';
  end if;
  events := 0;
  rounds := 0;
  select * into going from promo_store.untagged u for update;
  if going.table_name is null then
    -- All rows without tags belong to dropped months, and are forgotten.
    is_done := coalesce(going.dropped_before >= going.until, false);
    if is_done then
      return;
    end if;
    select coalesce(min(t.month)::timestamp, date_trunc('month', now() at time zone 'utc')) at time zone 'utc' into kept_from
    from promo_store.month_tables() t where t.parent = 'history';
    is_done := coalesce(going.dropped_before >= kept_from, false);
    if is_done then
      return;
    end if;
    going.dropped_before := kept_from;
    going.table_name := 'event_keys';
    going.next_page := 0;
    -- Keys have no time. The order of verdict numbers is the order of time, to the minute.
    select coalesce(
      (select min(h.verdict_id) from promo_store.history h where h.decided_at < kept_from + interval '1 hour'),
      (select min(h.verdict_id) from promo_store.history h), 9223372036854775807) into going.verdicts_below;
  end if;

  last_page := pg_relation_size(format('promo_store.%I', going.table_name)) / current_setting('block_size')::bigint;
  page_range := format('ctid >= %L::tid and ctid < %L::tid', format('(%s,0)', going.next_page), format('(%s,0)', going.next_page + pages));
  if going.table_name = 'event_keys' then
    execute format('update promo_store.event_keys set content_hash = -9223372036854775808 where %s and content_hash >= 0 and verdict_id < $1', page_range)
      using going.verdicts_below;
    get diagnostics events = row_count;
  else
    -- Lock in the order in which workers lock rounds.
    execute format('with mine as materialized (
        select feed_no, round_key from promo_store.rounds where %s and player_hash is not null and opened_at < $1 order by feed_no, round_key for update)
      update promo_store.rounds r set player_hash = null from mine where r.feed_no = mine.feed_no and r.round_key = mine.round_key', page_range)
      using going.dropped_before;
    get diagnostics rounds = row_count;
  end if;
  going.next_page := going.next_page + pages;
  if going.next_page > last_page then
    going.table_name := case going.table_name when 'event_keys' then 'rounds' end;
    going.next_page := 0;
  end if;
  is_done := going.table_name is null;
  update promo_store.untagged u set dropped_before = going.dropped_before, verdicts_below = going.verdicts_below, table_name = going.table_name,
    next_page = going.next_page;
end
$$;
comment on function promo.forget_dropped_players is 'Forgets the hashes of players without a key in events and rounds of dropped months. A call reads at most the given number of pages: repeat it until is_done. Where tags exist since the first month, there is nothing to do.';
revoke execute on function promo.forget_dropped_players from public;

-- ---------------------------------------------------------------- what is there

comment on column promo_store.event_keys.content_hash is 'Hash of the content. Negative: 9 bits of month, 30 bits over everything but the player, 24 bits of the player''s tag, which an erasure removes. Zero or more: 53 bits over everything, from before tags. The lowest number: forgotten.';
comment on column promo_store.rounds.player_hash is 'Hash of the round and its first event''s player, from before tags. Forgotten with the player, or with the month.';
comment on column promo_store.history.player_ref is 'The player; null where it was not valid; erased:N after an erasure.';
comment on column promo_store.history.unmapped_brand is 'Brand text that is not registered for the operator; erased:N after an erasure.';

-- Rounds before history, as workers lock them.
alter table promo_store.rounds add column player_tag bigint;
comment on column promo_store.rounds.player_tag is 'Tag of the round''s first player, to notice another player: number of the month, and 44 bits of a hash that is keyed by month. Null: there is none, or the player is erased.';
alter table promo_store.rounds alter column player_tag set statistics 3;
do $$
declare
  month text;
begin
  for month in select t.name from promo_store.month_tables() t where t.parent = 'history' order by t.month loop
    execute format('alter table promo_store.%I replica identity full', month);
  end loop;
end
$$;
