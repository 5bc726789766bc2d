-- Adds the log of operations: who changed stored data or had records read again, when, and how much. Also
-- adds functions and views for operations: the tables that retention would drop, erasure of players in
-- batches, the versions of schema and reference data.
--
-- Locks: only creates and replaces, and waits for nothing. Time: instant. Safe while older workers run: they
-- do not use the log. promo.drop_months_before works as before, and also logs.

create table promo_store.operations (
  operation_no bigint generated always as identity primary key,
  operation text not null,
  began_at timestamptz not null default clock_timestamp(),
  ended_at timestamptz,
  role text not null default session_user,
  requested_by text default nullif(current_setting('promo.requested_by', true), ''),
  request jsonb not null,
  outcome jsonb
);
comment on table promo_store.operations is 'The log of operations. Rows are added and ended by functions, and never deleted.';
comment on column promo_store.operations.operation_no is 'Number of the operation.';
comment on column promo_store.operations.operation is 'What was done: retention, erasure, replay, dead_letter_replay or reference_rollback.';
comment on column promo_store.operations.began_at is 'When it began.';
comment on column promo_store.operations.ended_at is 'When it ended; null while it runs, and where it was broken off.';
comment on column promo_store.operations.role is 'The role of the database that did it.';
comment on column promo_store.operations.requested_by is 'Who asked for it, by their own word: the setting promo.requested_by of the session.';
comment on column promo_store.operations.request is 'What was asked for: a range, a month, an operator. Never a player.';
comment on column promo_store.operations.outcome is 'How many of what it was.';

create view promo.operations as
select operation_no, operation, began_at, ended_at, role, requested_by, request, outcome from promo_store.operations;
comment on view promo.operations is 'The log of operations: retention, erasures of players, replays, and reference data that was rolled back.';
comment on column promo.operations.operation_no is 'Number of the operation.';
comment on column promo.operations.operation is 'What was done: retention, erasure, replay, dead_letter_replay or reference_rollback.';
comment on column promo.operations.began_at is 'When it began.';
comment on column promo.operations.ended_at is 'When it ended; null while it runs, and where it was broken off.';
comment on column promo.operations.role is 'The role of the database that did it.';
comment on column promo.operations.requested_by is 'Who asked for it, by their own word.';
comment on column promo.operations.request is 'What was asked for: a range, a month, an operator. Never a player.';
comment on column promo.operations.outcome is 'How many of what it was.';

create function promo.begin_operation(operation text, request jsonb) returns bigint language plpgsql
security definer set search_path = pg_catalog, pg_temp
as $$
#variable_conflict use_variable
declare
  number bigint;
begin
  -- verify trusts the notes of retention. Only retention and erasures may log themselves.
  if operation not in ('replay', 'dead_letter_replay', 'reference_rollback') then
    raise exception '% is no operation that is noted by itself', operation using errcode = 'invalid_parameter_value';
  end if;
  insert into promo_store.operations (operation, request) values (operation, request) returning operation_no into number;
  return number;
end
$$;
comment on function promo.begin_operation is 'Adds a replay, a dead_letter_replay or a reference_rollback to the log, and answers with its number.';
revoke execute on function promo.begin_operation from public;

create function promo.end_operation(number bigint, result jsonb) returns void language plpgsql
security definer set search_path = pg_catalog, pg_temp
as $$
begin
  update promo_store.operations set ended_at = clock_timestamp(), outcome = result
  where operation_no = number and role = session_user and ended_at is null;
  if not found then
    raise exception 'no operation % of % is under way', number, session_user using errcode = 'invalid_parameter_value';
  end if;
end
$$;
comment on function promo.end_operation is 'Notes that an operation has ended, and what came of it. Only for the role that began it, and once.';
revoke execute on function promo.end_operation from public;

-- ---------------------------------------------------------------- versions

create view promo.migrations as
select name::text, migration_time as ran_at from promo_store.migrations;
comment on view promo.migrations is 'The migrations that ran: the version of the schema.';
comment on column promo.migrations.name is 'Name of the migration.';
comment on column promo.migrations.ran_at is 'When it ran.';

create view promo.reference_versions as
select
  version,
  applied_at,
  jsonb_array_length(document -> 'operators') as operators,
  array(select distinct topic #>> '{}' from jsonb_path_query(document, '$.operators[*].connections[*].topic') topic order by 1) as topics
from promo_store.reference_versions;
comment on view promo.reference_versions is 'Every version of the reference data; the highest is in force.';
comment on column promo.reference_versions.version is 'Number of the version, as it stands with each verdict that it gave.';
comment on column promo.reference_versions.applied_at is 'When it was applied.';
comment on column promo.reference_versions.operators is 'How many operators it names.';
comment on column promo.reference_versions.topics is 'The topics that its connections name.';

-- ---------------------------------------------------------------- retention

create function promo.retention_plan(first_kept date) returns table (name text, month date, row_estimate bigint, bytes bigint)
language sql stable
security definer set search_path = pg_catalog, pg_temp
as $$
  select t.name, t.month, greatest(c.reltuples, 0)::bigint, pg_catalog.pg_total_relation_size(c.oid)
  from promo_store.month_tables() t
  join pg_catalog.pg_class c on c.relname = t.name and c.relnamespace = 'promo_store'::regnamespace
  where t.month < date_trunc('month', first_kept::timestamp) order by t.month, t.name
$$;
comment on function promo.retention_plan is 'The tables that promo.drop_months_before would drop, with their rows, as last analyzed, and their size.';
revoke execute on function promo.retention_plan from public;

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

-- ---------------------------------------------------------------- erasure of players

create function promo.erase_player(operator text, player text, most int default 10000, erasure bigint default null,
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
         update promo_store.%1$I set player_ref = $4
         where ctid = any(array(select ctid from promo_store.%1$I where player_ref = $1 and feed_no = any($2) limit $3 for update))
         returning round_no)
       select count(*), array_agg(distinct round_no) filter (where round_no is not null) from mine', month.name)
    into found_verdicts, found_rounds using player, feeds, most - verdicts, replacement;
    verdicts := verdicts + found_verdicts;
    round_nos := round_nos || found_rounds;
  end loop;
  is_done := verdicts < most;

  -- The hash of round and player names nobody, but it confirms a guess of the player. Lock in the order in
  -- which workers lock rounds.
  with mine as materialized (
    select r.feed_no, r.round_key from promo_store.rounds r where r.round_no = any(round_nos) and r.player_hash is not null
    order by r.feed_no, r.round_key for update
  )
  update promo_store.rounds r set player_hash = null from mine where r.feed_no = mine.feed_no and r.round_key = mine.round_key;
  get diagnostics rounds = row_count;

  if is_done then
    -- A failed payload is stored byte for byte. It may contain the name in any form, escaped or in Avro, so
    -- all payloads of the operator are deleted.
    update promo_store.panics p set payload = null, error = replacement
    where p.payload is not null
      -- Compare with a value: a join would read all of history. Both rows have the time of one transaction.
      -- The time selects the month; without it, Postgres searches all months.
      and (select h.feed_no from promo_store.history h where h.verdict_id = p.verdict_id
        and h.decided_at between p.decided_at - interval '1 hour' and p.decided_at + interval '1 hour' limit 1) = any(feeds);
    get diagnostics payloads = row_count;
  end if;

  update promo_store.operations o set
    ended_at = case when is_done then clock_timestamp() end,
    outcome = jsonb_build_object('verdicts', (o.outcome ->> 'verdicts')::bigint + verdicts, 'rounds', (o.outcome ->> 'rounds')::bigint + rounds,
      'payloads', (o.outcome ->> 'payloads')::bigint + payloads)
  where o.operation_no = erasure_no;
end
$$;
comment on function promo.erase_player is 'Replaces the player of an operator by erased:N in history, at most so many rows at once, with what else leads to the player. N is the number of the erasure, to be given again until is_done.';
revoke execute on function promo.erase_player from public;
