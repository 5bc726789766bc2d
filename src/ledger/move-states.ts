/** A move between two cells, and the notes in both stores that say how far it is. */
import type { StoreAccess } from '../postgres/pool';
import { all, type MoveSession, type MoveStores, withStores } from './move-stores';
import type { NumberMaps } from './moved-rows';

export interface MoveRequest {
  readonly operator: string;
  /** The store that the operator leaves. */
  readonly from: string | StoreAccess;
  /** The store that receives it. */
  readonly to: string | StoreAccess;
  readonly requestedBy: string;
}

/** A requested move, with sessions in both stores, and the names of their cells. */
export interface Move extends MoveStores, Pick<MoveRequest, 'operator' | 'requestedBy'> {
  readonly fromCell: string;
  readonly toCell: string;
}

/** The move is not possible now. The message has the remedy, and nothing was changed by the failed phase. */
export class MoveRefused extends Error {
  override readonly name = 'MoveRefused';
}

/** @throws MoveRefused where the stores are no two cells that can exchange operators */
export function withMove<T>(request: MoveRequest, work: (move: Move) => Promise<T>): Promise<T> {
  return withStores(request, async ({ from, to }) => {
    const [leaving, receiving] = [await readCell(from, 'leaving'), await readCell(to, 'receiving')];
    checkCells(leaving, receiving);
    const { operator, requestedBy } = request;
    return work({ operator, requestedBy, from, to, fromCell: leaving.name, toCell: receiving.name });
  });
}

// --- cells

interface Cell {
  readonly name: string;
  readonly number: number;
  readonly cells: number;
  readonly firstBatch: number;
  readonly wasEmpty: boolean;
}

/** @param role of the store in the move, for the error */
async function readCell(session: MoveSession, role: 'leaving' | 'receiving'): Promise<Cell> {
  const [cell] = await all<{ name: string; number: number; cells: number; first: string; empty: boolean }>(
    session,
    'select name, number, cells, first_batch as first, was_empty as empty from promo_store.cell',
  );
  if (cell === undefined)
    throw new MoveRefused(
      `the ${role} store is no cell yet, so verdict ids of both stores may be equal. Call promo.number_cell there first`,
    );
  const { name, number, cells, first, empty } = cell;
  return { name, number, cells, firstBatch: Number(first), wasEmpty: empty };
}

/** @throws MoveRefused where both stores may have given the same number */
function checkCells(from: Cell, to: Cell): void {
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

// --- how far a move is

/** The phase that both stores have reached. */
export type MoveState = 'none' | 'copying' | 'hidden' | 'switched' | 'done';

/** @throws MoveRefused where another move of the operator is under way */
export async function readState({ operator, from, to, fromCell, toCell }: Move): Promise<MoveState> {
  const [out, into] = [await readNote(from, operator), await readNote(to, operator)];
  for (const [note, direction, other] of [
    [out, 'out', toCell],
    [into, 'in', fromCell],
  ] as const)
    if (
      note !== undefined &&
      note.state !== 'done' &&
      (note.direction !== direction || note.other_cell !== other)
    )
      throw new MoveRefused(
        `another move of ${operator} is under way, ${note.direction === 'out' ? 'to' : 'from'} cell ${note.other_cell}. Finish it first, with its own stores`,
      );
  const hasLeft = out?.direction === 'out' && out.other_cell === toCell;
  const hasArrived = into?.direction === 'in' && into.other_cell === fromCell && into.state === 'done';
  if (!hasLeft) return 'none';
  if (out.state === 'copying') return 'copying';
  if (out.state === 'hidden') return hasArrived ? 'switched' : 'hidden';
  return hasArrived ? 'done' : 'none';
}

/** Whether a part of the operator's rows may be in the receiving store. */
export async function isArriving({ operator, to }: Move): Promise<boolean> {
  const note = await readNote(to, operator);
  return note?.direction === 'in' && note.state === 'copying';
}

// --- the notes

/** Whether the operator leaves a store, or arrives in it. */
type Direction = 'out' | 'in';

/** The note of a store on its part of a move. */
interface MoveNote {
  readonly direction: string;
  readonly other_cell: string;
  readonly state: string;
}

async function readNote(session: MoveSession, operator: string): Promise<MoveNote | undefined> {
  const [note] = await all<MoveNote>(
    session,
    'select direction, other_cell, state from promo_store.moves where operator_id = $1',
    [operator],
  );
  return note;
}

/** The numbers of a leaving operator, as its store keeps them until the rows are deleted. */
export interface LeavingNumbers {
  readonly feeds: readonly { no: number; id: string }[];
  readonly partitions: readonly number[];
}

/** Notes in the leaving store that the move has begun, in place of an earlier move of the operator. */
export function noteDeparture({ operator, from, toCell }: Move, numbers: LeavingNumbers): Promise<void> {
  return noteBegin(from, operator, ['out', toCell, JSON.stringify(numbers)]);
}

/** The same in the receiving store. */
export function noteArrival({ operator, to, fromCell }: Move, numbers: NumberMaps): Promise<void> {
  return noteBegin(to, operator, ['in', fromCell, JSON.stringify(numbers)]);
}

async function noteBegin(
  session: MoveSession,
  operator: string,
  note: readonly [direction: Direction, otherCell: string, numbers: string],
): Promise<void> {
  await session.query(
    `insert into promo_store.moves (operator_id, direction, other_cell, state, numbers) values ($1, $2, $3, 'copying', $4)
    on conflict (operator_id) do update set direction = $2, other_cell = $3, state = 'copying', began_at = clock_timestamp(), ended_at = null, numbers = $4`,
    [operator, ...note],
  );
}

/** The numbers that the leaving store has noted. */
export function leavingNumbers({ operator, from }: Move): Promise<LeavingNumbers> {
  return notedNumbers<LeavingNumbers>(from, operator, 'out', 'leaving');
}

/** The numbers that the arriving operator has been given. */
export function reservedNumbers({ operator, to }: Move): Promise<NumberMaps> {
  return notedNumbers<NumberMaps>(to, operator, 'in', 'receiving');
}

async function notedNumbers<Numbers>(
  session: MoveSession,
  operator: string,
  direction: Direction,
  role: 'leaving' | 'receiving',
): Promise<Numbers> {
  const [row] = await all<{ numbers: Numbers }>(
    session,
    'select numbers from promo_store.moves where operator_id = $1 and direction = $2',
    [operator, direction],
  );
  if (row === undefined) throw new MoveRefused(`the ${role} store has no move of ${operator}`);
  return row.numbers;
}

/** Forgets a move that was given up. */
export async function forgetMove(session: MoveSession, operator: string): Promise<void> {
  await session.query('delete from promo_store.moves where operator_id = $1', [operator]);
}

/** Notes the end of the move in the leaving store, and adds it to the log of operations there. */
export async function endDeparture(move: Move): Promise<void> {
  await noteEnd(move.from, move, { to: move.toCell });
}

/** The same in the receiving store. */
export async function endArrival(move: Move): Promise<void> {
  await noteEnd(move.to, move, { from: move.fromCell });
}

async function noteEnd(
  session: MoveSession,
  { operator, requestedBy }: Move,
  other: Readonly<Record<string, string>>,
): Promise<void> {
  await session.query(
    `update promo_store.moves set state = 'done', ended_at = clock_timestamp() where operator_id = $1`,
    [operator],
  );
  await session.query(
    `insert into promo_store.operations (operation, requested_by, request, ended_at) values ('move', $1, $2, clock_timestamp())`,
    [requestedBy, JSON.stringify({ operator, ...other })],
  );
}
