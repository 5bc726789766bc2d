/**
 * Judges progress: closes leaderboards, and at the end of a slice completes, revokes and confirms
 * (docs/rules.md, P11-P15).
 */
import type { AttemptChange, ProgressStep } from './attempts';
import { Board } from './board';
import { type CompletionEntry, type CompletionKey, completionIdOf } from './completion';
import type { PlayerProgress, ProgressWindow } from './player-progress';
import { compareBytes } from './ranking';

/** A completion that holds. */
export interface HeldCompletion {
  readonly key: CompletionKey;
  readonly completionId: string;
  readonly at: bigint;
  readonly isConfirmed: boolean;
}

export interface SliceEnd {
  /** Changes of the ledger of completions, in their order. */
  readonly entries: readonly (readonly [progress: PlayerProgress, entry: CompletionEntry])[];
  /** The ordinals whose attempts changed, by progress. */
  readonly changed: ReadonlyMap<PlayerProgress, readonly number[]>;
}

export class Judge {
  /** Progress that changed since the end of the last slice. */
  private touched: PlayerProgress[] = [];
  private readonly boards = new Map<ProgressWindow, Board>();
  /** Progress with a completion that waits for its confirmation. */
  private readonly waiting = new Set<PlayerProgress>();

  /** The leaderboard of a window. */
  boardOf(place: ProgressWindow): Board {
    let board = this.boards.get(place);
    if (board === undefined) {
      board = new Board(place);
      this.boards.set(place, board);
    }
    return board;
  }

  /** Called before a row changes progress: a row from after the close finds its leaderboard closed. */
  prepare(progress: PlayerProgress, enteredAt: bigint): void {
    if (!mayHaveRanks(progress)) return;
    const board = this.boardOf(progress.place);
    if (!board.isClosed && board.isOver(enteredAt)) board.close();
    board.players.add(progress);
  }

  /** Ends the step of one verdict. */
  endStep(changed: readonly PlayerProgress[], step: ProgressStep): void {
    let byBoard: Map<Board, PlayerProgress[]> | undefined;
    for (const progress of changed) {
      progress.applyChange(step);
      if (!progress.isTouched) {
        progress.isTouched = true;
        this.touched.push(progress);
      }
      if (!mayHaveRanks(progress)) continue;
      const board = this.boardOf(progress.place);
      if (!board.isClosed) continue;
      byBoard ??= new Map();
      const players = byBoard.get(board);
      if (players === undefined) byBoard.set(board, [progress]);
      else players.push(progress);
    }
    for (const [board, players] of byBoard ?? []) board.update(players, step);
  }

  /** Adds progress whose completions may wait for their confirmation. */
  awaitConfirmation(progress: PlayerProgress): void {
    if (progress.hasAttempts && progress.promotion.confirmAfter !== null) this.waiting.add(progress);
  }

  /** @param asOf the time up to which rows were taken, in microseconds since 1970 */
  endSlice(asOf: bigint): SliceEnd {
    const settling = this.touched;
    this.touched = [];
    for (const progress of settling) progress.isTouched = false;
    for (const board of this.boards.values()) {
      if (board.closesAt !== null && asOf >= board.closesAt) board.close();
      // A rank may change by an event of another player. Settling progress twice changes nothing.
      for (const progress of board.takeReranked()) settling.push(progress);
    }
    const changed = new Map<PlayerProgress, readonly number[]>();
    const entries: (readonly [PlayerProgress, CompletionEntry])[] = [];
    for (const progress of settling) {
      if (!progress.hasAttempts) continue;
      const { changes, ordinals } = progress.attempts.settle(progress.promotion.confirmAfter);
      if (ordinals.length > 0) changed.set(progress, ordinals);
      for (const change of changes) entries.push([progress, entryOf(progress, change)]);
      if (changes.length > 0) this.awaitConfirmation(progress);
    }
    for (const progress of this.waiting) {
      let isWaiting = false;
      for (const [ordinal, { confirmsAt }] of progress.attempts.held()) {
        const change = progress.attempts.confirm(ordinal, asOf);
        if (change === undefined) isWaiting ||= confirmsAt !== null;
        else {
          entries.push([progress, entryOf(progress, change)]);
          changed.set(progress, [...(changed.get(progress) ?? []), ordinal]);
        }
      }
      if (!isWaiting) this.waiting.delete(progress);
    }
    return { entries: entries.sort(([, a], [, b]) => compareEntries(a, b)), changed };
  }
}

/** A leaderboard has its ranks once it is closed. Without an end, it never closes. */
function mayHaveRanks({ promotion, window }: PlayerProgress): boolean {
  return promotion.goal.rule === 'rank' && window.endsAt !== null;
}

/** The completions of a player that hold, by ordinal. */
export function heldBy(progress: PlayerProgress): ReadonlyMap<number, HeldCompletion> {
  const held = new Map<number, HeldCompletion>();
  if (!progress.hasAttempts) return held;
  for (const [ordinal, { attempt, at, confirmsAt }] of progress.attempts.held()) {
    const key = keyOf(progress, ordinal, attempt);
    const isConfirmed = progress.promotion.confirmAfter !== null && confirmsAt === null;
    held.set(ordinal, { key, completionId: completionIdOf(key), at, isConfirmed });
  }
  return held;
}

const CHANGE_ORDER = ['revoked', 'completed', 'confirmed'] as const;

/** The order of the entries of a slice. */
export function compareEntries(a: CompletionEntry, b: CompletionEntry): number {
  return (
    compareBytes(a.operatorId, b.operatorId) ||
    compareBytes(a.promotionId, b.promotionId) ||
    compareBytes(a.window, b.window) ||
    CHANGE_ORDER.indexOf(a.change) - CHANGE_ORDER.indexOf(b.change) ||
    a.ordinal - b.ordinal ||
    compareBytes(a.playerRef, b.playerRef)
  );
}

function entryOf(
  progress: PlayerProgress,
  { change, ordinal, attempt, step }: AttemptChange,
): CompletionEntry {
  const key = keyOf(progress, ordinal, attempt);
  return { ...key, completionId: completionIdOf(key), change, changeNo: step.changeNo, at: step.at };
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
