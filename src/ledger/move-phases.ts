/**
 * The leaving side of a move: see move-operator.ts. It finds how far a move is and which rows belong to the
 * operator. Its fence ends all decisions on the operator.
 */
import { setTimeout as sleep } from 'node:timers/promises';
import type { Client } from 'pg';
import { BEGIN } from '../postgres/transaction';
import type { NumberMaps } from './moved-rows';

/** The move is not possible now. The message has the remedy, and nothing was changed by the failed phase. */
export class MoveRefused extends Error {
  override readonly name = 'MoveRefused';
}

/** The phase that both stores have reached. */
export type MoveState = 'none' | 'copying' | 'hidden' | 'switched' | 'done';

export async function changeStore<T>(client: Client, work: () => Promise<T>): Promise<T> {
  await client.query(BEGIN.text);
  try {
    const result = await work();
    await client.query('commit');
    return result;
  } catch (error) {
    await client.query('rollback').catch(() => undefined);
    throw error;
  }
}

export async function all<T extends object>(
  client: Client,
  text: string,
  values: unknown[] = [],
): Promise<T[]> {
  const { rows } = await client.query<T>(text, values);
  return rows;
}

// --- cells and states

export interface Cell {
  readonly name: string;
  readonly number: number;
  readonly cells: number;
  readonly firstBatch: number;
  readonly wasEmpty: boolean;
}

/** @param role of the store in the move, for the error */
export async function readCell(client: Client, role: 'leaving' | 'receiving'): Promise<Cell> {
  const [cell] = await all<{ name: string; number: number; cells: number; first: string; empty: boolean }>(
    client,
    'select name, number, cells, first_batch as first, was_empty as empty from promo_store.cell',
  );
  if (cell === undefined)
    throw new MoveRefused(
      `the ${role} store is no cell yet, so verdict ids of both stores may be equal. Call promo.number_cell there first`,
    );
  return {
    name: cell.name,
    number: cell.number,
    cells: cell.cells,
    firstBatch: Number(cell.first),
    wasEmpty: cell.empty,
  };
}

/** @throws MoveRefused where both stores may have given the same number */
export function checkCells(from: Cell, to: Cell): void {
  if (from.cells !== to.cells || from.number === to.number || from.name === to.name)
    throw new MoveRefused(
      `the stores are cell ${from.name}, ${from.number} of ${from.cells}, and cell ${to.name}, ${to.number} of ${to.cells}. Both need the same number of cells, and names and numbers of their own: see promo.number_cell`,
    );
  const [early, late] = from.firstBatch <= to.firstBatch ? [from, to] : [to, from];
  if (late.wasEmpty) return;
  throw new MoveRefused(
    `cell ${late.name} decided events before it was numbered, so its verdict ids may be those of cell ${early.name}. Only cells that were empty at promo.number_cell, or the first one, can exchange operators`,
  );
}

/** Whether the operator leaves a store, or arrives in it. */
type Direction = 'out' | 'in';

interface StoredMove {
  readonly direction: string;
  readonly other_cell: string;
  readonly state: string;
}

export const readMove = async (client: Client, operator: string): Promise<StoredMove | undefined> =>
  (
    await all<StoredMove>(
      client,
      'select direction, other_cell, state from promo_store.moves where operator_id = $1',
      [operator],
    )
  )[0];

/** Notes in a store that its part of a move has begun, in place of an earlier move of the operator. */
export async function beginMove(
  client: Client,
  move: {
    readonly operator: string;
    readonly direction: Direction;
    readonly otherCell: string;
    readonly numbers: NumberMaps | LeavingNumbers;
  },
): Promise<void> {
  const { operator, direction, otherCell, numbers } = move;
  await client.query(
    `insert into promo_store.moves (operator_id, direction, other_cell, state, numbers) values ($1, $2, $3, 'copying', $4)
    on conflict (operator_id) do update set direction = $2, other_cell = $3, state = 'copying', began_at = clock_timestamp(), ended_at = null, numbers = $4`,
    [operator, direction, otherCell, JSON.stringify(numbers)],
  );
}

/** The numbers that `beginMove` has noted; undefined where the store has no such move. */
export async function numbersOfMove<Numbers extends NumberMaps | LeavingNumbers>(
  client: Client,
  operator: string,
  direction: Direction,
): Promise<Numbers | undefined> {
  const [row] = await all<{ numbers: Numbers }>(
    client,
    'select numbers from promo_store.moves where operator_id = $1 and direction = $2',
    [operator, direction],
  );
  return row?.numbers;
}

/** @throws MoveRefused where another move of the operator is under way */
export async function readStates(
  from: Client,
  to: Client,
  operator: string,
  fromCell: string,
  toCell: string,
): Promise<MoveState> {
  const [out, into] = [await readMove(from, operator), await readMove(to, operator)];
  for (const [move, direction, other] of [
    [out, 'out', toCell],
    [into, 'in', fromCell],
  ] as const)
    if (
      move !== undefined &&
      move.state !== 'done' &&
      (move.direction !== direction || move.other_cell !== other)
    )
      throw new MoveRefused(
        `another move of ${operator} is under way, ${move.direction === 'out' ? 'to' : 'from'} cell ${move.other_cell}. Finish it first, with its own stores`,
      );
  const hasLeft = out?.direction === 'out' && out.other_cell === toCell;
  const hasArrived = into?.direction === 'in' && into.other_cell === fromCell && into.state === 'done';
  if (!hasLeft) return 'none';
  if (out.state === 'copying') return 'copying';
  if (out.state === 'hidden') return hasArrived ? 'switched' : 'hidden';
  return hasArrived ? 'done' : 'none';
}

// --- fence

/** How long transactions that began before the fence may take. Those of a worker take seconds. */
const OLDER_TRANSACTIONS_MS = 120_000;

const NAMED = `select exists (select from (select document from promo_store.reference_versions order by version desc limit 1) v,
  jsonb_array_elements(v.document -> 'operators') o where o ->> 'id' = $1) as named`;

export async function namesOperator(client: Client, operator: string): Promise<boolean> {
  const [row] = await all<{ named: boolean }>(client, NAMED, [operator]);
  return row?.named === true;
}

export const LOCK_REFERENCE = 'lock table promo_store.reference_versions in share row exclusive mode';

/**
 * Stops all decisions on the operator for good. A worker decides only by the reference data in force, which
 * does not name the operator, and from now on no other may.
 */
export async function fence(from: Client, operator: string, toCell: string): Promise<void> {
  await changeStore(from, async () => {
    await from.query(LOCK_REFERENCE);
    await refuseNamed(from, operator);
    const { feeds, partitions } = await findDeparture(from, operator);
    const numbers: LeavingNumbers = { feeds, partitions: partitions.map(({ no }) => no) };
    await beginMove(from, { operator, direction: 'out', otherCell: toCell, numbers });
  });
}

/** @throws MoveRefused while the leaving cell may decide events of the operator */
export async function refuseNamed(from: Client, operator: string): Promise<void> {
  if (await namesOperator(from, operator))
    throw new MoveRefused(
      `the reference data in force in the leaving cell names ${operator}, so events of it may be decided. Stop the workers there, apply reference data without the operator, and run the command again`,
    );
}

/**
 * Wallet calls stay in their store, and are only sent by it. A new one is refused while the operator moves.
 * @throws MoveRefused while the operator has calls that are not over
 */
export async function refuseOpenCalls(from: Client, operator: string): Promise<void> {
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
export async function refusePromotions(from: Client, operator: string): Promise<void> {
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

/** The numbers of a leaving operator, as its store keeps them until the rows are deleted. */
export interface LeavingNumbers {
  readonly feeds: readonly { no: number; id: string }[];
  readonly partitions: readonly number[];
}

export async function leavingNumbers(from: Client, operator: string): Promise<LeavingNumbers> {
  const numbers = await numbersOfMove<LeavingNumbers>(from, operator, 'out');
  if (numbers === undefined) throw new MoveRefused(`the leaving store has no move of ${operator}`);
  return numbers;
}

/** The feeds are no longer shown. From here on the move can only be finished. */
export async function hide(from: Client, operator: string): Promise<void> {
  await changeStore(from, async () => {
    await from.query('delete from promo_store.feeds where operator_id = $1', [operator]);
    await from.query(`update promo_store.moves set state = 'hidden' where operator_id = $1`, [operator]);
  });
}

/** Writes a move into the log of operations of a store. */
export async function logMove(
  client: Client,
  requestedBy: string,
  request: Readonly<Record<string, string>>,
): Promise<void> {
  await client.query(
    `insert into promo_store.operations (operation, requested_by, request, ended_at) values ('move', $1, $2, clock_timestamp())`,
    [requestedBy, JSON.stringify(request)],
  );
}

/** Waits for transactions that may have read the reference data of before. @throws MoveRefused */
export async function awaitOlderTransactions(from: Client): Promise<void> {
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
  readonly operator: string;
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
export async function findDeparture(from: Client, operator: string): Promise<Departure> {
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
    operator,
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
  from: Client,
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
  client: Client,
  operator: string,
): Promise<{ connections: number[]; partitions: number[] }> {
  const arrivals = await all<{ numbers: NumberMaps }>(
    client,
    'select numbers from promo_store.arrivals where operator_id = $1',
    [operator],
  );
  return {
    connections: arrivals.flatMap(({ numbers }) => numbers.connections.map(([, no]) => no)),
    partitions: arrivals.flatMap(({ numbers }) => numbers.partitions.map(([, no]) => no)),
  };
}
