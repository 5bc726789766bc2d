-- A slice that takes longer than its lease, and an erasure that a session leaves open, hold a fold without a
-- lease. The views of coverage then showed no process, and status advised to start another one.
--
-- Locks: creates a view and replaces six; waits for their readers. Time: instant. Safe while older workers
-- run.

create view promo_store.fold_holders as
select f.fold, case when coalesce(f.held_until, '-infinity') < clock_timestamp() then (
  select l.pid from pg_locks l where l.locktype = 'transactionid' and l.mode = 'ExclusiveLock' and l.transactionid = f.xmax) end as pid
from promo_store.folds f;
comment on view promo_store.fold_holders is 'The process of Postgres whose open transaction holds a fold, where no lease does.';
comment on column promo_store.fold_holders.fold is 'Name of the fold.';
comment on column promo_store.fold_holders.pid is 'The process of Postgres. null: none, or the fold has a lease.';

create or replace view promo.rollup_coverage as
select
  g.generation,
  nullif(g.complete_since, '-infinity') as complete_since,
  g.after as up_to_verdict_id,
  g.newest_at as newest_decided_at,
  g.caught_up_at,
  extract(epoch from clock_timestamp() - g.caught_up_at) as lag_seconds,
  f.holder,
  f.held_until > clock_timestamp() or h.pid is not null as is_running,
  n.reason as rebuilt_because,
  n.after as rebuilt_up_to,
  h.pid as held_by_pid
from promo_store.folds f
join promo_store.fold_generations g on g.fold = f.fold and g.generation = f.generation
left join promo_store.fold_generations n on n.fold = f.fold and n.state = 'filling'
join promo_store.fold_holders h on h.fold = f.fold
where f.fold = 'rollups';

create or replace view promo.promotion_coverage as
select
  g.generation,
  nullif(g.complete_since, '-infinity') as complete_since,
  g.after as up_to_verdict_id,
  g.newest_at as newest_decided_at,
  g.caught_up_at,
  extract(epoch from clock_timestamp() - g.caught_up_at) as lag_seconds,
  f.holder,
  f.held_until > clock_timestamp() or h.pid is not null as is_running,
  n.reason as rebuilt_because,
  n.after as rebuilt_up_to,
  h.pid as held_by_pid
from promo_store.folds f
join promo_store.fold_generations g on g.fold = f.fold and g.generation = f.generation
left join promo_store.fold_generations n on n.fold = f.fold and n.state = 'filling'
join promo_store.fold_holders h on h.fold = f.fold
where f.fold = 'promotions';

create or replace view promo.pseudonym_coverage as
select
  k.key_id,
  k.shown_at as since,
  (select o.key_id from promo_store.pseudonym_keys o where o.state = 'former') as former_key_id,
  (select o.key_id from promo_store.pseudonym_keys o where o.state = 'filling') as next_key_id,
  g.after as up_to_verdict_id,
  g.caught_up_at - interval '1 minute' as complete_until,
  extract(epoch from clock_timestamp() - g.caught_up_at) as lag_seconds,
  f.holder,
  f.held_until > clock_timestamp() or h.pid is not null as is_running,
  h.pid as held_by_pid
from promo_store.pseudonym_keys k
join promo_store.folds f on f.fold = 'pseudonyms'
join promo_store.fold_generations g on g.fold = f.fold and g.generation = f.generation
join promo_store.fold_holders h on h.fold = f.fold
where k.state = 'shown';

do $$
declare
  coverage text;
begin
  foreach coverage in array array['rollup_coverage', 'promotion_coverage', 'pseudonym_coverage'] loop
    execute format('comment on column promo.%I.is_running is %L', coverage, 'Whether it does so now, or an open transaction holds the results.');
    execute format('comment on column promo.%I.held_by_pid is %L', coverage, 'The process of Postgres whose open transaction holds the results without a lease: a long slice, or an erasure that somebody left open. null: none does.');
    perform promo_store.show_to_readers(coverage);
  end loop;
end
$$;
