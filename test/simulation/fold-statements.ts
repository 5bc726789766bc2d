/** The statements of src/fold/fold.ts, over the model of the tables. */
import { SLICE_LIMITS } from '../../src/promotion-store/slice-end';
import { BEFORE_ALL } from '../../src/promotions/calendar';
import {
  type FoldTables,
  flag,
  type GenerationRow,
  instantOf,
  type LedgerTables,
  lastNumberOf,
  numberText,
  timeText,
} from './fold-tables';
import { StoreFailure } from './store-model';
import type { Text } from './wire';

/** The rows of a page, of slices and of comparisons. */
const PAGE_ROWS = [3, 4, SLICE_LIMITS.pageRows, 10_000];

/** The transaction in which a statement runs. */
export interface FoldSession {
  /** Microseconds since 1970. */
  now(): bigint;
  lineage(): string;
  lastBatch(): number;
  /** The number of a window that has none yet. */
  nextWindowNo(key: string): number;
  readonly ledger: LedgerTables;
  /** The tables as the transaction sees them. */
  readonly seen: FoldTables;
  /** The tables as the transaction changes them. The lock of the fold is needed. */
  changed(): FoldTables;
  /** Begins a scan that is read in pages. */
  declare(rows: Text[][]): Text[][];
  nextPage(rows: number): Text[][];
  endPages(): Text[][];
  /** @returns false where another transaction holds the lock of the fold */
  tryLock(): boolean;
  /** Waits for the lock of the fold. @throws StoreFailure */
  lock(): Promise<void>;
  /** Waits until the batches that are open have ended. @throws StoreFailure */
  waitForBatches(patienceMs: number): Promise<void>;
}

export type FoldStatement = (
  session: FoldSession,
  values: readonly unknown[],
) => Text[][] | Promise<Text[][]>;

const HALF = 500n;
const PATIENCE_MS = 5_000;
const DAY = 86_400_000_000n;

const shownOf = ({ fold, generations }: FoldTables): GenerationRow | undefined =>
  fold === null ? undefined : generations.get(fold.generation);

const horizonOf = (session: FoldSession): number => lastNumberOf(session.lastBatch());

function changeGeneration(
  session: FoldSession,
  generation: unknown,
  change: (row: GenerationRow) => Partial<GenerationRow>,
): void {
  const { generations } = session.changed();
  const row = generations.get(Number(generation));
  if (row !== undefined) generations.set(row.generation, { ...row, ...change(row) });
}

/** Whether the shown generation has everything, and belongs to this store. */
const isCurrent = (session: FoldSession, shown: GenerationRow): boolean =>
  shown.after === horizonOf(session) && shown.lineage === session.lineage();

export const FOLD_STATEMENTS: Readonly<Record<string, FoldStatement>> = {
  fold_settings: () => [],
  ...Object.fromEntries(
    PAGE_ROWS.map((rows): [string, FoldStatement] => [
      `next_page_of_${rows}`,
      (session) => session.nextPage(rows),
    ]),
  ),
  end_pages: (session) => session.endPages(),
  fold_lock(session, [, holder]) {
    const { fold } = session.seen;
    if (fold === null || !session.tryLock()) return [];
    // Another transaction may have changed the row before the lock.
    const { generation, holder: held, heldUntil } = session.seen.fold ?? fold;
    return [[String(generation), flag(held === holder || (heldUntil ?? BEFORE_ALL) < session.now())]];
  },
  async fold_create(session) {
    if (session.seen.fold !== null) return [];
    await session.lock();
    if (session.seen.fold === null) session.changed().fold = { generation: 0, holder: null, heldUntil: null };
    return [];
  },
  fold_peek(session, [, holder, leaseMs]) {
    const { fold, generations } = session.seen;
    const shown = shownOf(session.seen);
    if (fold === null || shown === undefined) return [];
    const isHeld =
      fold.holder === holder &&
      fold.heldUntil !== null &&
      fold.heldUntil > session.now() + BigInt(Number(leaseMs)) * HALF;
    return [[flag(isHeld && isCurrent(session, shown) && generations.size === 1)]];
  },
  fold_still_idle(session) {
    const shown = shownOf(session.seen);
    if (shown === undefined) return [];
    return [[String(shown.generation), String(session.now()), flag(isCurrent(session, shown))]];
  },
  fold_lag(session, [, holder]) {
    const { fold } = session.seen;
    const shown = shownOf(session.seen);
    if (fold === null || shown === undefined) return [];
    const { caughtUpAt } = shown;
    const isLeased = fold.holder !== holder && fold.heldUntil !== null && fold.heldUntil > session.now();
    return [
      [caughtUpAt === null ? null : String(Number(session.now() - caughtUpAt) / 1e6), null, flag(isLeased)],
    ];
  },
  fold_generations: ({ seen }) =>
    [...seen.generations.values()]
      .sort((a, b) => a.generation - b.generation)
      .map(({ generation, state, after, lineage, newestAt }) => [
        ...[String(generation), state, String(after), lineage],
        timeText(newestAt === null ? BEFORE_ALL : newestAt - DAY),
      ]),
  fold_lineage: (session) => [[session.lineage()]],
  fold_store_of_connection: (session) => [[session.lineage()]],
  async fold_horizon(session) {
    const horizon = horizonOf(session);
    await session.waitForBatches(PATIENCE_MS);
    return [[String(horizon)]];
  },
  fold_begin(session, [, no, state, lineage]) {
    const generation = Number(no);
    const { generations } = session.changed();
    if (generations.has(generation)) throw new StoreFailure('23505', 'the generation exists');
    generations.set(generation, {
      generation,
      state: String(state),
      after: -1,
      lineage: String(lineage),
      newestAt: null,
      caughtUpAt: null,
      completeSince: session.ledger.dropped?.to ?? BEFORE_ALL,
    });
    return [];
  },
  fold_show(session, [, generation]) {
    const tables = session.changed();
    if (tables.fold !== null) tables.fold = { ...tables.fold, generation: Number(generation) };
    return [];
  },
  fold_state(session, [, generation, state]) {
    changeGeneration(session, generation, () => ({ state: String(state) }));
    return [];
  },
  fold_inherit(session, [, generation, other]) {
    const of = session.seen.generations.get(Number(other));
    changeGeneration(session, generation, ({ completeSince }) =>
      of === undefined || of.completeSince > completeSince ? {} : { completeSince: of.completeSince },
    );
    return [];
  },
  fold_cursor(session, [, generation, after, lineage, newestText, isCaughtUp]) {
    const newest = instantOf(newestText);
    const droppedTo = session.ledger.dropped?.to ?? BEFORE_ALL;
    changeGeneration(session, generation, ({ newestAt, caughtUpAt, completeSince }) => ({
      after: Number(after),
      lineage: String(lineage),
      newestAt: newest !== null && newest > (newestAt ?? BEFORE_ALL) ? newest : newestAt,
      caughtUpAt: isCaughtUp === true ? session.now() : caughtUpAt,
      completeSince:
        droppedTo > (newestAt ?? BEFORE_ALL) && droppedTo > completeSince ? droppedTo : completeSince,
    }));
    return [[timeText(session.seen.generations.get(Number(generation))?.completeSince ?? null)]];
  },
  fold_caught_up(session, [, wanted, lineage]) {
    for (const { generation, state } of [...session.seen.generations.values()])
      if (state === wanted)
        changeGeneration(session, generation, () => ({
          caughtUpAt: session.now(),
          lineage: String(lineage),
        }));
    return [];
  },
  fold_forget(session, [, generation]) {
    session.changed().generations.delete(Number(generation));
    return [];
  },
  fold_hold(session, [, holder, leaseMs]) {
    const tables = session.changed();
    const heldUntil = session.now() + BigInt(Number(leaseMs)) * 1_000n;
    if (tables.fold !== null) tables.fold = { ...tables.fold, holder: String(holder), heldUntil };
    return [];
  },
  async fold_release(session, [, holder]) {
    if (session.seen.fold?.holder !== holder) return [];
    await session.lock();
    const tables = session.changed();
    const { fold } = tables;
    if (fold !== null && fold.holder === holder) tables.fold = { ...fold, heldUntil: null };
    return [];
  },
  async fold_lock_for_rebuild(session) {
    if (session.seen.fold === null) return [];
    await session.lock();
    return [[numberText(session.seen.fold?.generation ?? null)]];
  },
};
