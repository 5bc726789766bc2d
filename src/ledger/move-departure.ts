/** The leaving side of a move: the fence that ends all decisions on the operator, and the operator's rows. */
import { setTimeout as sleep } from 'node:timers/promises';
import { deleteRows, type MoveReport } from './move-copy';
import { endDeparture, leavingNumbers, type Move, MoveRefused, noteDeparture } from './move-states';
import { all, changeStore, type MoveSession } from './move-stores';
import type { NumberMaps } from './moved-rows';

// --- fence

/** How long transactions that began before the fence may take. Those of a worker take seconds. */
const OLDER_TRANSACTIONS_MS = 120_000;

const NAMED = `select exists (select from (select document from promo_store.reference_versions order by version desc limit 1) v,
  jsonb_array_elements(v.document -> 'operators') o where o ->> 'id' = $1) as named`;

/** Whether the reference data in force names the operator. */
export async function namesOperator(session: MoveSession, operator: string): Promise<boolean> {
  const [row] = await all<{ named: boolean }>(session, NAMED, [operator]);
  return row?.named === true;
}

export const LOCK_REFERENCE = 'lock table promo_store.reference_versions in share row exclusive mode';

/**
 * Stops all decisions on the operator for good. A worker decides only by the reference data in force, which
 * does not name the operator, and from now on no other may.
 */
export async function fence(move: Move): Promise<void> {
  await changeStore(move.from, async () => {
    await move.from.query(LOCK_REFERENCE);
    await refuseNamed(move);
    const { feeds, partitions } = await findDeparture(move);
    await noteDeparture(move, { feeds, partitions: partitions.map(({ no }) => no) });
  });
}

/** @throws MoveRefused while the leaving cell may decide events of the operator */
export async function refuseNamed({ operator, from }: Move): Promise<void> {
  if (await namesOperator(from, operator))
    throw new MoveRefused(
      `the reference data in force in the leaving cell names ${operator}, so events of it may be decided. Stop the workers there, apply reference data without the operator, and run the command again`,
    );
}

/**
 * Wallet calls stay in their store, and are only sent by it. A new one is refused while the operator moves.
 * @throws MoveRefused while the operator has calls that are not over
 */
export async function refuseOpenCalls({ operator, from }: Move): Promise<void> {
  const [found] = await all<{ open: string; unresolved: string }>(
    from,
    `select count(*) filter (where state = 'open') as open, count(*) filter (where state = 'unresolved') as unresolved
    from promo_store.wallet_calls where operator_id = $1 and state in ('open', 'unresolved')`,
    [operator],
  );
  if (found === undefined || (found.open === '0' && found.unresolved === '0')) return;
  throw new MoveRefused(
    `wallet calls of ${operator} are not over in the leaving cell: ${found.open} open, ${found.unresolved} unresolved. Begin no new ones, and let its processes finish the open ones: see promo.wallet_calls. Close unresolved ones by promo.close_wallet_call. Then run the command again`,
  );
}

/**
 * Progress and completions stay in their store, and the ids of completions have versions that begin at 1 in
 * the other one.
 * @throws MoveRefused where the operator has promotions that are not removed
 */
export async function refusePromotions({ operator, from }: Move): Promise<void> {
  const [found] = await all<{ ids: string | null }>(
    from,
    `select string_agg(distinct promotion_id, ', ' order by promotion_id) as ids
    from promo.promotion_versions where operator_id = $1 and removed_at is null`,
    [operator],
  );
  if (found === undefined || found.ids === null) return;
  throw new MoveRefused(
    `promotions of ${operator} count in the leaving cell, and their progress does not move: ${found.ids}. Remove them there by promo-intake promotions apply, and run the command again. Apply them in the receiving cell after the move`,
  );
}

/** The feeds are no longer shown. From here on the move can only be finished. */
export async function hide({ operator, from }: Move): Promise<void> {
  await changeStore(from, async () => {
    await from.query('delete from promo_store.feeds where operator_id = $1', [operator]);
    await from.query(`update promo_store.moves set state = 'hidden' where operator_id = $1`, [operator]);
  });
}

/** Waits for transactions that may have read the reference data of before. @throws MoveRefused */
export async function awaitOlderTransactions({ from }: Move): Promise<void> {
  const begun = await all<{ id: string }>(from, OPEN_TRANSACTIONS);
  const older = new Set(begun.map(({ id }) => id));
  const deadline = Date.now() + OLDER_TRANSACTIONS_MS;
  for (;;) {
    const open = await all<{ id: string; pid: number; role: string }>(from, OPEN_TRANSACTIONS);
    const waiting = open.filter(({ id }) => older.has(id));
    if (waiting.length === 0) return;
    if (Date.now() > deadline) {
      const sessions = waiting.map(({ pid, role }) => `${pid} (${role})`).join(', ');
      throw new MoveRefused(
        `transactions from before the move are still open in the leaving store: sessions ${sessions}. Wait until they end, or end them by pg_terminate_backend, and run the command again`,
      );
    }
    await sleep(100);
  }
}

/** Every transaction holds its virtual id until it ends, also where it has changed nothing yet. */
const OPEN_TRANSACTIONS = `select l.virtualtransaction as id, l.pid, a.usename as role from pg_locks l join pg_stat_activity a using (pid)
where l.locktype = 'virtualxid' and l.granted and l.pid <> pg_backend_pid() and a.datname = current_database()
  and coalesce(a.backend_type, 'client backend') = 'client backend'`;

// --- departure

export interface Departure {
  readonly feeds: readonly { no: number; id: string }[];
  readonly topics: readonly string[];
  readonly partitions: readonly { no: number; topic: string }[];
}

/** Topics of the operator and of others, in all versions of the reference data. */
const TOPICS = `select distinct o ->> 'id' = $1 as own, c ->> 'topic' as topic
from promo_store.reference_versions v, jsonb_array_elements(v.document -> 'operators') o, jsonb_array_elements(o -> 'connections') c
where c ->> 'topic' is not null`;

/**
 * The feeds, topics and partitions of an operator.
 * @throws MoveRefused where a topic has records of another operator
 */
export async function findDeparture({ operator, from }: Move): Promise<Departure> {
  const feeds = await all<{ no: number; id: string }>(
    from,
    'select feed_no as no, feed_id as id from promo_store.feeds where operator_id = $1 order by feed_no',
    [operator],
  );
  const named = await all<{ own: boolean; topic: string }>(from, TOPICS, [operator]);
  const own = new Set(named.filter((row) => row.own).map(({ topic }) => topic));
  const arrived = await arrivedNumbers(from, operator);
  const partitions = await all<{ no: number; topic: string }>(
    from,
    `select partition_no as no, topic from promo_store.partitions
    where topic = any($1) or partition_no = any($2) order by topic, partition, updated_at desc`,
    [[...own], arrived.partitions],
  );
  const others = new Set(named.filter(({ own }) => !own).map(({ topic }) => topic));
  const mixed = partitions.filter(({ topic }) => others.has(topic));
  const ownNumbers = await ownAmong(from, mixed, feeds);
  const moved = partitions.filter(({ no, topic }) => !others.has(topic) || ownNumbers.has(no));
  return {
    feeds,
    topics: [...new Set(moved.map(({ topic }) => topic))].sort(),
    partitions: moved,
  };
}

/**
 * The partitions that have records of this operator alone, among those whose topics other operators have
 * named, too. A wrong version of the reference data is no reason to refuse a move. Reads all keys.
 * @throws MoveRefused where a partition has records of several operators
 */
async function ownAmong(
  from: MoveSession,
  mixed: readonly { no: number; topic: string }[],
  feeds: readonly { no: number }[],
): Promise<ReadonlySet<number>> {
  if (mixed.length === 0) return new Set();
  const found = await all<{ no: number; own: boolean; other: boolean }>(
    from,
    `select partition_no as no, bool_or(feed_no = any($2)) as own, bool_or(feed_no <> all($2)) as other
    from promo_store.event_keys where partition_no = any($1) group by 1`,
    [mixed.map(({ no }) => no), feeds.map(({ no }) => no)],
  );
  const shared = new Set(found.filter(({ own, other }) => own && other).map(({ no }) => no));
  const topics = new Set(mixed.filter(({ no }) => shared.has(no)).map(({ topic }) => topic));
  if (topics.size > 0)
    throw new MoveRefused(
      `other operators have sent records to ${[...topics].join(', ')}, too: the counters and offsets belong to several operators and cannot be moved. Operators that share a topic stay in one cell`,
    );
  return new Set(found.filter(({ own }) => own).map(({ no }) => no));
}

/**
 * Numbers that the operator has had in this store since it arrived, maybe several times. Its reference data
 * of before the arrival is in other stores.
 */
export async function arrivedNumbers(
  session: MoveSession,
  operator: string,
): Promise<{ connections: number[]; partitions: number[] }> {
  const arrivals = await all<{ numbers: NumberMaps }>(
    session,
    'select numbers from promo_store.arrivals where operator_id = $1',
    [operator],
  );
  return {
    connections: arrivals.flatMap(({ numbers }) => numbers.connections.map(([, no]) => no)),
    partitions: arrivals.flatMap(({ numbers }) => numbers.partitions.map(([, no]) => no)),
  };
}

/** Deletes the rows that the operator has left behind, and ends the move in the leaving store. */
export async function leave(move: Move, report: MoveReport): Promise<void> {
  const { feeds, partitions } = await leavingNumbers(move);
  const numbers = { feeds: feeds.map(({ no }) => no), partitions };
  await deleteRows(move.from, move.operator, numbers, report);
  await changeStore(move.from, () => endDeparture(move));
}
