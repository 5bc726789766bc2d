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
  /** Few rows, so that an array needs less memory than a map and is as fast. */
  private readonly values: ProgressRow[] = [];
  /** The verdict that last attained each ordinal: the first is at the start. Null: none was attained. */
  private steps: ProgressStep[] | null = null;
  /** The points of a leaderboard. */
  score = 0n;
  /** The last verdict that changed the points. The player has had them since then. */
  scored: ProgressStep | null = null;
  lastStep: ProgressStep | null = null;

  constructor(
    readonly promotion: CompiledPromotion,
    readonly version: number,
    readonly window: PromotionWindow,
    readonly playerRef: string,
  ) {}

  rows(): readonly ProgressRow[] {
    return this.values;
  }

  /** The completions that the rows are worth now. */
  get attained(): number {
    return this.steps?.length ?? 0;
  }

  /** The verdict that last attained each ordinal from 1 to `attained`. */
  attainedBy(): ReadonlyMap<number, ProgressStep> {
    return new Map(this.steps?.map((step, index) => [index + 1, step]));
  }

  add({ item, currency, amount }: Credit): void {
    const row = this.values.find((each) => each.item === item && each.currency === currency);
    if (row === undefined) this.values.push({ item, currency, value: amount });
    else row.value += amount;
  }

  /** Ends the step of one verdict: notes the ordinals and the points that it decided. */
  applyChange(step: ProgressStep): void {
    this.lastStep = step;
    if (this.promotion.goal.rule === 'rank') {
      const score = scoreOf(this.promotion, this.values);
      if (score !== this.score) this.scored = step;
      this.score = score;
      return;
    }
    const attained = attainedBy(this.promotion, this.values);
    if (attained === this.attained) return;
    this.steps ??= [];
    this.steps.length = Math.min(this.steps.length, attained);
    while (this.steps.length < attained) this.steps.push(step);
  }
}
