/**
 * Moves an operator from one store to another: all rows of its feeds, with the numbers that the receiving
 * store uses. Each phase is noted in both stores, so a move that was interrupted continues where it was.
 *
 * 1. Fence: the leaving store refuses reference data that names the operator. Transactions that began before
 *    have ended.
 * 2. Copy: the rows go to feed numbers that no feed has yet, so no view of the receiving store shows them.
 * 3. Compare: counts and sums of hashes of all tables.
 * 4. Switch: the feeds leave the one store and appear in the other.
 * 5. Delete: the rows in the leaving store.
 */
import type { Client } from 'pg';
import { BEGIN_SNAPSHOT } from '../postgres/snapshot';
import { isArriving, refuseHistory, refuseNamedThere, reserve, reservedNumbers, show } from './move-arrival';
import {
  awaitOlderTransactions,
  changeStore,
  checkCells,
  type Departure,
  fence,
  findDeparture,
  hide,
  leavingNumbers,
  logMove,
  MoveRefused,
  type MoveState,
  readCell,
  readStates,
  refuseNamed,
  refuseOpenCalls,
  refusePromotions,
} from './move-phases';
import { type MoveRequest, withStores } from './move-stores';
import { type CopyStep, copySteps, panicsOf } from './moved-rows';

export { MoveRefused } from './move-phases';
export type { MoveRequest } from './move-stores';

/** A report of progress: a phase, or the rows of a step. */
export type MoveReport = (line: string) => void;

export interface MovePlan {
  readonly fromCell: string;
  readonly toCell: string;
  readonly state: MoveState;
  readonly feeds: readonly string[];
  readonly topics: readonly string[];
  /** The causes that prevent the move now, each with its remedy; empty once the move has begun. */
  readonly obstacles: readonly string[];
}

/** The offset at which the receiving cell continues to read a partition. */
export interface MovedPosition {
  readonly topic: string;
  readonly partition: number;
  readonly decidedUpTo: number;
}

export interface Moved {
  readonly plan: MovePlan;
  /** Moved rows by table. */
  readonly rows: ReadonlyMap<string, number>;
  readonly positions: readonly MovedPosition[];
}

/** Checks what a move would do, and changes nothing. @throws MoveRefused, StoreError */
export function planMove(request: MoveRequest): Promise<MovePlan> {
  return withStores(request, (from, to) => readPlan(request, from, to));
}

/** Moves the operator, or continues its move. @throws MoveRefused, StoreError */
export function moveOperator(request: MoveRequest, report: MoveReport = () => undefined): Promise<Moved> {
  return withStores(request, async (from, to) => {
    const plan = await readPlan(request, from, to);
    const { operator } = request;
    let state = plan.state;
    if (state === 'none') {
      if (plan.obstacles.length > 0) throw new MoveRefused(plan.obstacles.join('\n'));
      await fence(from, operator, plan.toCell);
      state = 'copying';
    }
    let rows = new Map<string, number>();
    if (state === 'copying') {
      await awaitOlderTransactions(from);
      // Calls that began before the fence are stored by now, and no later one begins.
      await refuseOpenCalls(from, operator);
      report(`fenced: cell ${plan.fromCell} decides no event of ${operator} any more`);
      const departure = await findDeparture(from, operator);
      const arrival = await reserve(from, to, departure, plan.fromCell);
      const steps = copySteps(arrival.maps, arrival.months);
      for (const step of steps) await copy(from, to, operator, step, report);
      rows = await compare(from, to, steps);
      report(`compared: ${[...rows].map(([table, count]) => `${table} ${count}`).join(', ')}`);
      await hide(from, operator);
      state = 'hidden';
    }
    if (state === 'hidden') {
      await show(from, to, request, plan.fromCell);
      report(`switched: cell ${plan.toCell} has the operator`);
      state = 'switched';
    }
    if (state === 'switched') {
      await leave(from, request, plan.toCell, report);
      report(`deleted: cell ${plan.fromCell} has no rows of the operator`);
    }
    return { plan, rows, positions: await readPositions(to, operator) };
  });
}

/** Of a partition with positions on several Kafka clusters, the one that was decided last. */
async function readPositions(to: Client, operator: string): Promise<MovedPosition[]> {
  const { partitions } = await reservedNumbers(to, operator);
  const { rows } = await to.query<{ topic: string; partition: number; upTo: string }>(
    `select distinct on (topic, partition) topic, partition, coalesce(decided_up_to, next_offset) as "upTo" from promo_store.partitions
    where partition_no = any($1) order by topic, partition, updated_at desc`,
    [partitions.map(([, no]) => no)],
  );
  return rows.map(({ topic, partition, upTo }) => ({ topic, partition, decidedUpTo: Number(upTo) }));
}

/**
 * Gives a move up while its rows are copied: deletes the copy, and lets the leaving cell have the operator
 * again.
 * @throws MoveRefused where the operator is in the receiving cell already, or does not move
 */
export function cancelMove(request: MoveRequest, report: MoveReport = () => undefined): Promise<void> {
  return withStores(request, async (from, to) => {
    const { state } = await readPlan(request, from, to);
    const { operator } = request;
    if (state !== 'copying')
      throw new MoveRefused(
        state === 'none'
          ? `no move of ${operator} is under way between these cells`
          : `${operator} is not in its old cell any more. Finish the move, and move the operator back by another one`,
      );
    if (await isArriving(to, operator)) {
      const { feeds, partitions } = await reservedNumbers(to, operator);
      await deleteRows(
        to,
        operator,
        feeds.map(([, no]) => no),
        partitions.map(([, no]) => no),
        report,
      );
      await to.query('delete from promo_store.moves where operator_id = $1', [operator]);
    }
    await from.query('delete from promo_store.moves where operator_id = $1', [operator]);
  });
}

async function readPlan({ operator }: MoveRequest, from: Client, to: Client): Promise<MovePlan> {
  const [fromCell, toCell] = [await readCell(from, 'leaving'), await readCell(to, 'receiving')];
  checkCells(fromCell, toCell);
  const state = await readStates(from, to, operator, fromCell.name, toCell.name);
  const departure = await findDeparture(from, operator);
  const { feeds, topics } = departure;
  return {
    fromCell: fromCell.name,
    toCell: toCell.name,
    state,
    feeds: feeds.map(({ id }) => id),
    topics,
    obstacles: state === 'none' ? await findObstacles(from, to, departure) : [],
  };
}

/** The messages of all checks that refuse a move. */
async function findObstacles(from: Client, to: Client, departure: Departure): Promise<string[]> {
  const { operator } = departure;
  if (departure.feeds.length === 0)
    throw new MoveRefused(`there is no operator ${operator} in the leaving cell. Check the id`);
  const checks = [
    () => refuseNamed(from, operator),
    () => refuseOpenCalls(from, operator),
    () => refusePromotions(from, operator),
    () => refuseNamedThere(to, operator),
    () => refuseHistory(to, departure),
  ];
  const obstacles: string[] = [];
  for (const check of checks) {
    try {
      await check();
    } catch (error) {
      if (!(error instanceof MoveRefused)) throw error;
      obstacles.push(error.message);
    }
  }
  return obstacles;
}

/** Rows that are sent to the receiving store at once. An id may be long, so their bytes vary. */
const ROWS_AT_ONCE = 2_000;
/** Rows of one transaction, where a table is copied in ranges. An interrupted range is copied again. */
const ROWS_IN_RANGE = 100_000;

async function copy(
  from: Client,
  to: Client,
  operator: string,
  step: CopyStep,
  report: MoveReport,
): Promise<void> {
  const { rows: done } = await to.query<{ up_to: string | null; rows: string; is_done: boolean }>(
    `select encode(up_to, 'hex') as up_to, rows, is_done from promo_store.move_steps where operator_id = $1 and step = $2`,
    [operator, step.name],
  );
  let upTo = done[0]?.up_to ?? null;
  let copied = Number(done[0]?.rows ?? 0);
  if (done[0]?.is_done) return;
  for (;;) {
    const range = step.key && (await nextRange(from, step, upTo));
    const rows = range === undefined ? step.source : `${step.source} and ${range.condition}`;
    const source = step.order === undefined ? rows : `${rows} order by ${step.order}`;
    const isDone = range === undefined || range.last === null;
    upTo = range?.last ?? upTo;
    await changeStore(to, async () => {
      copied += await stream(from, to, step, source);
      await to.query(
        `insert into promo_store.move_steps (operator_id, step, up_to, rows, is_done) values ($1, $2, decode($3, 'hex'), $4, $5)
        on conflict (operator_id, step) do update set up_to = excluded.up_to, rows = excluded.rows, is_done = excluded.is_done`,
        [operator, step.name, upTo, copied, isDone],
      );
    });
    if (isDone) break;
  }
  if (copied > 0) report(`copied: ${step.name}, ${copied} rows`);
}

/** The next range of keys; `last` is null for the range without an end. */
async function nextRange(
  from: Client,
  { table, key }: CopyStep,
  after: string | null,
): Promise<{ condition: string; last: string | null } | undefined> {
  if (key === undefined) return undefined;
  const { column, feedNo } = key;
  const begin = after === null ? 'true' : `${column} > '\\x${after}'::bytea`;
  const { rows } = await from.query<{ last: string }>(
    `select encode(${column}, 'hex') as last from promo_store.${table} where feed_no = $1 and ${begin} order by ${column} offset $2 limit 1`,
    [feedNo, ROWS_IN_RANGE - 1],
  );
  const last = rows[0]?.last ?? null;
  return { condition: last === null ? begin : `${begin} and ${column} <= '\\x${last}'::bytea`, last };
}

/** Sends the rows of a query to a table, as JSON. @returns their number */
async function stream(from: Client, to: Client, step: CopyStep, source: string): Promise<number> {
  const columns = step.columns.join(', ');
  const insert = {
    text: `insert into promo_store.${step.table} (${columns}) select ${columns} from json_populate_recordset(null::promo_store.${step.table}, $1)`,
  };
  await from.query(BEGIN_SNAPSHOT);
  try {
    await from.query(
      `declare moved no scroll cursor for select row_to_json(t)::text as row from (${source}) t`,
    );
    let sent = 0;
    let inserted: Promise<unknown> = Promise.resolve();
    for (;;) {
      const { rows } = await from.query<{ row: string }>(`fetch ${ROWS_AT_ONCE} from moved`);
      await inserted;
      if (rows.length === 0) return sent;
      sent += rows.length;
      inserted = to.query(insert.text, [`[${rows.map(({ row }) => row).join()}]`]);
      // The next turn of the loop receives the error. Until then nobody waits for it.
      inserted.catch(() => undefined);
    }
  } finally {
    // Where the session is gone, its own error says why, and the next query fails.
    await from.query('rollback').catch(() => undefined);
  }
}

/** @returns rows by table @throws MoveRefused where a table differs */
async function compare(from: Client, to: Client, steps: readonly CopyStep[]): Promise<Map<string, number>> {
  const counts = new Map<string, number>();
  for (const step of steps) {
    const [source, target] = await Promise.all([summary(from, step.source), summary(to, step.target)]);
    if (source.rows !== target.rows || source.hashes !== target.hashes)
      throw new MoveRefused(
        `the copy of ${step.name} differs: ${source.rows} rows in the leaving store, ${target.rows} in the receiving store, sums of hashes ${source.hashes} and ${target.hashes}. The operator is still in the leaving store. Cancel the move, and begin it again`,
      );
    counts.set(step.table, (counts.get(step.table) ?? 0) + Number(source.rows));
  }
  return counts;
}

async function summary(client: Client, query: string): Promise<{ rows: string; hashes: string }> {
  const { rows } = await client.query<{ rows: string; hashes: string }>(
    `select count(*) as rows, coalesce(sum(hashtextextended(row_to_json(t)::text, 0)), 0)::text as hashes from (${query}) t`,
  );
  return rows[0] ?? { rows: '0', hashes: '0' };
}

/** Rows that are deleted at once. */
const DELETE_AT_ONCE = 20_000;

async function deleteRows(
  client: Client,
  operator: string,
  feeds: readonly number[],
  partitions: readonly number[],
  report: MoveReport,
): Promise<void> {
  const ofFeeds = `feed_no = any('{${feeds.join()}}')`;
  const ofPartitions = `partition_no = any('{${partitions.join()}}')`;
  await client.query(`delete from promo_store.panics where ${panicsOf(feeds)}`);
  await deleteInParts(client, 'rounds', ofFeeds, report);
  await deleteInParts(client, 'attributions', ofFeeds, report);
  await deleteInParts(client, 'erased_rounds', ofFeeds, report);
  await deleteInParts(client, 'event_keys', ofFeeds, report);
  const { rows: months } = await client.query<{ parent: string; name: string }>(
    'select parent, name from promo_store.month_tables() order by name',
  );
  for (const { parent, name } of months)
    await deleteInParts(client, name, parent === 'unstored' ? ofPartitions : ofFeeds, report);
  // A slice of the pseudonyms may have read the deleted rows: wait for its end.
  await client.query('select promo_store.wait_for_pseudonyms()');
  // A store that the operator has left has no feeds of it any more.
  await deleteInParts(client, 'pseudonyms', 'operator_id = $1', report, [operator]);
  await client.query('select promo_store.wait_for_rollups()');
  await deleteInParts(
    client,
    'rollup_players',
    'player_day_no in (select player_day_no from promo_store.rollup_player_counts join promo_store.operators using (operator_no) where operator_id = $1)',
    report,
    [operator],
  );
  await client.query(`delete from promo_store.dropped_rows where ${ofPartitions}`);
  await client.query(`delete from promo_store.partitions where ${ofPartitions}`);
}

/** Deletes what is left of the operator in its old store, and ends the move there. */
async function leave(
  from: Client,
  { operator, requestedBy }: MoveRequest,
  toCell: string,
  report: MoveReport,
): Promise<void> {
  const { feeds, partitions } = await leavingNumbers(from, operator);
  await deleteRows(
    from,
    operator,
    feeds.map(({ no }) => no),
    partitions,
    report,
  );
  await changeStore(from, async () => {
    await from.query(
      `update promo_store.moves set state = 'done', ended_at = clock_timestamp() where operator_id = $1`,
      [operator],
    );
    await logMove(from, requestedBy, { operator, to: toCell });
  });
}

async function deleteInParts(
  from: Client,
  table: string,
  where: string,
  report: MoveReport,
  values: readonly string[] = [],
): Promise<void> {
  let deleted = 0;
  for (;;) {
    const { rowCount } = await from.query(
      `delete from promo_store.${table} where ctid = any(array(select ctid from promo_store.${table} where ${where} limit ${DELETE_AT_ONCE}))`,
      [...values],
    );
    deleted += rowCount ?? 0;
    if ((rowCount ?? 0) < DELETE_AT_ONCE) break;
  }
  if (deleted > 0) report(`deleted: ${table}, ${deleted} rows`);
}
