-- A rebuild has counted a month, and retention drops the month. The rebuild then found no entries for the
-- refunds that it read afterwards, and kept what the shown results had taken back. So a month is dropped
-- beside no rebuild that has counted something.
--
-- Locks: replaces a function and creates two, and waits for nothing. Time: instant. Safe while older workers
-- run.

create function promo_store.refuse_beside_rebuild() returns void language plpgsql
set search_path = pg_catalog, pg_temp
as $$
declare
  rebuild record;
begin
  -- Without a counted verdict, a rebuild knows which months it lacks. Pseudonyms take nothing back.
  select g.fold, g.reason, g.after into rebuild from promo_store.fold_generations g
  where g.fold in ('promotions', 'rollups') and g.state = 'filling' and g.after >= 0 order by g.fold limit 1;
  if found then
    raise exception 'no month can be dropped: a rebuild of the % has counted verdicts up to %, and is not shown yet (%)', rebuild.fold, rebuild.after, rebuild.reason
      using errcode = 'object_in_use', hint = 'Wait until it is shown, or call promo.restart_rebuilds() in the same transaction before.';
  end if;
end
$$;
comment on function promo_store.refuse_beside_rebuild is 'Refuses to drop months while a rebuild of rollups or promotions has counted a part of history.';
revoke execute on function promo_store.refuse_beside_rebuild from public;

create function promo.restart_rebuilds() returns table (fold text, reason text) language plpgsql
security definer set search_path = pg_catalog, pg_temp
set lock_timeout = '5s'
as $$
#variable_conflict use_column
begin
  lock table promo_store.months in share row exclusive mode; -- first, as erasures lock it before folds
  perform from promo_store.folds f where f.fold in ('promotions', 'rollups') order by f.fold for update;
  return query with ended as (
    update promo_store.fold_generations g set state = 'retired'
    where g.fold in ('promotions', 'rollups') and g.state = 'filling' and g.after >= 0 returning g.fold, g.reason)
  insert into promo_store.fold_generations as n (fold, generation, state, after, lineage, complete_since, reason)
  select e.fold, (select max(g.generation) + 1 from promo_store.fold_generations g where g.fold = e.fold),
    'filling', -1, promo.lineage(), promo_store.complete_history_since(), e.reason
  from ended e order by e.fold
  returning n.fold, n.reason;
end
$$;
comment on function promo.restart_rebuilds is 'Lets each rebuild of rollups and promotions that has counted something begin again. Call it before promo.drop_months_before, in the same transaction.';
revoke execute on function promo.restart_rebuilds from public;

do $do$
declare
  definition text := pg_get_functiondef('promo.drop_months_before(date)'::regprocedure);
  counted constant text := $place$  for old in select * from promo_store.month_tables() t where t.month < kept_from at time zone 'utc' loop
$place$;
  dropped constant text := $place$  -- A daily run that drops nothing is not logged.
  if cardinality(dropped) > 0 then
$place$;
begin
  if position(counted in definition) = 0 or position(dropped in definition) = 0 then
    raise exception 'promo.drop_months_before is not that of migration 0016_locks_of_our_own';
  end if;
  definition := replace(definition, counted, $new$  if exists (select from promo_store.month_tables() t where t.month < kept_from at time zone 'utc') then
    perform promo_store.refuse_beside_rebuild();
  end if;
$new$ || counted);
  execute replace(definition, dropped, $new$  -- A daily run that drops nothing is not logged.
  if cardinality(dropped) > 0 then
    -- A rebuild that has begun since the first look. No slice reads history now, until this transaction ends.
    perform promo_store.refuse_beside_rebuild();
$new$);
end
$do$;
