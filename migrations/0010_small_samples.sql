-- The planner's statistics of the large tables are made of few rows.
--
-- Locks: waits for a vacuum, an analyze or an index build of these tables by hand; workers and readers wait for nothing. Time: instant. Safe while older workers run: the replaced
-- ensure_months does for them what it did before.

-- An analyze reads a block for each row of its sample, wherever it lies: by default 30,000 of each table, whenever it has grown by a tenth. Of tables
-- that memory does not hold these are as many reads from the disk, and commits wait behind them: where the disk does 500 of them a second, for a minute, in
-- which a worker with half of its full load fell behind by 11 s. No statement of a worker needs more than to know which columns differ from row to row, and
-- what people ask of the views is found by indexes.
create function promo_store.sample_little(table_name text) returns void language plpgsql set search_path = '' as $$
begin
  execute (
    select format('alter table promo_store.%I %s', table_name, string_agg(format('alter column %I set statistics 3', attname), ', '))
    from pg_catalog.pg_attribute
    where attrelid = format('promo_store.%I', table_name)::regclass and attnum > 0 and not attisdropped
  );
end
$$;
comment on function promo_store.sample_little is 'Lets a table be sampled by 900 rows for the planner''s statistics, not by 30,000.';
revoke execute on function promo_store.sample_little from public;

create or replace function promo_store.ensure_months(months_ahead int default 2) returns int language plpgsql
-- Attaching a partition is the owner's right.
security definer set search_path = ''
as $$
declare
  month date := date_trunc('month', now() at time zone 'utc');
  created int := 0;
  parent text;
  name text;
begin
  for ahead in 0 .. months_ahead loop
    foreach parent in array array['history', 'resends', 'unstored'] loop
      name := parent || '_' || to_char(month, 'YYYY_MM');
      continue when to_regclass('promo_store.' || name) is not null;
      perform pg_advisory_xact_lock(4915023772); -- workers that start together make a month once
      -- Read from the table: what to_regclass answers may be kept from before the lock.
      continue when exists (select from pg_class where relnamespace = 'promo_store'::regnamespace and relname = name);
      -- Made apart and attached: unlike "partition of", that lets writers of the parent go on.
      execute format('create table promo_store.%I (like promo_store.%I including defaults including comments)', name, parent);
      execute format('comment on table promo_store.%I is %L', name, 'One month of ' || parent || '.');
      -- BRIN finds what is summarized, which a vacuum does. By default it waits for a fifth of the table.
      execute format('alter table promo_store.%I set (autovacuum_vacuum_insert_scale_factor = 0, autovacuum_vacuum_insert_threshold = 100000)', name);
      perform promo_store.sample_little(name);
      execute format('alter table promo_store.%I attach partition promo_store.%I for values from (%L) to (%L)',
        parent, name, month::timestamp at time zone 'utc', (month + interval '1 month')::timestamp at time zone 'utc');
      insert into promo_store.months (parent, month, made_at) values (parent, month, clock_timestamp())
        on conflict on constraint months_pkey do update set made_at = excluded.made_at, dropped_at = null;
      created := created + 1;
    end loop;
    month := month + interval '1 month';
  end loop;
  return created;
end
$$;

select promo_store.sample_little(name)
from (
  values ('event_keys'), ('rounds')
  union all
  select name from promo_store.month_tables()
) as large (name);
