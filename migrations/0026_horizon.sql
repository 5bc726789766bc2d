-- The horizon: the newest number up to which every verdict is visible, or will never be. Copies of ledger,
-- verdicts and duplicates read up to it, and so need no overlap. A duplicate gets the number of its batch.
--
-- Locks: takes promo_store.resends for a moment, and waits for running batches and for readers of duplicates.
-- Workers wait with writing duplicates until the index is created. Time: one read of the duplicates, 1 s for
-- 4 million of them. Safe while older workers run: the default of the column gives their duplicates the
-- number.

-- ---------------------------------------------------------------- numbers of duplicates

create function promo_store.batch_of_transaction() returns bigint language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
begin
  return currval('promo_store.batch_numbers');
exception when object_not_in_prerequisite_state then
  return null; -- the session is not a worker: it has taken no number
end
$$;
comment on function promo_store.batch_of_transaction is 'The number that this session took last; null where it took none.';

-- Without a default at first: otherwise Postgres writes all rows again.
alter table promo_store.resends add column batch_no bigint;
alter table promo_store.resends alter column batch_no set default promo_store.batch_of_transaction();
comment on column promo_store.resends.batch_no is 'Number of the batch that answered the delivery. Null for deliveries from before the migration 0026. Older workers get it by the default.';
create index resends_batch on promo_store.resends using brin (batch_no) with (pages_per_range = 32);
select promo_store.sample_little(relname) from pg_class join pg_inherits on inhrelid = oid where inhparent = 'promo_store.resends'::regclass;

-- ---------------------------------------------------------------- the horizon

create function promo_store.last_batch() returns bigint language sql volatile set search_path = pg_catalog, pg_temp as $$
  select case when s.is_called then s.last_value else s.last_value - 1 end from promo_store.batch_numbers s
$$;
comment on function promo_store.last_batch is 'The number of the last batch that was given. Numbers are given outside of transactions, so it is never old.';
revoke execute on function promo_store.last_batch from public;

create function promo_store.batch_holders() returns table (holder text, process int) language sql volatile
set search_path = pg_catalog, pg_temp
as $$
  -- A prepared transaction has no process.
  select l.virtualtransaction, min(l.pid) from pg_locks l
  where l.locktype = 'relation' and l.relation = 'promo_store.batch_numbers'::regclass and l.granted and l.mode <> 'AccessShareLock'
    and l.database = (select d.oid from pg_database d where d.datname = current_database())
  group by 1
$$;
comment on function promo_store.batch_holders is 'The transactions that have taken a number and have not ended. A transaction locks the sequence before it takes a number, and until its end.';
revoke execute on function promo_store.batch_holders from public;

create function promo_store.check_numbers() returns void language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
declare
  numbers record;
  subscribed record;
  hasty text;
  problem text;
  remedy text;
begin
  select q.seqcache as reserved, q.seqincrement as step, q.seqcycle as begins_again, c.relpersistence as persistence into numbers
  from pg_sequence q join pg_class c on c.oid = q.seqrelid where q.seqrelid = 'promo_store.batch_numbers'::regclass;
  select quote_ident(b.subname) as name, quote_ident(c.relname) as written into subscribed
  from pg_subscription_rel r join pg_class c on c.oid = r.srrelid join pg_subscription b on b.oid = r.srsubid
  where c.relnamespace = 'promo_store'::regnamespace order by 1, 2 limit 1;
  select found.whose into hasty from (
    select 'this server' as whose from pg_settings g where g.name = 'synchronous_commit' and g.reset_val = 'off'
      and g.source in ('default', 'environment variable', 'configuration file', 'command line')
    union all
    select concat_ws(' in ', coalesce('the role ' || quote_ident(r.rolname), 'all roles'), 'the database ' || quote_ident(d.datname))
    from pg_db_role_setting s left join pg_roles r on r.oid = s.setrole left join pg_database d on d.oid = s.setdatabase
    where 'synchronous_commit=off' = any(s.setconfig) and (s.setdatabase = 0 or d.datname = current_database())
      and (s.setrole = 0 or has_table_privilege(s.setrole, 'promo_store.history', 'insert'))
  ) as found order by 1 limit 1;
  if numbers.reserved <> 1 then
    problem := format('sessions reserve %s numbers of promo_store.batch_numbers in advance, and use them later', numbers.reserved);
    remedy := 'Run: alter sequence promo_store.batch_numbers cache 1. Then start all workers again.';
  elsif numbers.step < 1 or numbers.begins_again then
    problem := 'the numbers of promo_store.batch_numbers do not ascend';
    remedy := 'Run: alter sequence promo_store.batch_numbers increment 1 no cycle. For one of several cells, the increment is the number of cells.';
  elsif numbers.persistence <> 'p' then
    problem := 'promo_store.batch_numbers is not logged, so a crash makes it give numbers again';
    remedy := 'Run: alter sequence promo_store.batch_numbers set logged.';
  elsif hasty is not null then
    problem := format('synchronous_commit is off for %s, so a crash loses decisions that were visible', hasty);
    remedy := 'Set it to on, or to any other value. Then start all workers again, since sessions keep the old value.';
  elsif subscribed.name is not null then
    problem := format('the subscription %s writes promo_store.%s, and its transactions take no numbers', subscribed.name, subscribed.written);
    remedy := 'Ask the server that publishes the table. Or drop the subscription once it is needed no longer.';
  end if;
  if problem is not null then
    raise exception '%', problem using errcode = 'object_not_in_prerequisite_state', hint = remedy;
  end if;
end
$$;
comment on function promo_store.check_numbers is 'Raises an error where the locks of promo_store.batch_numbers do not show which numbers may still commit.';
revoke execute on function promo_store.check_numbers from public;

create or replace function promo.batches_in_flight(out last_batch bigint, out transactions text[], out is_replica boolean) language plpgsql volatile
security definer set search_path = pg_catalog, pg_temp
as $$
begin
  is_replica := pg_is_in_recovery();
  perform promo_store.check_numbers();
  -- The number comes first. A transaction locks the sequence before it takes a number, and until its end. So
  -- each number up to this one belongs to a transaction that has ended, or that the second statement finds.
  last_batch := promo_store.last_batch();
  transactions := array(select h.holder from promo_store.batch_holders() h);
end
$$;

create function promo.safe_up_to(patience interval default '30 seconds') returns bigint language plpgsql volatile
security definer set search_path = pg_catalog, pg_temp
as $$
#variable_conflict use_variable
declare
  give_up_at constant timestamptz := clock_timestamp() + patience;
  pause double precision := 0.002;
  last_batch bigint;
  holders text[];
  stuck record;
  number_beyond bigint;
begin
  if pg_is_in_recovery() then
    raise exception 'this server is a replica, which does not know the transactions in flight'
      using errcode = 'object_not_in_prerequisite_state', hint = 'Ask the primary.';
  end if;
  -- In these modes the statements after this one read a snapshot from before the horizon.
  if current_setting('transaction_isolation') in ('repeatable read', 'serializable') then
    raise exception 'this transaction reads one snapshot, which may be older than the horizon'
      using errcode = 'object_not_in_prerequisite_state', hint = 'Use a transaction of the mode read committed.';
  end if;
  select f.last_batch, f.transactions into last_batch, holders from promo.batches_in_flight() f;
  loop
    select h.holder, h.process, p.gid into stuck
    from promo_store.batch_holders() h
    left join pg_locks t on h.process is null and t.pid is null and t.virtualtransaction = h.holder and t.locktype = 'transactionid'
    left join pg_prepared_xacts p on p.transaction = t.transactionid
    -- Later transactions have higher numbers.
    where h.holder = any(holders) order by h.process nulls first limit 1;
    exit when not found;
    if stuck.process is null then
      raise exception 'the prepared transaction % holds the number of a batch', quote_literal(coalesce(stuck.gid, stuck.holder))
        using errcode = 'object_not_in_prerequisite_state', hint = 'Commit it or roll it back. Workers prepare no transactions.';
    end if;
    if stuck.process = pg_backend_pid() then
      raise exception 'this transaction has taken the number of a batch itself'
        using errcode = 'object_not_in_prerequisite_state', hint = 'Ask in a transaction of its own.';
    end if;
    if clock_timestamp() >= give_up_at then
      raise exception 'process % has held the number of a batch for longer than %', stuck.process, patience
        using errcode = 'lock_not_available', hint = 'Try again: Postgres ends a batch that makes no progress. Find the process in pg_stat_activity where it stays.';
    end if;
    perform pg_sleep(pause);
    pause := least(pause * 2, 0.05);
  end loop;

  -- Numbers that the sequence has not given belong to another writer, or the sequence was set back.
  select max(h.verdict_id) / 8192 into number_beyond from promo_store.history h join promo_store.feeds f using (feed_no)
  where h.verdict_id >= (last_batch + 1) * 8192 and h.decided_at >= now() - interval '1 day';
  if number_beyond > promo_store.last_batch() then
    raise exception 'batch % is stored, and promo_store.batch_numbers has given numbers up to % only', number_beyond, promo_store.last_batch()
      using errcode = 'object_not_in_prerequisite_state', hint = 'Stop all workers, and set the sequence behind the highest number of promo_store.event_keys.';
  end if;
  return (last_batch + 1) * 8192 - 1;
end
$$;
comment on function promo.safe_up_to is 'The horizon: the newest number such that no verdict with it or a lower one can still appear. Waits for the batches in flight, a few milliseconds each, and gives up after the given time. A statement sees all of them only if it begins after this one has ended: see promo.changes.';
revoke execute on function promo.safe_up_to from public;

create function promo.lineage() returns text language sql volatile
security definer set search_path = pg_catalog, pg_temp
as $$
  select concat_ws('/', s.system_identifier, substr(pg_walfile_name(pg_current_wal_lsn()), 1, 8), (select count(*) from promo_store.arrivals),
    -- Without fsync, a crash of the machine may lose any decision.
    case when current_setting('fsync') = 'off' then extract(epoch from pg_postmaster_start_time())::bigint end)
  from pg_control_system() s
$$;
comment on function promo.lineage is 'Names the numbers of this store. It changes when a replica becomes the primary, when a backup is restored, and when an operator arrives from another cell. Where fsync is off, each start of the server changes it. A copy that has numbers of another lineage has to compare its rows.';
revoke execute on function promo.lineage from public;

create function promo_store.horizon_of(after bigint, up_to bigint, lineage text) returns bigint language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
#variable_conflict use_variable
declare
  safe bigint;
  present text;
begin
  if after is null then
    raise exception 'after is null' using errcode = 'invalid_parameter_value', hint = 'Give the highest change_no that the copy has. A new copy begins after -1.';
  end if;
  safe := promo.safe_up_to();
  present := promo.lineage();
  if lineage <> present then
    raise exception 'the numbers of the copy are of the lineage %, and those of this store of %', lineage, present
      using errcode = 'object_not_in_prerequisite_state', hint = 'Compare the copy first: see docs/operations/ledger-copies.md.';
  end if;
  if lineage is null and exists (select from promo_store.arrivals) then
    raise exception 'an operator has arrived from another cell, with lower numbers than the newest'
      using errcode = 'object_not_in_prerequisite_state', hint = 'Give the lineage of the copy as the third argument: see docs/operations/ledger-copies.md.';
  end if;
  if after > safe then
    raise exception 'the copy has numbers up to %, and this store has given numbers up to % only', after, safe
      using errcode = 'object_not_in_prerequisite_state', hint = 'The store has lost decisions that the copy has. Compare the copy first: see docs/operations/ledger-copies.md.';
  end if;
  if up_to > safe then
    raise exception 'verdicts may still appear up to %', up_to
      using errcode = 'object_not_in_prerequisite_state', hint = format('Read up to promo.safe_up_to() at most, which is %s now.', safe);
  end if;
  return coalesce(up_to, safe);
end
$$;
comment on function promo_store.horizon_of is 'The end of a range of numbers. It is refused where its rows are not final, or where the copy has rows that the store has not.';
revoke execute on function promo_store.horizon_of from public;

-- ---------------------------------------------------------------- increments

create view promo_store.changes as
select
  h.verdict_id as change_no,
  h.verdict_id * 2 as entry_id,
  f.operator_id,
  f.feed_id,
  h.event_id,
  promo.stored_id(r.round_id) as round_id,
  b.brand_id as brand,
  h.player_ref,
  promo_store.kind_name(h.kind) as kind,
  u.code as currency,
  u.scale,
  coalesce(h.amount_minor, 0) as amount_minor,
  coalesce(h.amount_minor * u.unit, 0) as amount,
  null::bigint as reverses_entry_id,
  h.decided_at as entered_at,
  h.verdict_id,
  h.game_id,
  h.occurred_at,
  h.decided_at
from promo_store.history h
left join promo_store.rounds r on r.round_no = h.round_no
join promo_store.feeds f on f.feed_no = h.feed_no and f.test_mark <> 1
left join promo_store.brands b on b.brand_no = h.brand_no
left join promo_store.currencies u on u.currency_no = h.currency_no
where h.counted
union all
select
  refund.verdict_id,
  h.verdict_id * 2 + 1,
  f.operator_id,
  f.feed_id,
  promo.stored_id(x.refunded_by collate "default") collate "C",
  promo.stored_id(r.round_id),
  b.brand_id,
  h.player_ref,
  promo_store.kind_name(h.kind),
  u.code,
  u.scale,
  - h.amount_minor,
  -h.amount_minor * u.unit,
  h.verdict_id * 2,
  x.refunded_at,
  h.verdict_id,
  h.game_id,
  h.occurred_at,
  h.decided_at
-- The refund that took effect. A round may have further accepted refunds.
from promo_store.history refund
join promo_store.refunds x on x.round_no = refund.round_no and x.refunded_by = refund.event_id
join promo_store.history h on h.round_no = x.round_no and h.counted
  -- As in promo.ledger: Postgres skips other months.
  and h.decided_at >= x.opened_at - interval '1 day' and h.decided_at <= coalesce(x.refunded_at, 'infinity') + interval '1 day'
left join promo_store.rounds r on r.round_no = x.round_no
join promo_store.feeds f on f.feed_no = h.feed_no and f.test_mark <> 1
left join promo_store.brands b on b.brand_no = h.brand_no
left join promo_store.currencies u on u.currency_no = h.currency_no
where refund.kind = 4 and refund.outcome = 0;
comment on view promo_store.changes is 'The rows of promo.ledger, each with the number of the verdict that made it.';
do $$
begin
  execute (
    select string_agg(format('comment on column promo_store.changes.%I is %L', a.attname, col_description(l.attrelid, l.attnum)), ';')
    from pg_attribute a join pg_attribute l using (attname)
    where a.attrelid = 'promo_store.changes'::regclass and l.attrelid = 'promo.ledger'::regclass and a.attnum > 0
  );
end
$$;
comment on column promo_store.changes.change_no is 'Number of the verdict that made the row: of the event for an entry, and of the refund for a reversal.';

create function promo.changes(after bigint, up_to bigint default null, lineage text default null)
returns table (change_no bigint, entry_id bigint, operator_id text, feed_id text, event_id text, round_id text, brand text, kind text, currency text, scale int,
  amount_minor bigint, amount numeric, reverses_entry_id bigint, entered_at timestamptz, verdict_id bigint, game_id text, occurred_at timestamptz, decided_at timestamptz)
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
  select c.change_no, c.entry_id, c.operator_id, c.feed_id, c.event_id, c.round_id, c.brand, c.kind, c.currency, c.scale,
    c.amount_minor, c.amount, c.reverses_entry_id, c.entered_at, c.verdict_id, c.game_id, c.occurred_at, c.decided_at
  from promo_store.changes c where c.change_no > $1 and c.change_no <= horizon order by c.change_no, c.entry_id;
end
$$;
comment on function promo.changes is 'The entries and reversals of promo.ledger with numbers above after, up to the horizon or to up_to, in order. No row appears later in a range that was read. The next range begins after the highest change_no. A new copy begins after -1. Refused where that cannot be promised: on a replica, and in a transaction that reads one snapshot.';
revoke execute on function promo.changes from public;

create function promo.changes_with_players(after bigint, up_to bigint default null, lineage text default null) returns setof promo_store.changes
language plpgsql volatile
security definer set search_path = pg_catalog, pg_temp
set plan_cache_mode = force_custom_plan
as $$
declare
  horizon constant bigint := promo_store.horizon_of($1, $2, $3);
begin
  return query select c.* from promo_store.changes c where c.change_no > $1 and c.change_no <= horizon order by c.change_no, c.entry_id;
end
$$;
comment on function promo.changes_with_players is 'As promo.changes, with player_ref. For roles that may see players: no role of promo-intake grant may call it.';
revoke execute on function promo.changes_with_players from public;

create function promo.new_verdicts(after bigint, up_to bigint default null, lineage text default null)
returns table (change_no bigint, verdict_id bigint, operator_id text, feed_id text, event_id text, verdict text, reason text, connection_id text, brand text,
  kind text, round_id text, game_id text, amount_minor bigint, currency text, scale int, amount numeric, occurred_at timestamptz, decided_at timestamptz,
  counted boolean, reference_version int, source_topic text, source_partition int, source_offset bigint)
language plpgsql volatile
security definer set search_path = pg_catalog, pg_temp
set plan_cache_mode = force_custom_plan
as $$
#variable_conflict use_column
declare
  horizon constant bigint := promo_store.horizon_of($1, $2, $3);
begin
  return query
  select v.verdict_id, v.verdict_id, v.operator_id, v.feed_id, v.event_id, v.verdict, v.reason, v.connection_id, v.brand,
    v.kind, v.round_id, v.game_id, v.amount_minor, v.currency, v.scale, v.amount, v.occurred_at, v.decided_at,
    v.counted, v.reference_version, v.source_topic, v.source_partition, v.source_offset
  from promo.verdicts v where v.verdict_id > $1 and v.verdict_id <= horizon order by v.verdict_id;
end
$$;
comment on function promo.new_verdicts is 'The rows of promo.verdicts with numbers above after, in the way of promo.changes. A verdict never changes. Whether it counts now does: see promo.changes.';
revoke execute on function promo.new_verdicts from public;

create function promo.new_deliveries(after bigint, up_to bigint default null, lineage text default null)
returns table (change_no bigint, operator_id text, feed_id text, event_id text, connection_id text, received_at timestamptz, content_differs boolean,
  first_verdict text, first_reason text, source_topic text, source_partition int, source_offset bigint)
language plpgsql volatile
security definer set search_path = pg_catalog, pg_temp
set plan_cache_mode = force_custom_plan
as $$
#variable_conflict use_column
declare
  horizon constant bigint := promo_store.horizon_of($1, $2, $3);
begin
  return query
  select coalesce(d.batch_no * 8192, 0), f.operator_id, f.feed_id, promo.stored_id(d.event_id), c.connection_id, d.received_at, d.content_differs,
    promo_store.verdict_name(d.first_outcome), promo_store.reason_name(d.first_outcome), p.topic, p.partition, d.source_offset
  from promo_store.resends d
  join promo_store.feeds f on f.feed_no = d.feed_no and f.test_mark <> 1
  join promo_store.connections c on c.connection_no = d.connection_no
  left join promo_store.partitions p on p.partition_no = d.partition_no
  -- The number of a delivery is the first of its batch.
  where d.batch_no > floor($1 / 8192.0)::bigint and d.batch_no <= horizon / 8192 or d.batch_no is null and $1 < 0
  order by 1, d.received_at, d.source_offset;
end
$$;
comment on function promo.new_deliveries is 'The rows of promo.deliveries whose batches have numbers above after, in the way of promo.changes. A batch comes as a whole. Deliveries from before the migration 0026 have the number 0: a new copy, which begins after -1, reads them first.';
revoke execute on function promo.new_deliveries from public;
