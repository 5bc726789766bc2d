-- promo.check_invariants() checks whether the stored data is sound. promo.drop_months_before() is retention,
-- and keeps the store checkable. Functions that run as the owner let roles work with few privileges (see
-- src/ledger/roles.ts).
--
-- Locks: waits for a manual vacuum of the large tables, for a vacuum against wraparound, and for an index
-- build of them. Workers and readers wait for nothing. Time: instant. Safe while older workers run: the new
-- ensure_months does for them what the old one did.
--
-- Functions of the owner look names up in pg_catalog first, and in pg_temp last. Otherwise a role that may
-- create temporary tables and types could put its own in place of ours.
--
-- The check has to know which rows may be missing. Keys, rounds and counters are kept forever; history,
-- resends and unstored are not. So the store notes when a month's table was created, when it was dropped, and
-- how many counted rows were dropped with it.

create table promo_store.months (
  parent text not null,
  month date not null,
  made_at timestamptz not null,
  dropped_at timestamptz,
  primary key (parent, month)
);
comment on table promo_store.months is 'The tables of months: what was decided while there was none is not in them.';
comment on column promo_store.months.parent is 'history, resends or unstored.';
comment on column promo_store.months.month is 'First day of the month.';
comment on column promo_store.months.made_at is 'When its table was made, the last time.';
comment on column promo_store.months.dropped_at is 'When promo.drop_months_before dropped it; null for one that is there, or was dropped by other means.';

create table promo_store.dropped_rows (
  partition_no int primary key,
  duplicates bigint not null,
  dead_letters bigint not null,
  without_key bigint not null
);
comment on table promo_store.dropped_rows is 'Rows of each Kafka partition that were dropped with their months, so that counters can still be compared with rows.';
comment on column promo_store.dropped_rows.partition_no is 'The Kafka partition.';
comment on column promo_store.dropped_rows.duplicates is 'Rows of resends.';
comment on column promo_store.dropped_rows.dead_letters is 'Rows of unstored that were dead letters.';
comment on column promo_store.dropped_rows.without_key is 'Rows of unstored that had no usable event_id.';

-- An analyze reads a block for each row of its sample, wherever the row lies. By default it samples 30,000
-- rows of each table, whenever the table has grown by a tenth. Where memory does not hold the tables, each
-- block is a read from disk, and commits wait behind these reads. On a disk with 500 reads a second that
-- lasted a minute. Meanwhile a worker with half of its full load fell behind by 11 s. The worker's
-- statements only need to know which columns differ from row to row. Indexes serve queries of the views.
create function promo_store.sample_little(table_name text) returns void language plpgsql set search_path = pg_catalog, pg_temp as $$
begin
  execute (
    select format('alter table promo_store.%I %s', table_name, string_agg(format('alter column %I set statistics 3', attname), ', '))
    from pg_attribute
    where attrelid = format('promo_store.%I', table_name)::regclass and attnum > 0 and not attisdropped
  );
end
$$;
comment on function promo_store.sample_little is 'Lets a table be sampled by 900 rows for the planner''s statistics, not by 30,000.';
revoke execute on function promo_store.sample_little from public;

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
revoke execute on function promo_store.ensure_months from public;
select promo_store.sample_little(relname) from pg_class
where relnamespace = 'promo_store'::regnamespace and relkind = 'r' and (relname in ('event_keys', 'rounds') or relispartition);

-- ---------------------------------------------------------------- retention

create function promo.drop_months_before(first_kept date) returns setof text language plpgsql
security definer set search_path = pg_catalog, pg_temp
set lock_timeout = '3s'
as $$
#variable_conflict use_column
declare
  kept_from timestamptz := date_trunc('month', first_kept::timestamp) at time zone 'utc';
  old record;
begin
  if kept_from is null or kept_from > date_trunc('month', now() at time zone 'utc') at time zone 'utc' then
    raise exception 'only months that are over can be dropped: % is not, or is none', coalesce(first_kept::text, 'null')
      using errcode = 'invalid_parameter_value';
  end if;
  perform pg_catalog.pg_advisory_xact_lock(4915023772); -- one at a time, and none while months are made
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
    return next old.name;
  end loop;
end
$$;
comment on function promo.drop_months_before is 'Drops the history, resends and unstored records of all months before the one that the date is in, and answers with the tables that it dropped. Keys, rounds and counters stay. Gives up where it would wait more than 3 s for somebody.';
revoke execute on function promo.drop_months_before from public;

create function promo_store.month_tables() returns table (parent text, month date, name text) language sql stable set search_path = pg_catalog, pg_temp as $$
  select p.relname::text, to_date(right(c.relname, 7), 'YYYY_MM'), c.relname::text
  from pg_catalog.pg_inherits i
  join pg_catalog.pg_class c on c.oid = i.inhrelid
  join pg_catalog.pg_class p on p.oid = i.inhparent
  where p.relnamespace = 'promo_store'::regnamespace and p.relname in ('history', 'resends', 'unstored')
    and c.relname ~ '_[0-9]{4}_[0-9]{2}$'
$$;
comment on function promo_store.month_tables is 'The tables of months that are there.';

-- ---------------------------------------------------------------- invariants

create function promo_store.kept_from(parent_table text, out since timestamptz, out all_counted boolean) language sql stable set search_path = pg_catalog, pg_temp as $$
  select coalesce(max(case when t.name is null then (e.month + interval '1 month')::timestamp at time zone 'utc' else m.made_at end), '-infinity'),
    coalesce(bool_and(t.name is null and m.dropped_at is not null), true)
  from (
    select month::date, greatest(month::timestamp at time zone 'utc', v.first_applied) as begins
    from (select min(applied_at) as first_applied from promo_store.reference_versions) v,
      generate_series(date_trunc('month', v.first_applied at time zone 'utc'), now() at time zone 'utc', interval '1 month') month
  ) e
  left join promo_store.month_tables() t on t.parent = parent_table and t.month = e.month
  left join promo_store.months m on m.parent = parent_table and m.month = e.month
  where t.name is null or m.made_at > e.begins
$$;
comment on function promo_store.kept_from is 'Since when a table by month has all that was written to it (-infinity: since ever), and whether all that was dropped before is counted in dropped_rows.';

create function promo_store.key_text(key bytea) returns text language sql immutable parallel safe set search_path = pg_catalog, pg_temp as $$
  select case
    when octet_length(key) = 16 then encode(key, 'hex')::uuid::text
    when octet_length(key) < 16 then encode(key, 'escape')
    else encode(key, 'hex')
  end
$$;
comment on function promo_store.key_text is 'An id as far as its key tells it: a short id (other than ASCII escaped), a UUID, or the digits of its digest.';

create function promo.check_invariants()
returns table (invariant text, what text, feed_id text, event_id text, round_id text, source text, in_all bigint)
-- Stable: every statement in it sees the snapshot of the calling statement, so workers may go on meanwhile.
language plpgsql stable
security definer set search_path = pg_catalog, pg_temp
-- Read everything once and join by hashes. Statistics of a growing table may be old, and a nested loop over
-- millions of rows would not end.
set enable_nestloop = off
set jit = off
set max_parallel_workers_per_gather = 0
set work_mem = '64MB'
as $$
#variable_conflict use_column
declare
  most constant int := 100;
  kept_history constant timestamptz := (select since from promo_store.kept_from('history'));
  all_duplicates constant boolean := (select all_counted from promo_store.kept_from('resends'));
  all_unstored constant boolean := (select all_counted from promo_store.kept_from('unstored'));
  last_dropped bigint := 0;
begin
  -- The highest verdict_id whose month may have been dropped. Keys have no time. A number and its time are
  -- taken at nearly the same moment, so they agree to the minute.
  if kept_history > '-infinity' then
    select coalesce(max(verdict_id) filter (where decided_at < kept_history + interval '1 minute'), min(verdict_id) - 1, 9223372036854775807)
    into last_dropped from promo_store.history;
  end if;

  return query
  with damages as (
    select *, count(*) over () as in_all
    from (
      select verdict_id, coalesce(h.feed_no, k.feed_no) as feed_no, h.event_id, k.event_key, 1 as verdicts
      from promo_store.history h full join promo_store.event_keys k using (verdict_id)
      where case
        when h.verdict_id is null then verdict_id > last_dropped
        when k.verdict_id is null then true
        else h.feed_no <> k.feed_no or h.outcome <> k.outcome
          or h.partition_no is distinct from k.partition_no or h.source_offset is distinct from k.source_offset
          -- The same as promo_store.id_key, computed from the key: matching the pattern of a UUID takes
          -- longer than all the rest.
          or not case octet_length(k.event_key)
            when 16 then h.event_id = encode(k.event_key, 'hex')::uuid::text
            when 20 then k.event_key = substr(sha256(convert_to(h.event_id, 'UTF8')), 1, 20)
            else k.event_key = convert_to(h.event_id, 'UTF8')
          end
      end
      union all
      select verdict_id, min(feed_no), min(event_id), null, count(*) from promo_store.history group by verdict_id having count(*) > 1
    ) as d
    order by verdict_id limit most
  )
  select 'I1',
    case
      when verdicts > 1 then format('%s verdicts have the verdict_id %s', verdicts, verdict_id)
      when event_id is null then format('the event is decided (verdict_id %s) and has no verdict, though its month was not dropped', verdict_id)
      when event_key is not null then format('key and verdict (verdict_id %s) of the event disagree on id, outcome or source', verdict_id)
      when exists (select from promo_store.event_keys k where k.feed_no = d.feed_no and k.event_key = promo_store.id_key(d.event_id))
        then format('the event has another verdict (verdict_id %s) than that of its key', verdict_id)
      else format('the event has a verdict (verdict_id %s) and no key: it could be decided again', verdict_id)
    end,
    f.feed_id, coalesce(event_id, promo_store.key_text(event_key)), null::text, null::text, in_all
  from damages d left join promo_store.feeds f using (feed_no);

  return query
  with counted_rows as materialized (
    select partition_no, sum(accepted) as accepted, sum(rejected) as rejected, sum(skipped) as skipped, sum(duplicates) as duplicates,
      sum(dead_letters) as dead_letters, sum(without_key) as without_key, max(last_offset) as last_offset
    from (
      select partition_no, count(*) filter (where outcome = 0), count(*) filter (where outcome between 1 and 19),
        count(*) filter (where outcome >= 20), 0, 0, 0, max(source_offset)
      from promo_store.event_keys where partition_no is not null group by partition_no
      union all
      select partition_no, 0, 0, 0, count(*), 0, 0, max(source_offset) from promo_store.resends where partition_no is not null group by partition_no
      union all
      select partition_no, 0, 0, 0, 0, count(dead_letter), count(*) - count(dead_letter), max(source_offset) from promo_store.unstored group by partition_no
      union all
      select partition_no, 0, 0, 0, duplicates, dead_letters, without_key, null from promo_store.dropped_rows
    ) as seen (partition_no, accepted, rejected, skipped, duplicates, dead_letters, without_key, last_offset)
    group by partition_no
  ),
  compared as (
    select p.topic || '/' || p.partition as source, p.partition_no, p.records_read, p.next_offset, coalesce(c.last_offset, -1) as last_offset,
      p.accepted + p.rejected + p.skipped + p.duplicates + p.redeliveries + p.dead_letters + p.without_key as became,
      n.name, n.counter, coalesce(n.found, 0) as found, n.all_there
    from promo_store.partitions p
    left join counted_rows c using (partition_no)
    cross join lateral (values
      ('accepted events', p.accepted, c.accepted, true),
      ('rejected events', p.rejected, c.rejected, true),
      ('skipped events', p.skipped, c.skipped, true),
      ('duplicate deliveries', p.duplicates, c.duplicates, all_duplicates),
      ('dead letters', p.dead_letters, c.dead_letters, all_unstored),
      ('events without key', p.without_key, c.without_key, all_unstored)
    ) as n (name, counter, found, all_there)
  ),
  damages as (
    select distinct 'I2' as invariant, format('next_offset is %s, and the record at offset %s is decided', next_offset, last_offset) as what, source
    from compared where last_offset >= next_offset
    union all
    select distinct 'I5', format('%s records were read, and %s are counted as what became of them', records_read, became), source
    from compared where records_read <> became
    union all
    select 'I5', format('%s %s are counted, and there are rows of %s%s', counter, name, found, case when all_there then '' else ' and of dropped months' end), source
    from compared where counter <> found and (all_there or counter < found)
    union all
    select 'I5', format('%s rows are of the partition number %s, which stands for no partition',
      accepted + rejected + skipped + duplicates + dead_letters + without_key, partition_no), null
    from counted_rows where partition_no not in (select partition_no from promo_store.partitions)
  )
  select invariant, what, null::text, null::text, null::text, source, count(*) over (partition by invariant)
  from damages order by invariant, source, what limit most;

  return query
  with history as (
    select round_no, coalesce(currency_no, 0::smallint) as currency_no,
      coalesce(sum(amount_minor) filter (where kind = 1 and counted), 0) as bet,
      coalesce(sum(amount_minor) filter (where kind = 2 and counted), 0) as win,
      coalesce(sum(amount_minor) filter (where kind = 3 and counted), 0) as settled,
      coalesce(sum(amount_minor) filter (where outcome = 24), 0) as below_min_bet,
      count(*) filter (where kind = 3 and counted) as counted_settled,
      count(*) filter (where kind = 4 and outcome = 0) as refunds,
      min(feed_no) as first_feed, max(feed_no) as last_feed
    from promo_store.history where round_no is not null
    group by round_no, currency_no
  ),
  states as (
    select round_no, currency_no, bet_minor, win_minor, settled_minor, below_min_bet_minor from promo_store.rounds where currency_no is not null
    union all
    select r.round_no, u.currency_no, (o.value ->> 'bet')::numeric, (o.value ->> 'win')::numeric, (o.value ->> 'settled')::numeric,
      (o.value ->> 'belowMinBet')::numeric
    from promo_store.rounds r cross join lateral jsonb_each(r.other_sums) o join promo_store.currencies u on u.code = o.key
    where r.other_sums is not null
  ),
  sums as (
    select round_no, currency_no,
      sum(bet * sign) as bet, sum(win * sign) as win, sum(settled * sign) as settled, sum(below_min_bet * sign) as below_min_bet,
      sum(counted_settled) as counted_settled, sum(refunds) as refunds, min(first_feed) as first_feed, max(last_feed) as last_feed
    from (
      select 1 as sign, h.* from history h
      union all
      select -1, s.*, 0, 0, null, null from states s
    ) as both_sides
    group by round_no, currency_no
  ),
  rounds as (
    -- A round may be older than the kept history. Then events may be missing, and the round's sums may only
    -- be higher than those of its events.
    select round_no,
      sum(counted_settled) as counted_settled, sum(refunds) as refunds, min(first_feed) as first_feed, max(last_feed) as last_feed,
      bool_or(bet <> 0 or win <> 0 or settled <> 0 or below_min_bet <> 0) as differs,
      bool_or(bet > 0 or win > 0 or settled > 0 or below_min_bet > 0) as exceeds,
      min(format('bet %s, win %s, settled %s, below the minimum %s', bet, win, settled, below_min_bet))
        filter (where bet <> 0 or win <> 0 or settled <> 0 or below_min_bet <> 0) as difference
    from sums group by round_no
  ),
  refunds as (
    select r.round_no, k.event_key is not null as is_accepted
    from promo_store.rounds r
    left join promo_store.event_keys k on k.feed_no = r.feed_no and k.event_key = promo_store.id_key(r.refunded_by) and k.outcome = 0
    where r.refunded_by is not null
  ),
  damages as (
    select round_no, r.feed_no, r.round_id, unnest(array_remove(array[
      case when r.round_no is null then format('events of the round number %s are stored, and no such round', round_no) end,
      case when e.first_feed <> r.feed_no or e.last_feed <> r.feed_no then 'events of another feed are stored with the round' end,
      case when e.counted_settled > 1 then format('%s settled of the round are counted', e.counted_settled) end,
      case when e.counted_settled > 0 and not r.settled then 'a settled is counted, and the round does not know of it' end,
      case when e.refunds > 0 and r.refunded_by is null then 'a refund of the round is accepted, and the round is not refunded: its sum is not 0' end,
      case when not a.is_accepted or r.refunded_by is not null and r.opened_at >= kept_history and coalesce(e.refunds, 0) = 0
        then format('the round is refunded by %s, which is no accepted refund of it: its sum is 0', r.refunded_by) end,
      case when (r.refunded_by is null) <> (r.refunded_at is null) then 'the round has one of refunded_by and refunded_at' end,
      case when r.round_no is not null and case when r.opened_at >= kept_history then e.differs else e.exceeds end
        then format('its counted events are not what the round holds; they differ, in minor units of a currency, by %s', e.difference) end
    ], null)) as what
    from rounds e full join promo_store.rounds r using (round_no) left join refunds a using (round_no)
  )
  select 'I3', what, f.feed_id, null::text, d.round_id, null::text, count(*) over ()
  from damages d left join promo_store.feeds f using (feed_no)
  order by round_no, what limit most;

  return query
  with entries as (
    select verdict_id, count(*) filter (where reverses_entry_id is null) as entries, count(reverses_entry_id) as reversals,
      count(*) filter (where reverses_entry_id <> verdict_id * 2) as misnamed, sum(amount_minor) as amount_minor
    from promo.ledger group by verdict_id
  ),
  verdicts as (
    select h.verdict_id, h.feed_no, h.event_id, h.counted, h.outcome, h.kind, h.amount_minor, r.round_id, r.refunded_by is not null as refunded
    from promo_store.history h left join promo_store.rounds r using (round_no)
  ),
  damages as (
    select distinct verdict_id, v.feed_no, v.event_id, v.round_id, unnest(array_remove(array[
      case when v.verdict_id is null then format('an entry belongs to no verdict (verdict_id %s)', verdict_id) end,
      case when v.counted and v.outcome <> 0 then 'an entry belongs to the event, which is not accepted' end,
      case when v.counted and (v.kind is null or v.kind = 4) then 'an entry belongs to the event, which is a refund or of no known kind' end,
      case when v.counted and (v.kind <= 4) <> (v.round_id is not null) then 'the entry has no round, or one though it is of an account kind' end,
      case when v.counted and (v.kind = 7) <> (v.amount_minor is null) then 'the entry has no amount, or one though it is a login' end,
      case when coalesce(e.entries, 0) <> v.counted::int then format('the event has %s entries', coalesce(e.entries, 0)) end,
      case when coalesce(e.reversals, 0) <> (v.counted and v.refunded)::int or e.misnamed > 0
        then format('%s reversals belong to the entry, where %s should', coalesce(e.reversals, 0), (v.counted and v.refunded)::int) end,
      case when v.refunded and e.reversals = 1 and e.amount_minor <> 0 then format('entry and reversal are not 0 together, but %s', e.amount_minor) end
    ], null)) as what
    from verdicts v full join entries e using (verdict_id)
  )
  select 'I4', what, f.feed_id, d.event_id, d.round_id, null::text, count(*) over ()
  from damages d left join promo_store.feeds f using (feed_no)
  order by verdict_id, what limit most;
end
$$;
comment on function promo.check_invariants is 'What of the stored contradicts itself: a row for each damage found, at most 100 of an invariant, and none where everything is sound. Reads everything once; may run beside workers, and on a replica.';
revoke execute on function promo.check_invariants from public;

create function promo_store.decided_offsets(topics text[], partitions int[], lows bigint[])
returns table (topic text, partition int, next_offset bigint, records bigint, offsets bigint)
language sql stable
security definer set search_path = pg_catalog, pg_temp
set enable_nestloop = off
as $$
  with wanted as (
    select p.partition_no, p.topic, p.partition, p.next_offset, p.records_read - p.redeliveries as records, coalesce(r.low, 0) as low
    from promo_store.partitions p left join unnest(topics, partitions, lows) r (topic, partition, low) using (topic, partition)
  ),
  rows_of as (
    select partition_no, source_offset from promo_store.event_keys
    union all select partition_no, source_offset from promo_store.resends
    union all select partition_no, source_offset from promo_store.unstored
  )
  select w.topic, w.partition, w.next_offset, w.records, count(distinct o.source_offset)
  from wanted w left join rows_of o on o.partition_no = w.partition_no and o.source_offset >= w.low
  group by w.topic, w.partition, w.next_offset, w.records
$$;
comment on function promo_store.decided_offsets is 'How far each partition is decided, the records read for the first time, and the offsets from a low one on that rows stand for.';
revoke execute on function promo_store.decided_offsets from public;

-- ---------------------------------------------------------------- readers without player data

create function promo.verdict_id_of(feed text, event text) returns bigint language sql stable parallel safe as $$
  select verdict_id from promo.events where feed_id = feed and event_key = promo_store.id_key(event)
$$;
comment on function promo.verdict_id_of is 'Number of the verdict on one event, by feed_id and event_id; null where it was never decided. Its row: where verdict_id = (select promo.verdict_id_of(feed, event)).';
-- It returns all columns, so Postgres refuses a role that may not read all of them. The function before
-- looked the event up itself, and was refused to a role that may read all columns, too.
create or replace function promo.verdict_of(feed text, event text) returns setof promo.verdicts language sql stable parallel safe as $$
  -- Compare with a value, not by a join: the planner pushes a value, but no join, into the joined tables.
  select v.* from promo.verdicts v where v.verdict_id = (select promo.verdict_id_of(feed, event))
$$;
comment on column promo.verdicts.event_id is 'The event''s id, unique forever in its feed. To look one up use promo.verdict_id_of or promo.verdict_of: no index leads from here.';
comment on column promo.ledger.verdict_id is 'Verdict of the event whose entry this is, or is reversed here. The entries of an event: where verdict_id = (select promo.verdict_id_of(feed, event)).';
