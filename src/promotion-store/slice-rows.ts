/** The progress that a slice needs, with the numbers of its windows, and the rows that change it. */
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

export class SliceRows {
  readonly counting: Counting<CountedVersion>;
  /** So much progress was looked at by takeFresh. Of it, this is not restored yet. */
  private lookedAt = 0;
  private unrestored: readonly PlayerProgress[] = [];

  constructor(private readonly versions: readonly CountedVersion[]) {
    this.counting = new Counting(versions);
  }

  /** Whether a version is a leaderboard. */
  get hasBoards(): boolean {
    return this.versions.some(({ promotion }) => promotion.goal.rule === 'rank');
  }

  /** @returns the rows of a part that change progress, in the order of their numbers */
  async match(pages: AsyncIterable<readonly CountedRow[]>): Promise<MatchedRow[]> {
    const reversals = new Map<number, Reversal>();
    const part: MatchedRow[] = [];
    for await (const page of pages)
      for (const { entry, playerRef, sign, changeNo, at, matchedAt } of page) {
        const credited = this.counting.match(entry, playerRef, matchedAt);
        if (credited.length === 0) continue;
        if (entry.reversesEntryId === null) {
          part.push({ changeNo, at, sign, credited });
          continue;
        }
        let reversal = reversals.get(changeNo);
        if (reversal === undefined) {
          reversal = new Reversal();
          reversals.set(changeNo, reversal);
          part.push({ changeNo, at, sign, credited: reversal.credited });
        }
        for (const each of credited) reversal.add(each);
      }
    return part.sort((a, b) => a.changeNo - b.changeNo);
  }

  versionOf({
    promotionNo,
    version,
  }: Pick<DueWindow, 'promotionNo' | 'version'>): CountedVersion | undefined {
    return this.versions.find((each) => each.promotionNo === promotionNo && each.version === version);
  }

  /** The windows of the slice that have no number yet. */
  windowsToNumber(): ProgressWindow<CountedVersion>[] {
    return [...this.counting.windows()].filter(({ windowNo }) => windowNo === null);
  }

  number(windows: readonly StoredWindow[]): void {
    for (const { windowNo, version, window } of windows)
      this.counting.windowOf(version, window).windowNo = windowNo;
  }

  /**
   * The progress that was found since the last call: it is to be restored. The next part may be matched in
   * between, and its windows have no numbers yet. Their progress comes with the next call.
   */
  takeFresh(): PlayerProgress[] {
    const { found } = this.counting;
    const fresh = [...this.unrestored, ...found.slice(this.lookedAt)];
    this.lookedAt = found.length;
    this.unrestored = fresh.filter(({ place }) => place.windowNo === null);
    return this.unrestored.length === 0 ? fresh : fresh.filter(({ place }) => place.windowNo !== null);
  }
}
