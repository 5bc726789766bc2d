-- A lease of more than two minutes was written while the clock of Postgres was ahead. Processes took it as
-- over. The views and a line of the log still named its holder as the process at work. One function has the
-- rule.
--
-- Locks: creates a function and replaces five views; waits for their readers. Time: instant. Safe while
-- older workers run: they need nothing of this.

create function promo_store.lease_end(held_until timestamptz) returns timestamptz language sql volatile parallel safe
return case when held_until <= clock_timestamp() + interval '2 minutes' then held_until else '-infinity' end;
comment on function promo_store.lease_end is 'When a lease ends; -infinity where it was released. A lease of more than two minutes was written while the clock was ahead, and is over. Otherwise a crash of its holder would stop the work until the clock is there again.';

create or replace view promo_store.fold_holders as
select f.fold, case when promo_store.lease_end(f.held_until) < clock_timestamp() then (
  select l.pid from pg_locks l where l.locktype = 'transactionid' and l.mode = 'ExclusiveLock' and l.transactionid = f.xmax) end as pid,
  promo_store.lease_end(f.held_until) > clock_timestamp() as is_leased
from promo_store.folds f;
comment on column promo_store.fold_holders.is_leased is 'Whether the holder of the fold has a lease now.';

create or replace view promo.rollup_coverage as
select
  g.generation,
  nullif(g.complete_since, '-infinity') as complete_since,
  g.after as up_to_verdict_id,
  g.newest_at as newest_decided_at,
  g.caught_up_at,
  extract(epoch from clock_timestamp() - g.caught_up_at) as lag_seconds,
  f.holder,
  h.is_leased or h.pid is not null as is_running,
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
  h.is_leased or h.pid is not null as is_running,
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
  h.is_leased or h.pid is not null as is_running,
  h.pid as held_by_pid
from promo_store.pseudonym_keys k
join promo_store.folds f on f.fold = 'pseudonyms'
join promo_store.fold_generations g on g.fold = f.fold and g.generation = f.generation
join promo_store.fold_holders h on h.fold = f.fold
where k.state = 'shown';

create or replace view promo.completion_publishing as
select
  o.after as published_up_to,
  o.moved_at as last_published_at,
  extract(epoch from clock_timestamp() - least(
    (select e.entered_at from promo_store.promotion_completions e where e.entry_no > o.after order by e.entry_no limit 1),
    (select min(b.since) from promo_store.completion_backlogs b))) as lag_seconds,
  o.holder,
  promo_store.lease_end(o.held_until) > clock_timestamp() as is_running
from promo_store.completion_outbox o;
