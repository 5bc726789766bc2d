/**
 * A fold: results that are kept up to date from history, exactly, beside the intake.
 *
 * A slice is one transaction. It locks the row of the fold, and reads the horizon. It adds the verdicts
 * between cursor and horizon to the results, and moves the cursor. So a crash anywhere repeats the slice, and
 * two processes never add the same verdict. The lease only decides which process works: results are exact
 * without it. Horizon and slice come from the same server, also during a failover, since one transaction has
 * both.
 *
 * A generation is a set of results with a cursor of its own. A rebuild fills a further generation beside the
 * one that is shown, and shows it once both cursors are equal.
 */
import { inTransaction, type Session, type Store } from '../postgres/transaction';
import { goalGivingWay, isIntakeBehind, restAfter } from './giving-way';
import { hasArrivals } from './lineage';
import { type FoldStep, type Generation, planStep } from './plan';
import { FIRST_SPAN, nextSpan, type SpanGoal, spanAfterFailure } from './span';
import * as sql from './statements';
import { BATCH_NUMBERS } from './statements';

export interface Slice {
  readonly generation: number;
  /** The slice has the verdicts with numbers above this one. */
  readonly after: number;
  /** The highest number of the slice. */
  readonly upTo: number;
  /** All of them were decided at this time or later. */
  readonly since: string;
  /** `promo.lineage()` of the store that has the slice. */
  readonly lineage: string;
  /** Higher numbers were decided later, or about then. False where rows of another store arrived. */
  readonly isInOrder: boolean;
  /** Readers see the generation. */
  readonly isShown: boolean;
  /**
   * Verdicts with higher numbers wait, or nobody sees the generation yet, and the intake does not need the
   * CPU.
   */
  readonly mayTakeCores: boolean;
}

export interface SliceResult {
  /** All verdicts up to this number are added: a slice may end early. Absent: all of the slice. */
  readonly upTo?: number;
  readonly rows: number;
  /** The latest decided_at; null where there are no rows. */
  readonly newestAt: string | null;
  /** Why another generation has to be filled; absent: it need not. */
  readonly rebuild?: string | null;
}

/** The results of a fold: its statements. */
export interface Results {
  readonly name: string;
  /** A better end for a slice that is behind, at most its own one. */
  endOf?(session: Session, slice: Slice): Promise<number>;
  /** Adds a slice to the results of a generation. */
  fold(session: Session, slice: Slice): Promise<SliceResult>;
  /**
   * Called while nothing is decided: some results follow from time alone.
   * @param now the time of the store, in microseconds since 1970
   * @returns why another generation has to be filled; null: it need not
   */
  updateByTime?(session: Session, generation: number, now: bigint): Promise<string | null>;
  /** Copies results of the time before `since`, which history no longer has, to another generation. */
  keepOlder(session: Session, from: number, to: number, since: string): Promise<void>;
  /** Deletes some results of a generation. @returns true once there are none */
  sweep(session: Session, generation: number): Promise<boolean>;
}

export interface FoldOptions {
  /** Names this process in the lease. */
  readonly holder: string;
  readonly leaseMs: number;
  /** The goal for a slice of the shown generation, and of one that is filled beside it. */
  readonly slice: SpanGoal;
  readonly fill: SpanGoal;
  readonly now: () => number;
}

export type Stepped =
  /** Another process folds, or another transaction holds the row of the fold. */
  | {
      readonly kind: 'standby';
      /** Another process has the lease. Otherwise a transaction holds the row, such as `promotions apply`. */
      readonly isLeased: boolean;
      readonly lagSeconds: number | null;
      /** The process of Postgres whose transaction has held the row for long; null: none has. */
      readonly heldBy: number | null;
    }
  /** The process did a step of other work, which comes before its fold: nothing was folded. */
  | { readonly kind: 'other work'; readonly isCaughtUp: false }
  | ((Exclude<FoldStep, SliceStep> | FoldedSlice) & {
      /** The shown generation has everything up to the horizon. */
      readonly isCaughtUp: boolean;
      /** Another generation is filled beside it. */
      readonly isFilling: boolean;
    });

/** The interval of checks for results that follow from time alone. */
const TIME_CHECK_MS = 10_000;
/** Shorter than the deadline of a statement: the error then names the process that holds the horizon back. */
const HORIZON_TIMEOUT = '5 seconds';

/** New verdicts from one call of promo_store.summarize_history to the next. */
const SUMMARIZED_ROWS = 10_000;

type SliceStep = Extract<FoldStep, { kind: 'slice' }>;

type FoldedSlice = SliceStep &
  SliceResult & {
    readonly ms: number;
    /** The fold gives way to the intake for this time. */
    readonly restMs: number;
    /** The results ended the slice early: a longer one would not fit. */
    readonly wasCut: boolean;
    /** The results chose a better end: a longer one would have fit. */
    readonly wasShortened: boolean;
  };

/** The state of a fold, as a step finds it under the lock. */
interface Found {
  readonly generations: readonly Generation[];
  readonly horizon: number;
  readonly lineage: string;
}

export interface Fold {
  /** One step, in a transaction of its own. @throws StoreError, CursorBeyondStore */
  step(): Promise<Stepped>;
  /** Begins a rebuild beside the results that are shown. @returns false where one runs already */
  rebuild(reason: string): Promise<boolean>;
  /** Lets another process fold at once. */
  release(): Promise<void>;
}

export function makeFold(store: Store, results: Results, options: FoldOptions): Fold {
  const { name } = results;
  const { holder, leaseMs, now } = options;
  const spans = { shown: FIRST_SPAN, filling: FIRST_SPAN, retired: 1 };
  const goals = { shown: options.slice, filling: options.fill, retired: options.fill };
  let turn: 'shown' | 'filling' = 'shown';
  let nextTimeCheckAt = 0;
  let unsummarizedRows = 0;
  /** Whether the last slice of the shown generation found the intake behind. */
  let givesWay = false;

  async function readGenerations(session: Session): Promise<Generation[]> {
    const rows = await session.query(sql.GENERATIONS, [name]);
    return rows.map(([generation, state, after, lineage, since]) => ({
      generation: Number(generation),
      state: state === 'shown' || state === 'filling' ? state : 'retired',
      after: Number(after),
      lineage: lineage ?? '',
      since: since ?? '-infinity',
    }));
  }

  /** @returns false where a generation is filled already, or none is shown yet */
  async function beginFilling(session: Session, reason: string): Promise<boolean> {
    const generations = await readGenerations(session);
    const shown = generations.find(({ state }) => state === 'shown');
    if (shown === undefined || generations.some(({ state }) => state === 'filling')) return false;
    const next = Math.max(...generations.map(({ generation }) => generation)) + 1;
    const [[lineage = null] = []] = await session.query(sql.LINEAGE);
    await session.query(sql.BEGIN_GENERATION, [name, next, 'filling', lineage ?? '', reason]);
    return true;
  }

  /** Plans a step under the lock of the fold, and does it. */
  async function stepIn(session: Session): Promise<Stepped> {
    await session.query(sql.PLANNER_SETTINGS);
    if (!(await sql.lockFold(session, name, holder))) {
      const [[lag = null, pid = null, isLeased = null] = []] = await session.query(sql.LAG, [name, holder]);
      return {
        kind: 'standby',
        isLeased: isLeased === 't',
        lagSeconds: lag === null ? null : Number(lag),
        heldBy: pid === null ? null : Number(pid),
      };
    }
    const [[horizon] = []] = await session.query(sql.HORIZON, [HORIZON_TIMEOUT]);
    const [[lineage = null] = []] = await session.query(sql.LINEAGE);
    const generations = await readGenerations(session);
    const found = { generations, horizon: Number(horizon), lineage: lineage ?? '' };
    const step = planStep({
      ...found,
      turn,
      reach: ({ state, after }) => after + spans[state] * BATCH_NUMBERS,
    });
    await session.query(sql.HOLD, [name, holder, leaseMs]);
    if (step.kind === 'slice') return foldSlice(session, step, found);
    if (step.kind === 'begin') return begin(session, step, found);
    if (step.kind === 'give up') await session.query(sql.SET_STATE, [name, step.generation, 'retired']);
    if (step.kind === 'sweep' && (await results.sweep(session, step.generation)))
      await session.query(sql.FORGET, [name, step.generation]);
    if (step.kind === 'idle') await session.query(sql.CAUGHT_UP, [name, 'shown', found.lineage]);
    return { ...step, ...progressAt(shownIn(found)?.after, found) };
  }

  async function begin(
    session: Session,
    step: Extract<FoldStep, { kind: 'begin' }>,
    found: Found,
  ): Promise<Stepped> {
    const isFirst = shownIn(found) === undefined;
    const state = isFirst ? 'shown' : 'filling';
    await session.query(sql.BEGIN_GENERATION, [name, step.generation, state, found.lineage, step.reason]);
    if (isFirst) await session.query(sql.SHOW, [name, step.generation]);
    return { ...step, isCaughtUp: false, isFilling: !isFirst };
  }

  async function foldSlice(session: Session, step: SliceStep, found: Found): Promise<Stepped> {
    const { of } = step;
    const wasTurnOfShown = turn === 'shown';
    turn = of.state === 'shown' ? 'filling' : 'shown';
    // Until it is stored, the slice counts as failed: a smaller one may succeed, whatever the failure is.
    spans[of.state] = spanAfterFailure(spans[of.state]);
    const began = now();
    const isInOrder = !hasArrivals(found.lineage);
    const since = isInOrder ? of.since : '-infinity';
    const isShown = of.state === 'shown';
    const isBehind = step.upTo < found.horizon;
    const planned: Slice = {
      generation: of.generation,
      after: of.after,
      upTo: step.upTo,
      since,
      lineage: found.lineage,
      isInOrder,
      isShown,
      mayTakeCores: (isBehind || !isShown) && !givesWay,
    };
    const end = isBehind ? await results.endOf?.(session, planned) : undefined;
    const slice = { ...planned, upTo: end ?? planned.upTo };
    const folded = await results.fold(session, slice);
    const { upTo = slice.upTo, rows } = folded;
    const wasCut = upTo < slice.upTo;
    const wasShortened = slice.upTo < step.upTo;
    const shows = step.shows && upTo === step.upTo;
    const progress = progressAt(isShown ? upTo : shownIn(found)?.after, found);
    if (isShown)
      givesWay = await isIntakeBehind(session, { rows, newestAt: folded.newestAt, since }, found.horizon);
    // The shown generation had nothing to add in its turn, so its last slice is too old to judge the intake.
    else if (progress.isCaughtUp || wasTurnOfShown) givesWay = false;
    const values = [name, of.generation, upTo, found.lineage, folded.newestAt, progress.isCaughtUp];
    // A month may have been dropped since the generations were read.
    const [[completeSince = null] = []] = await session.query(sql.MOVE_CURSOR, values);
    // A generation that lacks something finishes first, and the next one begins then.
    if (folded.rebuild != null && !progress.isFilling) await beginFilling(session, folded.rebuild);
    if (shows) await show(session, of.generation, completeSince ?? '-infinity', found);
    const ms = now() - began;
    const restMs = givesWay ? restAfter(ms) : 0;
    if (restMs > 0) await session.query(sql.HOLD, [name, holder, leaseMs + restMs]);
    return { ...step, ...folded, upTo, shows, wasCut, wasShortened, ms, restMs, ...progress };
  }

  /**
   * Shows a generation in place of the shown one.
   * @param completeSince it has all verdicts from this time on
   */
  async function show(
    session: Session,
    next: number,
    completeSince: string,
    { generations }: Found,
  ): Promise<void> {
    for (const { generation } of generations.filter(({ state }) => state === 'shown')) {
      await results.keepOlder(session, generation, next, completeSince);
      await session.query(sql.INHERIT_COMPLETENESS, [name, next, generation]);
      await session.query(sql.SET_STATE, [name, generation, 'retired']);
    }
    await session.query(sql.SET_STATE, [name, next, 'shown']);
    await session.query(sql.SHOW, [name, next]);
  }

  /** Without summaries, each slice reads all verdicts since the last vacuum. */
  async function summarizeAfter({ of, rows }: FoldedSlice): Promise<void> {
    if (of.state === 'shown') unsummarizedRows += rows;
    if (unsummarizedRows < SUMMARIZED_ROWS) return;
    unsummarizedRows = 0;
    await inTransaction(store, (session) => session.query(sql.SUMMARIZE));
  }

  /** Updates results that follow from time alone. Not at each step, since it takes a transaction. */
  async function checkTime(): Promise<void> {
    if (results.updateByTime === undefined || now() < nextTimeCheckAt) return;
    nextTimeCheckAt = now() + TIME_CHECK_MS;
    await inTransaction(store, async (session) => {
      await session.query(sql.PLANNER_SETTINGS);
      if (!(await sql.lockFold(session, name, holder))) return;
      const [[generation, at, isCaughtUp] = []] = await session.query(sql.STILL_IDLE, [name]);
      if (generation == null || at == null || isCaughtUp !== 't') return;
      const reason = await results.updateByTime?.(session, Number(generation), BigInt(at));
      if (reason != null) await beginFilling(session, reason);
    });
  }

  return {
    async step() {
      const [[isIdle] = []] = await inTransaction(store, (session) =>
        session.query(sql.PEEK, [name, holder, leaseMs]),
      );
      if (isIdle === 't') {
        await checkTime();
        return { kind: 'idle', isCaughtUp: true, isFilling: false };
      }
      const tried = { ...spans };
      const stepped = await inTransaction(store, stepIn);
      if (stepped.kind === 'slice') {
        spans[stepped.of.state] = spanAfterSlice(stepped, tried[stepped.of.state], goals[stepped.of.state]);
        await summarizeAfter(stepped);
      }
      return stepped;
    },
    rebuild: (reason) =>
      inTransaction(store, async (session) => {
        await session.query(sql.LOCK_FOR_REBUILD, [name]);
        return beginFilling(session, reason);
      }),
    async release() {
      await inTransaction(store, (session) => session.query(sql.RELEASE, [name, holder]));
    },
  };
}

const shownIn = ({ generations }: Found) => generations.find(({ state }) => state === 'shown');

/** @param after the cursor of the shown generation */
function progressAt(after: number | undefined, { generations, horizon }: Found) {
  return { isCaughtUp: after === horizon, isFilling: generations.some(({ state }) => state === 'filling') };
}

/** The span after a stored slice. @param tried the span that the slice could have had */
function spanAfterSlice(slice: FoldedSlice, tried: number, goal: SpanGoal): number {
  const batches = Math.ceil((slice.upTo - slice.of.after) / BATCH_NUMBERS);
  const givesWay = slice.restMs > 0;
  const next = nextSpan({ batches, rows: slice.rows, ms: slice.ms }, givesWay ? goalGivingWay(goal) : goal);
  if (slice.wasCut) return Math.min(batches, next);
  // While the fold rested, more was decided than a short slice has: where the slice ended says nothing.
  if (givesWay) return next;
  if (slice.wasShortened) return next < batches ? next : Math.max(next, tried);
  // A slice that ended at the horizon says little about the next span where it was short.
  return Math.max(next, batches < tried ? Math.min(tried, next * 16) : next);
}
