-- Several stores side by side, called cells, and the move of an operator from one cell to another. Batches
-- get numbers that no other cell gives. A table holds the state of each move. Checks take moved rows into
-- account.
--
-- Locks: takes promo_store.reference_versions and promo_store.operations for a moment, and waits for a
-- running `reference apply` and for readers of the log. Batches wait behind it for a moment, since they read
-- the version in force. Time: instant. Safe while older workers run: they need nothing of this.

-- ---------------------------------------------------------------- numbers of cells

create table promo_store.cell (
  is_only boolean primary key default true check (is_only),
  name text not null,
  number int not null,
  cells int not null,
  first_batch bigint not null,
  was_empty boolean not null
);
comment on table promo_store.cell is 'This store among several: one row, or none where there is one store. See promo.number_cell.';
comment on column promo_store.cell.is_only is 'Always true: there is one row.';
comment on column promo_store.cell.name is 'Name of the cell.';
comment on column promo_store.cell.number is 'The remainder of the batch numbers of this cell, divided by the number of cells.';
comment on column promo_store.cell.cells is 'The most cells that can exist side by side. Equal in all of them.';
comment on column promo_store.cell.first_batch is 'The first batch number with this remainder. Lower numbers were given before.';
comment on column promo_store.cell.was_empty is 'Whether the store had no events then. It has no lower numbers in that case.';

create function promo.number_cell(name text, number int, cells int, after bigint default 0) returns bigint language plpgsql
security definer set search_path = pg_catalog, pg_temp
set lock_timeout = '3s'
as $$
#variable_conflict use_variable
declare
  past bigint;
  first bigint;
  known promo_store.cell;
begin
  if coalesce(name, '') = '' or number is null or cells is null or cells not between 2 and 64 or number not between 0 and cells - 1 then
    raise exception 'name the cell, its number from 0, and the most cells that can exist: from 2 to 64' using errcode = 'invalid_parameter_value';
  end if;
  select * into known from promo_store.cell;
  if found and (known.number <> number or known.cells <> cells) then
    raise exception 'this store is cell % of % already: verdict ids of other cells may have the numbers of another remainder', known.number, known.cells
      using errcode = 'invalid_parameter_value', hint = 'Give the number and the most cells as before. Only the name may change.';
  end if;
  if found then
    update promo_store.cell c set name = number_cell.name;
    return known.first_batch;
  end if;
  -- The step changes first, which locks the sequence. So no batch takes a number between the next lines.
  execute format('alter sequence promo_store.batch_numbers increment by %s', cells);
  select case when s.is_called then s.last_value else s.last_value - 1 end into past from promo_store.batch_numbers s;
  past := greatest(past, after);
  first := past + 1 + ((number - (past + 1) % cells) + cells) % cells;
  perform setval('promo_store.batch_numbers', first, false);
  insert into promo_store.cell (name, number, cells, first_batch, was_empty)
  values (name, number, cells, first, not exists (select from promo_store.event_keys));
  return first;
end
$$;
comment on function promo.number_cell is 'Makes this store one of several cells. From the returned batch number on, its batches have numbers that no other cell gives: those with the remainder number, divided by cells. For a new cell, set after to the number that the first cell returned.';
revoke execute on function promo.number_cell from public;

create view promo.cell as select name, number, cells, first_batch from promo_store.cell;
comment on view promo.cell is 'This store among several cells: one row, or none where there is one store.';
comment on column promo.cell.name is 'Name of the cell.';
comment on column promo.cell.number is 'Number of the cell, from 0.';
comment on column promo.cell.cells is 'The most cells that can exist side by side.';
comment on column promo.cell.first_batch is 'From this batch on, verdict ids are unique over all cells. A verdict id is the batch number times 8192, plus a place in the batch.';

-- ---------------------------------------------------------------- moves

create table promo_store.moves (
  operator_id text primary key,
  direction text not null check (direction in ('out', 'in')),
  other_cell text not null,
  state text not null check (state in ('copying', 'hidden', 'done')),
  began_at timestamptz not null default clock_timestamp(),
  ended_at timestamptz,
  numbers jsonb
);
comment on table promo_store.moves is 'The last move of each operator from or to another cell. While a row is not done, reference data, erasures and retention of this store leave the operator alone.';
comment on column promo_store.moves.operator_id is 'The operator.';
comment on column promo_store.moves.direction is 'out: the operator leaves this store. in: it arrives.';
comment on column promo_store.moves.other_cell is 'Name of the other cell.';
comment on column promo_store.moves.state is 'copying: rows are copied, and only the old store shows them. hidden: the old store no longer shows them. done: all rows are moved.';
comment on column promo_store.moves.began_at is 'When the move began.';
comment on column promo_store.moves.ended_at is 'When it was done; null before.';
comment on column promo_store.moves.numbers is 'in: numbers of the other store, each with that of this one. out: the feeds, and the numbers of partitions whose rows are deleted.';

create table promo_store.move_steps (
  operator_id text not null references promo_store.moves on delete cascade,
  step text not null,
  up_to bytea,
  rows bigint not null,
  is_done boolean not null,
  primary key (operator_id, step)
);
comment on table promo_store.move_steps is 'How far each table of an arriving operator is copied. Written in the transaction of the copied rows.';
comment on column promo_store.move_steps.operator_id is 'The operator.';
comment on column promo_store.move_steps.step is 'The table, with its feed or month.';
comment on column promo_store.move_steps.up_to is 'The last copied key, where the table is copied in ranges of keys.';
comment on column promo_store.move_steps.rows is 'Copied rows.';
comment on column promo_store.move_steps.is_done is 'Whether the table is copied whole.';

create table promo_store.arrivals (
  operator_id text not null,
  from_cell text not null,
  arrived_at timestamptz not null default clock_timestamp(),
  numbers_up_to bigint not null,
  kept jsonb not null,
  numbers jsonb not null
);
comment on table promo_store.arrivals is 'Every arrival of an operator, kept forever. The checks of this store read how its rows are numbered and since when they are complete.';
comment on column promo_store.arrivals.operator_id is 'The operator.';
comment on column promo_store.arrivals.from_cell is 'The cell that it came from.';
comment on column promo_store.arrivals.arrived_at is 'When its rows became visible.';
comment on column promo_store.arrivals.numbers_up_to is 'Up to this number, verdicts and rounds of two cells lie among each other: their order is not that of time.';
comment on column promo_store.arrivals.kept is 'For each table by month: since when both stores had all its rows, and whether all dropped rows are counted.';

comment on column promo_store.arrivals.numbers is 'As in promo_store.moves.';

create view promo.moves as select operator_id, direction, other_cell, state, began_at, ended_at from promo_store.moves;
comment on view promo.moves is 'The last move of each operator from or to another cell.';
comment on column promo.moves.operator_id is 'The operator.';
comment on column promo.moves.direction is 'out: the operator leaves this store. in: it arrives.';
comment on column promo.moves.other_cell is 'Name of the other cell.';
comment on column promo.moves.state is 'copying, hidden or done. Until it is done, run the command of the move again.';
comment on column promo.moves.began_at is 'When the move began.';
comment on column promo.moves.ended_at is 'When it was done; null before.';

create function promo_store.refuse_moved_operators() returns trigger language plpgsql
security definer set search_path = pg_catalog, pg_temp
as $$
declare
  moved promo_store.moves;
begin
  select m.* into moved from promo_store.moves m join jsonb_array_elements(new.document -> 'operators') o on o ->> 'id' = m.operator_id
  where m.direction = 'out' or m.state <> 'done' order by m.operator_id limit 1;
  if found then
    raise exception 'the operator % % cell %', quote_literal(moved.operator_id),
      case when moved.direction = 'in' then 'is still arriving from' when moved.state = 'copying' then 'is leaving for' else 'has moved to' end, moved.other_cell
      using errcode = 'object_not_in_prerequisite_state', hint = case when moved.direction = 'in'
        then 'Finish the move first: run move-operator again.' else 'Leave the operator out here, and apply it in that cell.' end;
  end if;
  return new;
end
$$;
comment on function promo_store.refuse_moved_operators is 'Refuses reference data that names an operator of another cell: its events would be decided twice.';
revoke execute on function promo_store.refuse_moved_operators from public;
create trigger refuse_moved_operators before insert on promo_store.reference_versions
for each row execute function promo_store.refuse_moved_operators();

create function promo_store.refuse_during_move() returns trigger language plpgsql
security definer set search_path = pg_catalog, pg_temp
as $$
declare
  moving text;
begin
  select m.operator_id into moving from promo_store.moves m
  where m.state <> 'done' and (new.operation = 'retention' or m.operator_id = new.request ->> 'operator') limit 1;
  if found then
    raise exception 'the operator % is being moved to or from another cell', quote_literal(moving)
      using errcode = 'object_not_in_prerequisite_state', hint = 'Finish the move first: run move-operator again.';
  end if;
  return new;
end
$$;
comment on function promo_store.refuse_during_move is 'Refuses retention, and erasures of an operator, while a move copies the rows that they would change.';
revoke execute on function promo_store.refuse_during_move from public;
create trigger refuse_during_move before insert or update on promo_store.operations
for each row when (new.operation in ('retention', 'erasure')) execute function promo_store.refuse_during_move();

create function promo_store.refuse_attribution_during_move() returns trigger language plpgsql
security definer set search_path = pg_catalog, pg_temp
as $$
declare
  moving text;
begin
  select m.operator_id into moving from promo_store.feeds f join promo_store.moves m using (operator_id)
  where f.feed_no = coalesce(new.feed_no, old.feed_no) and m.state = 'copying';
  if found then
    raise exception 'the operator % is being moved to another cell', quote_literal(moving)
      using errcode = 'object_not_in_prerequisite_state', hint = 'Set the attribution in that cell, once the move is done.';
  end if;
  return coalesce(new, old);
end
$$;
comment on function promo_store.refuse_attribution_during_move is 'Refuses changes of attributions of an operator while a move copies them.';
revoke execute on function promo_store.refuse_attribution_during_move from public;
create trigger refuse_attribution_during_move before insert or update or delete on promo_store.attributions
for each row execute function promo_store.refuse_attribution_during_move();

-- ---------------------------------------------------------------- keys of tags from another cell

-- Tags name the number of their month. The other cell may have another key for a month. Its tags then get the
-- number of a month far in the future, and its key is stored under that month. Workers find it as any other
-- key.
alter table promo_store.player_keys add column of_month date;
comment on column promo_store.player_keys.of_month is 'For a key of another cell: the month of its events. The column month then only gives its tags a number of their own.';

create function promo_store.drop_foreign_keys() returns trigger language plpgsql
security definer set search_path = pg_catalog, pg_temp
as $$
begin
  delete from promo_store.player_keys k where k.of_month <= old.month;
  return null;
end
$$;
comment on function promo_store.drop_foreign_keys is 'Drops the keys of other cells together with the key of their month.';
revoke execute on function promo_store.drop_foreign_keys from public;
create trigger drop_foreign_keys after delete on promo_store.player_keys
for each row when (old.of_month is null) execute function promo_store.drop_foreign_keys();

-- ---------------------------------------------------------------- months

create function promo_store.create_month(parent text, month date) returns boolean language plpgsql
-- The settings fix how the bounds of months are written as text and parsed, whatever a database, a role or a
-- session uses.
set search_path = pg_catalog, pg_temp set timezone = 'UTC' set datestyle = 'ISO'
as $$
#variable_conflict use_variable
declare
  name text := parent || '_' || to_char(month, 'YYYY_MM');
begin
  if to_regclass('promo_store.' || name) is not null then
    return false;
  end if;
  lock table promo_store.months in share row exclusive mode; -- workers that start together make a month once
  -- Read the catalog table: to_regclass may answer from a cache that is older than the lock.
  if exists (select from pg_class where relnamespace = 'promo_store'::regnamespace and relname = name) then
    return false;
  end if;
  -- Create the table alone and attach it: writers of the parent go on, which "partition of" would not allow.
  execute format('create table promo_store.%I (like promo_store.%I including defaults including comments)', name, parent);
  execute format('comment on table promo_store.%I is %L', name, 'One month of ' || parent || '.');
  -- A BRIN index finds only summarized blocks, and a vacuum summarizes them. By default a vacuum waits for a
  -- fifth of the table. Until then look-ups read all rows behind the last summarized block.
  execute format('alter table promo_store.%I set (autovacuum_vacuum_insert_scale_factor = 0, autovacuum_vacuum_insert_threshold = 10000)', name);
  if parent = 'history' then
    -- An erasure updates these rows. A publication refuses updates of a table without an identity, and no
    -- column is unique.
    execute format('alter table promo_store.%I replica identity full', name);
    insert into promo_store.player_keys (month, key) values (month, promo_store.new_player_key())
      on conflict on constraint player_keys_pkey do nothing;
  end if;
  execute format('alter table promo_store.%I attach partition promo_store.%I for values from (%L) to (%L)',
    parent, name, month, month + interval '1 month');
  -- After the attach, which creates the indexes: an indexed expression has separate statistics.
  perform promo_store.sample_little(name);
  insert into promo_store.months (parent, month, made_at) values (parent, month, clock_timestamp())
    on conflict on constraint months_pkey do update set made_at = excluded.made_at, dropped_at = null;
  return true;
end
$$;
comment on function promo_store.create_month is 'Creates the table of one month; false where it exists.';
revoke execute on function promo_store.create_month from public;

create or replace function promo_store.ensure_months(months_ahead int default 2) returns int language plpgsql
-- Only the owner may attach a partition.
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
      created := created + promo_store.create_month(parent, month)::int;
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

-- ---------------------------------------------------------------- checks of a store with moved rows

create or replace function promo_store.kept_from(parent_table text, out since timestamptz, out all_counted boolean) language sql stable set search_path = pg_catalog, pg_temp as $$
  with own as (
    select coalesce(max(case when t.name is null then (e.month + interval '1 month')::timestamp at time zone 'utc' else m.made_at end), '-infinity') as since,
      coalesce(bool_and(t.name is null and m.dropped_at is not null), true) as all_counted
    from (
      select month::date, greatest(month::timestamp at time zone 'utc', v.first_applied) as begins
      from (select min(applied_at) as first_applied from promo_store.reference_versions) v,
        generate_series(date_trunc('month', v.first_applied at time zone 'utc'), now() at time zone 'utc', interval '1 month') month
    ) e
    left join promo_store.month_tables() t on t.parent = parent_table and t.month = e.month
    left join promo_store.months m on m.parent = parent_table and m.month = e.month
    where t.name is null or m.made_at > e.begins
  ),
  -- Months from before the first reference data of this store exist only where an operator has arrived.
  arrived as (
    select greatest(max((a.kept -> parent_table ->> 'since')::timestamptz),
        (select max((m.month + interval '1 month')::timestamp at time zone 'utc') from promo_store.months m where m.parent = parent_table and m.dropped_at is not null)) as since,
      bool_and((a.kept -> parent_table ->> 'all_counted')::boolean) as all_counted
    from promo_store.arrivals a having count(*) > 0
  )
  select greatest(own.since, arrived.since), own.all_counted and coalesce(arrived.all_counted, true)
  from own left join arrived on true
$$;

-- The function has 400 lines, and one expression changes: so the stored text is changed in place.
do $$
declare
  before constant text := 'from promo_store.history);
  end if;
  if of_month is not null';
  after constant text := 'from promo_store.history);
    -- Numbers of several cells lie among each other. A lower limit would report keys of dropped months.
    last_dropped := greatest(last_dropped, (select max(a.numbers_up_to) from promo_store.arrivals a where a.arrived_at >= kept_history));
  end if;
  if of_month is not null';
  source constant text := pg_get_functiondef('promo_store.find_damages(date)'::regprocedure);
begin
  if position(before in source) = 0 then
    raise exception 'promo_store.find_damages is not the function of 0018_checks_by_sums';
  end if;
  execute replace(source, before, after);
end
$$;

create function promo_store.refuse_check_during_move() returns void language plpgsql stable
set search_path = pg_catalog, pg_temp
as $$
declare
  moving text;
begin
  select m.operator_id into moving from promo_store.moves m where m.state <> 'done' limit 1;
  if found then
    raise exception 'the operator % is being moved: a check would report its rows', quote_literal(moving)
      using errcode = 'object_not_in_prerequisite_state', hint = 'Finish the move first: run move-operator again.';
  end if;
end
$$;
comment on function promo_store.refuse_check_during_move is 'Raises an error while only a part of an operator''s rows is stored.';
revoke execute on function promo_store.refuse_check_during_move from public;

create or replace function promo.check_invariants()
returns table (invariant text, what text, feed_id text, event_id text, round_id text, source text, in_all bigint)
language plpgsql stable
security definer set search_path = pg_catalog, pg_temp
as $$
begin
  perform promo_store.refuse_check_during_move();
  return query select * from promo_store.find_damages(null);
  return query select * from promo_store.find_attribution_damages();
end
$$;

create or replace function promo.check_month(month date)
returns table (invariant text, what text, feed_id text, event_id text, round_id text, source text, in_all bigint)
language plpgsql stable
security definer set search_path = pg_catalog, pg_temp
as $$
#variable_conflict use_column
declare
  of_month constant date := date_trunc('month', $1);
begin
  if not exists (select from promo_store.month_tables() t where t.parent = 'history' and t.month = of_month) then
    raise exception 'no history of the month % is stored', to_char(of_month, 'YYYY-MM')
      using errcode = 'invalid_parameter_value', hint = 'A month has history from its first day until it is dropped: see promo.retention_plan.';
  end if;
  perform promo_store.refuse_check_during_move();
  -- The numbers of a month are one range only where their order is that of time.
  if exists (select from promo_store.arrivals a where a.arrived_at >= of_month::timestamp at time zone 'utc') then
    return query select * from promo_store.find_damages(null) d where d.invariant in ('I1', 'I3', 'I4');
    return;
  end if;
  return query select * from promo_store.find_damages(of_month);
end
$$;
comment on function promo.check_month is 'The damages of one month (UTC). It checks I1, I3 and I4 of promo.check_invariants for the events decided and the rounds opened in the month of the date. It reads the history of the month, later history of these rounds, all rounds and all keys. The counters (I2 and I5) belong to no month: only promo.check_invariants compares them. Where an operator arrived from another cell in the month or later, it checks all months.';

comment on column promo.operations.operation is 'Kind of the operation: retention, erasure, replay, dead_letter_replay, reference_rollback or move.';
comment on column promo_store.operations.operation is 'Kind of the operation: retention, erasure, replay, dead_letter_replay, reference_rollback or move.';
