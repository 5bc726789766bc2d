/**
 * Judges progress at the end of a slice: completes, revokes and confirms (docs/rules.md, P11-P15).
 */
import { type CompletionEntry, type CompletionKey, completionIdOf } from './completion';
import type { PlayerProgress, ProgressStep } from './player-progress';
import { compareBytes, ranking } from './ranking';
import type { CompiledPromotion } from './terms';

/** A completion that holds. */
export interface HeldCompletion {
  readonly key: CompletionKey;
  readonly completionId: string;
  readonly at: bigint;
  isConfirmed: boolean;
}

/** The completions of one player in one window. */
interface Completions {
  readonly held: Map<number, HeldCompletion>;
  readonly attempts: Map<number, number>;
}

/** The players of one window of a leaderboard. */
interface Board {
  readonly promotion: CompiledPromotion;
  readonly players: Set<PlayerProgress>;
  /** When its ranks count; null: never. */
  readonly closesAt: bigint | null;
  isClosed: boolean;
  isTouched: boolean;
}

export class Judge {
  private readonly touched = new Set<PlayerProgress>();
  private readonly records = new Map<PlayerProgress, Completions>();
  private readonly boards = new Map<string, Board>();
  /** Completions that wait for their confirmation. */
  private readonly waiting = new Map<HeldCompletion, bigint>();

  /** Notes that progress changed since the end of the last slice. */
  touch(progress: PlayerProgress): void {
    if (progress.promotion.goal.rule !== 'rank') this.touched.add(progress);
    else {
      const board = this.boardOf(progress);
      board.players.add(progress);
      board.isTouched = true;
    }
  }

  /** The completions of a player that hold, by ordinal. */
  heldBy(progress: PlayerProgress): ReadonlyMap<number, HeldCompletion> {
    return this.records.get(progress)?.held ?? NONE_HELD;
  }

  endSlice(asOf: bigint): CompletionEntry[] {
    const entries: CompletionEntry[] = [];
    for (const progress of this.touched)
      this.compare(progress, progress.attainedBy(), progress.lastStep ?? NO_STEP, entries);
    this.touched.clear();
    for (const board of this.boards.values()) this.closeBoard(board, asOf, entries);
    for (const [held, confirmAfter] of this.waiting) {
      const at = held.at + confirmAfter;
      if (at > asOf) continue;
      this.waiting.delete(held);
      held.isConfirmed = true;
      entries.push({
        ...held.key,
        completionId: held.completionId,
        change: 'confirmed',
        changeNo: null,
        at,
      });
    }
    return entries.sort(inOrder);
  }

  private boardOf(progress: PlayerProgress): Board {
    const { promotion, version, window } = progress;
    const { operator, id } = promotion.definition;
    const key = JSON.stringify([operator, id, version, window.key]);
    let board = this.boards.get(key);
    if (board === undefined) {
      const closesAt = window.endsAt === null ? null : window.endsAt + (promotion.acceptsLate ?? 0n);
      board = { promotion, players: new Set(), closesAt, isClosed: false, isTouched: false };
      this.boards.set(key, board);
    }
    return board;
  }

  /** Ranks the players once the window is closed, and again where an event or a refund comes later. */
  private closeBoard(board: Board, asOf: bigint, entries: CompletionEntry[]): void {
    const { promotion, players, closesAt } = board;
    if (closesAt === null || asOf < closesAt || (board.isClosed && !board.isTouched)) return;
    const atClose = !board.isClosed;
    board.isClosed = true;
    board.isTouched = false;
    const ranks = new Map(ranking(promotion, players).map(({ rank, progress }) => [progress, rank]));
    const latest = latestStep(players);
    // A rank may change by an event of another player.
    const step = atClose && latest.at < closesAt ? { ...latest, at: closesAt } : latest;
    for (const progress of players) {
      const rank = ranks.get(progress);
      const attained = rank === undefined ? [] : [[rank, step] as const];
      this.compare(progress, new Map(attained), step, entries);
    }
  }

  /** Makes the completions of a player those that the progress has attained. */
  private compare(
    progress: PlayerProgress,
    attained: ReadonlyMap<number, ProgressStep>,
    latest: ProgressStep,
    entries: CompletionEntry[],
  ): void {
    if (attained.size === 0 && !this.records.has(progress)) return;
    const { held, attempts } = this.recordOf(progress);
    for (const [ordinal, completion] of held) {
      if (attained.has(ordinal)) continue;
      held.delete(ordinal);
      this.waiting.delete(completion);
      const { key, completionId } = completion;
      entries.push({ ...key, completionId, change: 'revoked', ...latest });
    }
    for (const [ordinal, step] of attained) {
      if (held.has(ordinal)) continue;
      const attempt = (attempts.get(ordinal) ?? 0) + 1;
      attempts.set(ordinal, attempt);
      const key = keyOf(progress, ordinal, attempt);
      const made: HeldCompletion = {
        key,
        completionId: completionIdOf(key),
        at: step.at,
        isConfirmed: false,
      };
      held.set(ordinal, made);
      const { confirmAfter } = progress.promotion;
      if (confirmAfter !== null) this.waiting.set(made, confirmAfter);
      entries.push({ ...key, completionId: made.completionId, change: 'completed', ...step });
    }
  }

  private recordOf(progress: PlayerProgress): Completions {
    let found = this.records.get(progress);
    if (found === undefined) {
      found = { held: new Map(), attempts: new Map() };
      this.records.set(progress, found);
    }
    return found;
  }
}

const NONE_HELD: ReadonlyMap<number, HeldCompletion> = new Map();
const NO_STEP: ProgressStep = { changeNo: 0, at: 0n };

/** The latest change of any player. */
function latestStep(players: Iterable<PlayerProgress>): ProgressStep {
  let latest = NO_STEP;
  for (const { lastStep } of players)
    if (lastStep !== null && lastStep.changeNo > latest.changeNo) latest = lastStep;
  return latest;
}

const CHANGE_ORDER = ['revoked', 'completed', 'confirmed'] as const;

function inOrder(a: CompletionEntry, b: CompletionEntry): number {
  return (
    compareBytes(a.operatorId, b.operatorId) ||
    compareBytes(a.promotionId, b.promotionId) ||
    compareBytes(a.window, b.window) ||
    CHANGE_ORDER.indexOf(a.change) - CHANGE_ORDER.indexOf(b.change) ||
    a.ordinal - b.ordinal ||
    compareBytes(a.playerRef, b.playerRef)
  );
}

function keyOf(progress: PlayerProgress, ordinal: number, attempt: number): CompletionKey {
  const { promotion, version, window, playerRef } = progress;
  const { operator, id } = promotion.definition;
  return {
    operatorId: operator,
    promotionId: id,
    version,
    playerRef,
    window: window.key,
    ordinal,
    attempt,
  };
}
