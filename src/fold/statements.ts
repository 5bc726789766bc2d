/** The statements of a fold on its own rows: the fold, its lease, and its generations. */

import type { Session, Statement } from '../postgres/transaction';

/** Numbers of a batch: those of its verdicts (src/ledger/statements/lock.ts). */
export const BATCH_NUMBERS = 8_192;

const LOCK = {
  name: 'fold_lock',
  text: `select generation, holder = $2 or promo_store.lease_end(held_until) < clock_timestamp()
from promo_store.folds where fold = $1 for update skip locked`,
};
export const LOCK_FOR_REBUILD = {
  name: 'fold_lock_for_rebuild',
  text: 'select generation from promo_store.folds where fold = $1 for update',
};
const CREATE = {
  name: 'fold_create',
  text: 'insert into promo_store.folds (fold, generation) values ($1, 0) on conflict do nothing',
};
/** Whether this process holds the lease for a while, and nothing was decided since the last slice. */
export const PEEK = {
  name: 'fold_peek',
  text: `select f.holder = $2 and promo_store.lease_end(f.held_until) > clock_timestamp() + $3 * interval '0.5 millisecond'
  and g.after = (promo_store.last_batch() + 1) * ${BATCH_NUMBERS} - 1 and g.lineage = promo.lineage()
  and not exists (select from promo_store.fold_generations o where o.fold = f.fold and o.generation <> f.generation)
from promo_store.folds f join promo_store.fold_generations g on g.fold = f.fold and g.generation = f.generation where f.fold = $1`,
};
/** Whether nothing was decided since the last slice, and the time before the question. */
export const STILL_IDLE = {
  name: 'fold_still_idle',
  text: `select f.generation, (extract(epoch from transaction_timestamp()) * 1000000)::bigint,
  g.after = (promo_store.last_batch() + 1) * ${BATCH_NUMBERS} - 1 and g.lineage = promo.lineage()
from promo_store.folds f join promo_store.fold_generations g on g.fold = f.fold and g.generation = f.generation where f.fold = $1`,
};
/**
 * A transaction that locks the row long after the last lease may be stuck. So an erasure in an open session
 * keeps every process from the fold. The last column says whether another process has the lease.
 */
export const LAG = {
  name: 'fold_lag',
  text: `select extract(epoch from clock_timestamp() - g.caught_up_at),
  case when promo_store.lease_end(f.held_until) < clock_timestamp() - interval '20 seconds' then (
    select l.pid from pg_locks l where l.locktype = 'transactionid' and l.mode = 'ExclusiveLock' and l.transactionid = f.xmax) end,
  f.holder <> $2 and promo_store.lease_end(f.held_until) > clock_timestamp()
from promo_store.folds f
join promo_store.fold_generations g on g.fold = f.fold and g.generation = f.generation where f.fold = $1`,
};
export const GENERATIONS = {
  name: 'fold_generations',
  text: `select generation, state, after, lineage, coalesce(newest_at - interval '1 day', '-infinity')
from promo_store.fold_generations where fold = $1 order by generation`,
};
export const LINEAGE = { name: 'fold_lineage', text: 'select promo.lineage()' };
export const HORIZON = { name: 'fold_horizon', text: 'select promo.safe_up_to($1::interval)' };
export const SUMMARIZE = { name: 'fold_summarize', text: 'select promo_store.summarize_history()' };
export const BEGIN_GENERATION = {
  name: 'fold_begin',
  text: `insert into promo_store.fold_generations (fold, generation, state, after, lineage, complete_since, reason)
values ($1, $2, $3, -1, $4, promo_store.complete_history_since(), $5)`,
};
export const SHOW = {
  name: 'fold_show',
  text: 'update promo_store.folds set generation = $2 where fold = $1',
};
export const SET_STATE = {
  name: 'fold_state',
  text: 'update promo_store.fold_generations set state = $3 where fold = $1 and generation = $2',
};
export const INHERIT_COMPLETENESS = {
  name: 'fold_inherit',
  text: `update promo_store.fold_generations g set complete_since = least(g.complete_since, o.complete_since)
from promo_store.fold_generations o where g.fold = $1 and g.generation = $2 and o.fold = $1 and o.generation = $3`,
};
/**
 * Whether most verdicts with these numbers waited longer than $5 ms in Kafka and were decided within $4.
 * False where the time $6 is further back than $7.
 */
export const MOST_WAITED = {
  name: 'fold_most_waited',
  text: `select $6::timestamptz > clock_timestamp() - $7::interval
  and count(*) filter (where source_delay > $5::int and decided_at > clock_timestamp() - $4::interval) * 2 > count(*)
from promo_store.history where verdict_id > $1::bigint and verdict_id <= $2::bigint and decided_at >= $3::timestamptz`,
};
/** Months that were dropped before the cursor had passed them are missing. */
export const MOVE_CURSOR = {
  name: 'fold_cursor',
  text: `update promo_store.fold_generations set after = $3, lineage = $4, newest_at = greatest(newest_at, $5::timestamptz),
  caught_up_at = case when $6::boolean then clock_timestamp() else caught_up_at end,
  complete_since = greatest(complete_since, (
    select max((m.month + interval '1 month') at time zone 'utc') from promo_store.months m
    where m.parent = 'history' and m.dropped_at is not null and (m.month + interval '1 month') at time zone 'utc' > coalesce(newest_at, '-infinity')))
where fold = $1 and generation = $2 returning complete_since`,
};
/** Without the lineage, a quiet store that another server has would never count as idle. */
export const CAUGHT_UP = {
  name: 'fold_caught_up',
  text: 'update promo_store.fold_generations set caught_up_at = clock_timestamp(), lineage = $3 where fold = $1 and state = $2',
};
export const FORGET = {
  name: 'fold_forget',
  text: 'delete from promo_store.fold_generations where fold = $1 and generation = $2',
};
export const HOLD = {
  name: 'fold_hold',
  text: `update promo_store.folds set holder = $2, held_until = clock_timestamp() + $3 * interval '1 millisecond' where fold = $1`,
};
export const RELEASE = {
  name: 'fold_release',
  text: 'update promo_store.folds set held_until = null where fold = $1 and holder = $2',
};
/**
 * Slices read ranges of different sizes, so each is planned for its own numbers. The planner knows little of
 * the newest rows, and nothing in the first minutes of a month. It would then start workers of Postgres for
 * some thousand rows.
 */
export const PLANNER_SETTINGS = {
  name: 'fold_settings',
  text: `select set_config('enable_nestloop', 'on', true), set_config('plan_cache_mode', 'force_custom_plan', true), set_config('work_mem', '64MB', true),
  set_config('max_parallel_workers_per_gather', '0', true)`,
};

/** Rows that a statement deletes at most, so that a slice does not wait for long. */
const DELETED_AT_ONCE = 20_000;

/** Deletes some of the rows `t` of a table that meet a condition, and counts them. */
export const deletionOf = (name: string, table: string, condition: string): Statement => ({
  name,
  text: `with gone as (delete from promo_store.${table} where ctid = any(array(
  select ctid from promo_store.${table} t where ${condition} limit ${DELETED_AT_ONCE})) returning 1) select count(*) from gone`,
});

/** Runs deletions in their order. @returns how many rows are gone */
export async function deleteSome(
  session: Session,
  deletions: readonly Statement[],
  values: readonly unknown[],
): Promise<number> {
  let deleted = 0;
  for (const deletion of deletions) {
    const [[count] = []] = await session.query(deletion, values);
    deleted += Number(count);
  }
  return deleted;
}

/** Locks the row of a fold, and adds the row at first. @returns false where another process folds */
export async function lockFold(session: Session, fold: string, holder: string): Promise<boolean> {
  const [row] = await session.query(LOCK, [fold, holder]);
  if (row !== undefined) return row[1] === 't';
  await session.query(CREATE, [fold]);
  const [created] = await session.query(LOCK, [fold, holder]);
  return created?.[1] === 't';
}
