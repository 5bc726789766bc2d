-- Only the store's own roles can take the locks of the store. Any role that may connect can hold an advisory
-- lock of any number. A role that held ours stopped batches under contention, new months, retention and
-- erasure. Batches now lock rows of promo_store.feeds. Months and erasures lock the table promo_store.months,
-- by functions of the owner.
--
-- Also: refunds are found by a B-tree of bounded keys. With the hash index, a sender could choose ids of one
-- hash, and each further refund walked along all of them.
--
-- Locks: readers of rounds, verdicts and the ledger wait, and workers wait, until one index is built. Time: 1
-- s for 200,000 refunds, in proportion to their number. With many millions, build it before, which blocks
-- nobody:
--   create index concurrently refunds_by_bounded on promo_store.refunds (("varchar"(
--     (refunded_by collate "default")::varchar,
--     case when octet_length(refunded_by collate "default") <= 1000 then 1004 else 204 end, true)::text
--     || case when octet_length(refunded_by collate "default") <= 1000 then ''
--     when length(refunded_by collate "default") = 1075
--     and substr(refunded_by collate "default", 1001, 11) = '... sha256:'
--     then right(refunded_by collate "default", 75)
--     else '... sha256:' || encode(sha256(decode(replace(refunded_by collate "default", '\', '\\'),
--     'escape')), 'hex') end) collate "C" text_pattern_ops)
-- The migration uses an existing index as it is.
--
-- Safe while older workers run. They call the same functions for months, and take advisory locks of feeds
-- beside the new locks. Unique keys decide which batch was first, and the loser decides again. A month
-- function or an erasure that began before this migration does not exclude one that begins after it. Where
-- the two meet, one fails and changes nothing.

-- ---------------------------------------------------------------- feeds

create function promo_store.lock_feeds(feeds int[]) returns void language plpgsql
-- A row lock needs the right to update. A writer has no such right on feeds.
security definer set search_path = pg_catalog, pg_temp
as $$
begin
  perform from promo_store.feeds f where f.feed_no = any(feeds) order by f.feed_no for no key update;
end
$$;
comment on function promo_store.lock_feeds is 'Waits until no other batch holds one of these feeds, and holds them until the end of the transaction.';
revoke execute on function promo_store.lock_feeds from public;
-- Roles that an older `grant` made writers can decide under contention before `grant` runs again.
do $$
declare
  writer text;
begin
  for writer in
    select case when a.grantee = 0 then 'public' else quote_ident(pg_get_userbyid(a.grantee)) end
    from pg_proc p cross join lateral aclexplode(coalesce(p.proacl, acldefault('f', p.proowner))) a
    where p.oid = 'promo_store.ensure_months(int)'::regprocedure and a.privilege_type = 'EXECUTE' and a.grantee <> p.proowner
  loop
    execute format('grant execute on function promo_store.lock_feeds(int[]) to %s', writer);
  end loop;
end
$$;

-- ---------------------------------------------------------------- months and erasure

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
      lock table promo_store.months in share row exclusive mode; -- workers that start together make a month once
      -- Read the catalog table: to_regclass may answer from a cache that is older than the lock.
      continue when exists (select from pg_class where relnamespace = 'promo_store'::regnamespace and relname = name);
      -- Create the table alone and attach it: writers of the parent go on, which "partition of" would not
      -- allow.
      execute format('create table promo_store.%I (like promo_store.%I including defaults including comments)', name, parent);
      execute format('comment on table promo_store.%I is %L', name, 'One month of ' || parent || '.');
      -- A BRIN index finds only summarized blocks, and a vacuum summarizes them. By default a vacuum waits
      -- for a fifth of the table. Until then look-ups read all rows behind the last summarized block.
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
    raise exception 'only months that are over can be dropped: % is later, or is no date', coalesce(first_kept::text, 'null')
      using errcode = 'invalid_parameter_value';
  end if;
  lock table promo_store.months in share row exclusive mode; -- one at a time, and none while months are made or players erased
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
  lock table promo_store.months in share mode; -- no month is made or dropped meanwhile; other erasures go on

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

-- Change the current month and future months. Past months have a threshold of their own, and tables without a
-- threshold were created by hand.
do $$
declare
  month text;
begin
  for month in
    select c.relname from pg_class c
    where c.relnamespace = 'promo_store'::regnamespace and c.relispartition and c.relkind = 'r' and 'autovacuum_vacuum_insert_threshold=100000' = any(c.reloptions)
  loop
    execute format('alter table promo_store.%I set (autovacuum_vacuum_insert_threshold = 10000)', month);
  end loop;
end
$$;
-- Indexes of months that were created since 0011 are sampled by 30,000 rows.
select promo_store.sample_little(relname) from pg_class where relnamespace = 'promo_store'::regnamespace and relkind = 'r' and relispartition;

-- ---------------------------------------------------------------- refunds

-- Replace the view before its tables are locked: readers lock in this order, and another order is a deadlock.
create or replace view promo.ledger as
select
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
join promo_store.feeds f on f.feed_no = h.feed_no
left join promo_store.brands b on b.brand_no = h.brand_no
left join promo_store.currencies u on u.currency_no = h.currency_no
where h.counted
union all
select
  h.verdict_id * 2 + 1,
  f.operator_id,
  f.feed_id,
  -- The same collations as in the body of the function and in this column: otherwise the planner does not
  -- find the index.
  promo.stored_id(x.refunded_by collate "default") collate "C",
  promo.stored_id(r.round_id),
  b.brand_id,
  h.player_ref,
  promo_store.kind_name(h.kind),
  u.code,
  u.scale,
  -h.amount_minor,
  -h.amount_minor * u.unit,
  h.verdict_id * 2,
  x.refunded_at,
  h.verdict_id,
  h.game_id,
  h.occurred_at,
  h.decided_at
from promo_store.refunds x
join promo_store.history h on h.round_no = x.round_no
left join promo_store.rounds r on r.round_no = x.round_no
join promo_store.feeds f on f.feed_no = h.feed_no
left join promo_store.brands b on b.brand_no = h.brand_no
left join promo_store.currencies u on u.currency_no = h.currency_no
where h.counted
  -- Counted events of a round are decided between its opening and its refund. One day on each side allows for
  -- clocks that were set. So Postgres skips other months.
  and h.decided_at >= x.opened_at - interval '1 day' and h.decided_at <= coalesce(x.refunded_at, 'infinity') + interval '1 day';

-- Lock both tables before any change. A batch that locked a round and waits to write its refund would wait
-- for this migration, and the migration for the batch.
lock table promo_store.rounds, promo_store.refunds in access exclusive mode;

-- An interrupted concurrent build leaves an invalid index behind.
do $$
begin
  if exists (select from pg_index where indexrelid = to_regclass('promo_store.refunds_by_bounded') and not indisvalid) then
    drop index promo_store.refunds_by_bounded;
  end if;
end
$$;
create index if not exists refunds_by_bounded on promo_store.refunds (("varchar"((refunded_by collate "default")::varchar, case when octet_length(refunded_by collate "default") <= 1000 then 1004 else 204 end, true)::text
  || case when octet_length(refunded_by collate "default") <= 1000 then ''
  when length(refunded_by collate "default") = 1075 and substr(refunded_by collate "default", 1001, 11) = '... sha256:' then right(refunded_by collate "default", 75)
  else '... sha256:' || encode(sha256(decode(replace(refunded_by collate "default", '\', '\\'), 'escape')), 'hex') end) collate "C" text_pattern_ops);
drop index promo_store.refunds_refunded_by;
alter index promo_store.refunds_by_bounded rename to refunds_refunded_by;
-- Sample as few rows as for the other columns.
alter index promo_store.refunds_refunded_by alter column 1 set statistics 3;
analyze promo_store.refunds;
-- Nothing reads this index any more, and it was a hash index, too.
drop index promo_store.rounds_refunded_by;

comment on column promo.ledger.event_id is 'The counted event; for a reversal, the refund that caused it. An id of a refund of more than 1,000 bytes is shown as promo.stored_id returns it. No index finds entries by event_id alone. The entries of a counted event: see verdict_id. The reversals of a refund: where event_id = promo.stored_id(refund) and reverses_entry_id is not null.';
comment on column promo.rounds.refunded_by is 'event_id of the refund. No index leads from here. The round of a refund: see round_id of promo.verdict_of(feed, refund).';
