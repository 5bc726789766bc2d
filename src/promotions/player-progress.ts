/** The progress of one player in one window of one promotion (docs/rules.md, P7-P12). */
import { appended } from '../lib/appended';
import { attainedBy, type ProgressRow, scoreOf } from './attainment';
import { Attempts, type ProgressStep } from './attempts';
import type { PromotionWindow } from './calendar';
import type { Credit } from './matching';
import type { CompiledPromotion } from './terms';

/** The progress that a store keeps between slices. */
export interface StoredProgress {
  readonly rows: ProgressRow[];
  readonly attained: number;
  readonly score: bigint;
  readonly scoredNo: number | null;
}

/** A version of a promotion, whatever it counts. */
export interface NumberedPromotion {
  readonly version: number;
  readonly promotion: CompiledPromotion;
}

/** A window of a version, in which players have progress. */
export interface ProgressWindow<V extends NumberedPromotion = NumberedPromotion> {
  readonly version: V;
  readonly window: PromotionWindow;
  /** Its number in a store; null: it has none yet. */
  windowNo: number | null;
  /** The progress in it. */
  readonly players: ReadonlyMap<string, PlayerProgress>;
}

export class PlayerProgress {
  /** Few rows, so that an array needs less memory than a map and is as fast. */
  private values: ProgressRow[] = [];
  /** Null for a player who has attained nothing yet: most have not, and it needs memory. */
  private known: Attempts | null = null;
  /** The completions that the rows are worth now. */
  attained = 0;
  /** The points of a leaderboard. */
  score = 0n;
  /** The last verdict that changed the points. The player has had them since then. */
  scoredNo: number | null = null;
  lastStep: ProgressStep | null = null;
  /** Whether the verdict in progress has changed it. A field costs less than a set of all progress. */
  isChanged = false;
  /** Whether a verdict has changed it since the end of the last slice. */
  isTouched = false;
  /** The place of its row in a store; null: there is no row. It holds for one transaction. */
  rowPlace: string | null = null;

  constructor(
    readonly place: ProgressWindow,
    readonly playerRef: string,
  ) {}

  get promotion(): CompiledPromotion {
    return this.place.version.promotion;
  }

  get version(): number {
    return this.place.version.version;
  }

  get window(): PromotionWindow {
    return this.place.window;
  }

  get attempts(): Attempts {
    this.known ??= new Attempts();
    return this.known;
  }

  get hasAttempts(): boolean {
    return this.known !== null;
  }

  restoreAttempts(attempts: Attempts): void {
    this.known = attempts;
  }

  /** @param stored its rows change with this progress */
  restore({ rows, attained, score, scoredNo }: StoredProgress): void {
    this.values = rows;
    this.attained = attained;
    this.score = score;
    this.scoredNo = scoredNo;
  }

  rows(): readonly ProgressRow[] {
    return this.values;
  }

  add({ item, currency, amount }: Credit): void {
    // A loop allocates nothing, and there is one call for each event.
    for (const row of this.values)
      if (row.item === item && row.currency === currency) {
        row.value += amount;
        return;
      }
    this.values = appended(this.values, { item, currency, value: amount });
  }

  /** Ends the step of one verdict: notes the ordinals and the points that it decided. */
  applyChange(step: ProgressStep): void {
    this.lastStep = step;
    if (this.promotion.goal.rule === 'rank') {
      const score = scoreOf(this.promotion, this.values);
      if (score !== this.score) this.scoredNo = step.changeNo;
      this.score = score;
      return;
    }
    const attained = attainedBy(this.promotion, this.values);
    for (let ordinal = this.attained; ordinal > attained; ordinal--) this.attempts.lose(ordinal, step);
    for (let ordinal = this.attained + 1; ordinal <= attained; ordinal++) this.attempts.attain(ordinal, step);
    this.attained = attained;
  }
}
