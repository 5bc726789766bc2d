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
import { refuseHistory, refuseNamedThere, reserve, show } from './move-arrival';
import { compareRows, copyRows, deleteRows, type MoveReport } from './move-copy';
import {
  awaitOlderTransactions,
  type Departure,
  fence,
  findDeparture,
  hide,
  leave,
  refuseNamed,
  refuseOpenCalls,
  refusePromotions,
} from './move-departure';
import {
  forgetMove,
  isArriving,
  type Move,
  MoveRefused,
  type MoveRequest,
  type MoveState,
  readState,
  reservedNumbers,
  withMove,
} from './move-states';
import { all } from './move-stores';
import { copySteps, newNumbersOf } from './moved-rows';

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
  return withMove(request, readPlan);
}

/** Moves the operator, or continues its move. @throws MoveRefused, StoreError */
export function moveOperator(request: MoveRequest, report: MoveReport = () => undefined): Promise<Moved> {
  return withMove(request, async (move) => {
    const plan = await readPlan(move);
    let { state } = plan;
    if (state === 'none') {
      if (plan.obstacles.length > 0) throw new MoveRefused(plan.obstacles.join('\n'));
      await fence(move);
      state = 'copying';
    }
    let rows: ReadonlyMap<string, number> = new Map();
    if (state === 'copying') {
      rows = await copyAll(move, report);
      await hide(move);
      state = 'hidden';
    }
    if (state === 'hidden') {
      await show(move);
      report(`switched: cell ${move.toCell} has the operator`);
      state = 'switched';
    }
    if (state === 'switched') {
      await leave(move, report);
      report(`deleted: cell ${move.fromCell} has no rows of the operator`);
    }
    return { plan, rows, positions: await readPositions(move) };
  });
}

/** Copies the rows behind the fence, and compares them. @returns rows by table @throws MoveRefused */
async function copyAll(move: Move, report: MoveReport): Promise<ReadonlyMap<string, number>> {
  await awaitOlderTransactions(move);
  // Calls that began before the fence are stored by now, and no later one begins.
  await refuseOpenCalls(move);
  report(`fenced: cell ${move.fromCell} decides no event of ${move.operator} any more`);
  const { maps, months } = await reserve(move, await findDeparture(move));
  const steps = copySteps(maps, months);
  for (const step of steps) await copyRows(move, step, report);
  const rows = await compareRows(move, steps);
  report(`compared: ${[...rows].map(([table, count]) => `${table} ${count}`).join(', ')}`);
  return rows;
}

/** Of a partition with positions on several Kafka clusters, the one that was decided last. */
async function readPositions(move: Move): Promise<MovedPosition[]> {
  const { partitions } = newNumbersOf(await reservedNumbers(move));
  const rows = await all<{ topic: string; partition: number; upTo: string }>(
    move.to,
    `select distinct on (topic, partition) topic, partition, coalesce(decided_up_to, next_offset) as "upTo" from promo_store.partitions
    where partition_no = any($1) order by topic, partition, updated_at desc`,
    [partitions],
  );
  return rows.map(({ topic, partition, upTo }) => ({ topic, partition, decidedUpTo: Number(upTo) }));
}

/**
 * Gives a move up while its rows are copied: deletes the copy, and lets the leaving cell have the operator
 * again.
 * @throws MoveRefused where the operator is in the receiving cell already, or does not move
 */
export function cancelMove(request: MoveRequest, report: MoveReport = () => undefined): Promise<void> {
  return withMove(request, async (move) => {
    const { operator, from, to } = move;
    const { state } = await readPlan(move);
    if (state !== 'copying')
      throw new MoveRefused(
        state === 'none'
          ? `no move of ${operator} is under way between these cells`
          : `${operator} is not in its old cell any more. Finish the move, and move the operator back by another one`,
      );
    if (await isArriving(move)) {
      await deleteRows(to, operator, newNumbersOf(await reservedNumbers(move)), report);
      await forgetMove(to, operator);
    }
    await forgetMove(from, operator);
  });
}

async function readPlan(move: Move): Promise<MovePlan> {
  const state = await readState(move);
  const departure = await findDeparture(move);
  return {
    fromCell: move.fromCell,
    toCell: move.toCell,
    state,
    feeds: departure.feeds.map(({ id }) => id),
    topics: departure.topics,
    obstacles: state === 'none' ? await findObstacles(move, departure) : [],
  };
}

/** The messages of all checks that refuse a move. */
async function findObstacles(move: Move, departure: Departure): Promise<string[]> {
  if (departure.feeds.length === 0)
    throw new MoveRefused(`there is no operator ${move.operator} in the leaving cell. Check the id`);
  const checks = [
    () => refuseNamed(move),
    () => refuseOpenCalls(move),
    () => refusePromotions(move),
    () => refuseNamedThere(move),
    () => refuseHistory(move, departure),
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
