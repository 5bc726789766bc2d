/** The progress of one player in one window of one promotion (docs/rules.md, P7-P12). */
import { attainedBy, type ProgressRow, scoreOf } from './attainment';
import type { PromotionWindow } from './calendar';
import type { Credit } from './matching';
import type { CompiledPromotion } from './terms';

/** A verdict, and the time of its rows. */
export interface ProgressStep {
  readonly changeNo: number;
  readonly at: bigint;
}

export class PlayerProgress {
  private readonly byKey = new Map<string, ProgressRow>();
  /** The completions that the rows are worth now. */
  attained = 0;
  /** The points of a leaderboard. */
  score = 0n;
  /** The last verdict that changed the points. The player has had them since then. */
  scored: ProgressStep | null = null;
  /** The verdicts by which ordinals were last attained. */
  readonly attainedBy = new Map<number, ProgressStep>();
  lastStep: ProgressStep | null = null;

  constructor(
    readonly promotion: CompiledPromotion,
    readonly version: number,
    readonly window: PromotionWindow,
    readonly playerRef: string,
  ) {}

  rows(): readonly ProgressRow[] {
    return [...this.byKey.values()];
  }

  add({ item, currency, amount }: Credit): void {
    const key = `${item}\0${currency}`;
    const row = this.byKey.get(key);
    if (row === undefined) this.byKey.set(key, { item, currency, value: amount });
    else row.value += amount;
  }

  /** Ends the step of one verdict: notes the ordinals and the points that it decided. */
  applyChange(changeNo: number, at: bigint): void {
    const step = { changeNo, at };
    this.lastStep = step;
    const rows = this.rows();
    if (this.promotion.goal.rule === 'rank') {
      const score = scoreOf(this.promotion, rows);
      if (score !== this.score) this.scored = step;
      this.score = score;
      return;
    }
    const attained = attainedBy(this.promotion, rows);
    for (let ordinal = this.attained + 1; ordinal <= attained; ordinal++) this.attainedBy.set(ordinal, step);
    for (let ordinal = this.attained; ordinal > attained; ordinal--) this.attainedBy.delete(ordinal);
    this.attained = attained;
  }
}
