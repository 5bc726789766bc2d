/** The progress that rows change, with the numbers of its windows, and the steps that change it. */
import { Counting, type CreditedProgress } from '../promotions/counting';
import type { Credit } from '../promotions/matching';
import type { PlayerProgress, ProgressWindow } from '../promotions/player-progress';
import type { DueWindow } from './board-rows';
import type { CountedVersion } from './counted-versions';
import type { CountedRow } from './credits';
import type { StoredWindow } from './progress-rows';

/** A row that changes progress. */
export interface MatchedRow {
  readonly changeNo: number;
  /** Microseconds since 1970. */
  readonly at: bigint;
  readonly sign: 1n | -1n;
  readonly credited: readonly CreditedProgress[];
}

/**
 * The sums that a refund takes back from its players. All its reversals are one step, and a round may have a
 * million entries: memory holds the sums alone.
 */
class Reversal {
  readonly credited: (CreditedProgress & { readonly credits: Credit[] })[] = [];
  private readonly sums = new Map<PlayerProgress, Credit[]>();

  add({ progress, credits }: CreditedProgress): void {
    let sums = this.sums.get(progress);
    if (sums === undefined) {
      sums = [];
      this.sums.set(progress, sums);
      this.credited.push({ progress, credits: sums });
    }
    for (const credit of credits) {
      const place = sums.findIndex(
        ({ item, currency }) => item === credit.item && currency === credit.currency,
      );
      const known = sums[place];
      if (known === undefined) sums.push(credit);
      else sums[place] = { ...known, amount: known.amount + credit.amount };
    }
  }
}

/** Rows that change progress. */
export class MatchedRows {
  private readonly rows: MatchedRow[] = [];
  private readonly reversals = new Map<number, Reversal>();

  add({ entry, sign, changeNo, at }: CountedRow, credited: readonly CreditedProgress[]): void {
    if (entry.reversesEntryId === null) {
      this.rows.push({ changeNo, at, sign, credited });
      return;
    }
    let reversal = this.reversals.get(changeNo);
    if (reversal === undefined) {
      reversal = new Reversal();
      this.reversals.set(changeNo, reversal);
      this.rows.push({ changeNo, at, sign, credited: reversal.credited });
    }
    for (const each of credited) reversal.add(each);
  }

  /** Adds a step at which progress is judged, and which does not change it. */
  addStep(step: Pick<MatchedRow, 'changeNo' | 'at'>, progress: PlayerProgress): void {
    this.rows.push({ ...step, sign: 1n, credited: [{ progress, credits: [] }] });
  }

  /** The rows in the order of their numbers. */
  inOrder(): readonly MatchedRow[] {
    return this.rows.sort((a, b) => a.changeNo - b.changeNo);
  }
}

export class SliceRows {
  readonly counting: Counting<CountedVersion>;
  /** So much progress was looked at by takeFresh. */
  private lookedAt = 0;

  constructor(private readonly versions: readonly CountedVersion[]) {
    this.counting = new Counting(versions);
  }

  /** Whether a version is a leaderboard. */
  get hasBoards(): boolean {
    return this.versions.some(({ promotion }) => promotion.goal.rule === 'rank');
  }

  /** The progress in which a row counts. */
  match({ entry, playerRef, matchedAt }: CountedRow): readonly CreditedProgress[] {
    return this.counting.match(entry, playerRef, matchedAt);
  }

  versionOf({
    promotionNo,
    version,
  }: Pick<DueWindow, 'promotionNo' | 'version'>): CountedVersion | undefined {
    return this.versions.find((each) => each.promotionNo === promotionNo && each.version === version);
  }

  /** The windows that have no number yet. */
  windowsToNumber(): ProgressWindow<CountedVersion>[] {
    return [...this.counting.windows()].filter(({ windowNo }) => windowNo === null);
  }

  number(windows: readonly StoredWindow[]): void {
    for (const { windowNo, version, window } of windows)
      this.counting.windowOf(version, window).windowNo = windowNo;
  }

  /** The progress that was found since the last call: it is to be restored. */
  takeFresh(): readonly PlayerProgress[] {
    const { found } = this.counting;
    const fresh = found.slice(this.lookedAt);
    this.lookedAt = found.length;
    return fresh;
  }
}
