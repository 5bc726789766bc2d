/** A leaderboard of one window: its players, its close, and its ranks then (docs/rules.md, P10, P15). */
import type { ProgressStep } from './attempts';
import type { PromotionWindow } from './calendar';
import type { NumberedPromotion, PlayerProgress, ProgressWindow } from './player-progress';
import { compareRanked, keptRanks, ranking } from './ranking';
import type { CompiledPromotion } from './terms';

/** When a leaderboard has its ranks, in microseconds since 1970; null: never, and for other promotions. */
export function closeOf(
  { promotion }: Pick<NumberedPromotion, 'promotion'>,
  { endsAt }: PromotionWindow,
): bigint | null {
  return promotion.goal.rule !== 'rank' || endsAt === null ? null : endsAt + (promotion.acceptsLate ?? 0n);
}

export class Board {
  /** All players, or at least those who may be ranked at any step of the slice. */
  readonly players = new Set<PlayerProgress>();
  /** The players by rank. A rank is undefined where an erasure ended the completion of its player. */
  private ranked: readonly (PlayerProgress | undefined)[] = [];
  /** Players whose rank changed since the end of the last slice. */
  private readonly reranked = new Set<PlayerProgress>();
  private closed = false;

  /** When its ranks count, in microseconds since 1970; null: never. */
  readonly closesAt: bigint | null;
  private readonly promotion: CompiledPromotion;

  constructor({ version, window }: ProgressWindow) {
    this.promotion = version.promotion;
    this.closesAt = closeOf(version, window);
  }

  get isClosed(): boolean {
    return this.closed;
  }

  /**
   * Continues a board that an earlier slice closed, with the ranks that it gave. An erasure may have changed
   * the points since then.
   */
  restoreClosed(): void {
    this.closed = true;
    const ranked: (PlayerProgress | undefined)[] = [];
    for (const progress of this.players)
      if (progress.hasAttempts)
        for (const [rank] of progress.attempts.held()) {
          while (ranked.length < rank) ranked.push(undefined);
          ranked[rank - 1] = progress;
        }
    this.ranked = ranked;
  }

  /** Whether a row that was made at this time comes after the close. */
  isOver(at: bigint): boolean {
    return this.closesAt !== null && at >= this.closesAt;
  }

  /** Ranks the players by all events before the close. */
  close(): void {
    if (this.closed || this.closesAt === null) return;
    this.closed = true;
    this.changeRanks({ changeNo: null, at: this.closesAt });
  }

  /** Ranks again after one verdict that follows the close. */
  update(changed: readonly PlayerProgress[], step: ProgressStep): void {
    if (!this.closed) return;
    const last = this.ranked.at(-1);
    const isFull = this.ranked.length === keptRanks(this.promotion);
    const changesRanks = (each: PlayerProgress) =>
      this.ranked.includes(each) ||
      (each.score > 0n && (!isFull || last === undefined || compareRanked(each, last) < 0));
    if (this.ranked.includes(undefined) || changed.some(changesRanks)) this.changeRanks(step);
  }

  /** The players whose ranks changed since the last call. */
  takeReranked(): PlayerProgress[] {
    const reranked = [...this.reranked];
    this.reranked.clear();
    return reranked;
  }

  private changeRanks(step: ProgressStep): void {
    const before = this.ranked;
    const after = ranking(this.promotion, this.players);
    this.ranked = after;
    for (const [index, progress] of before.entries()) {
      if (progress === undefined || after[index] === progress) continue;
      progress.attempts.lose(index + 1, step);
      this.reranked.add(progress);
    }
    for (const [index, progress] of after.entries()) {
      if (before[index] === progress) continue;
      progress.attempts.attain(index + 1, step);
      this.reranked.add(progress);
    }
  }
}
