-- Connections for tests decide into feeds of their own. No view of promo shows these feeds, except the two
-- test views.
--
-- Locks: takes promo_store.feeds for a moment, and waits for a running `reference apply` and for batches that
-- wait for their feeds. Readers of the views wait for a moment. Time: instant. Safe while older workers run:
-- they refuse reference data with a test connection.

-- No name of an agreed feed has a slash, so a feed with two of them is one for tests.
-- The name travels with a move to another cell, and the mark with the name.
-- A number: behind a boolean without statistics, the planner expects half of the rows, and plans the views
-- otherwise.
alter table promo_store.feeds add column test_mark smallint not null generated always as (case when position('//' in feed_id) > 0 then 1 else 0 end) stored;
comment on column promo_store.feeds.test_mark is '1 where the feed belongs to connections for tests, else 0. The views of promo leave these feeds out.';

do $$
declare
  joined constant text := 'promo_store\.feeds f ON \(\((f\.feed_no = [a-z]+\.feed_no)\)\)';
  name text;
  source text;
  tested text;
begin
  foreach name in array array['verdicts', 'deliveries'] loop
    source := pg_get_viewdef(format('promo.%I', name)::regclass);
    tested := regexp_replace(source, joined, 'promo_store.feeds f ON (((\1) AND (f.test_mark = 1)))', 'g');
    if tested = source then
      raise exception 'promo.% does not join promo_store.feeds as expected', name;
    end if;
    execute format('create view promo.%I as %s', 'test_' || name, tested);
    execute (
      select string_agg(format('comment on column promo.%I.%I is %L', 'test_' || name, a.attname, col_description(a.attrelid, a.attnum)), ';')
      from pg_attribute a where a.attrelid = format('promo.%I', name)::regclass and a.attnum > 0 and not a.attisdropped
    );
  end loop;

  -- The checks compare tests, too.
  execute format('create view promo_store.all_entries as %s', pg_get_viewdef('promo.ledger'::regclass));
  execute (
    select string_agg(format('comment on column promo_store.all_entries.%I is %L', a.attname, col_description(a.attrelid, a.attnum)), ';')
    from pg_attribute a where a.attrelid = 'promo.ledger'::regclass and a.attnum > 0 and not a.attisdropped
  );
  source := pg_get_functiondef('promo_store.find_damages(date)'::regprocedure);
  if position('promo.ledger' in source) = 0 then
    raise exception 'promo_store.find_damages is not the function of 0018_checks_by_sums';
  end if;
  execute replace(source, 'from promo.ledger', 'from promo_store.all_entries');

  for name in
    select c.relname from pg_class c
    where c.relnamespace = 'promo'::regnamespace and c.relkind = 'v' and c.relname not like 'test\_%' and pg_get_viewdef(c.oid) like '%promo_store.feeds%'
    order by 1
  loop
    source := pg_get_viewdef(format('promo.%I', name)::regclass);
    tested := regexp_replace(source, joined, 'promo_store.feeds f ON (((\1) AND (f.test_mark <> 1)))', 'g');
    if tested = source then
      raise exception 'promo.% does not join promo_store.feeds as expected', name;
    end if;
    execute format('create or replace view promo.%I as %s', name, tested);
  end loop;

  source := pg_get_functiondef('promo.newest_since(int)'::regprocedure);
  tested := replace(replace(source, 'where ctid >= $1 order by', 'where ctid >= $1 and feed_no <> all (array(select f.feed_no from promo_store.feeds f where f.test_mark = 1)) order by'),
    'where h.decided_at >= since order by', 'where h.decided_at >= since and h.feed_no <> all (array(select f.feed_no from promo_store.feeds f where f.test_mark = 1)) order by');
  if tested = source then
    raise exception 'promo.newest_since is not the function of 0018_checks_by_sums';
  end if;
  execute tested;
end
$$;
comment on view promo_store.all_entries is 'As promo.ledger, with the entries of tests. For the checks.';
comment on view promo.test_verdicts is 'As promo.verdicts, for events that came by connections for tests. Nothing else shows them, and they count nowhere.';
comment on view promo.test_deliveries is 'As promo.deliveries, for duplicates that came by connections for tests.';
