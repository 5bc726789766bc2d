/** The progress that a slice needs, with the numbers of its windows, and the rows that change it. */
import type { PromotionWindow } from '../promotions/calendar';
import { Counting, type CreditedProgress, hitsOf } from '../promotions/counting';
import type { Credit } from '../promotions/matching';
import type { PlayerProgress } from '../promotions/player-progress';
import type { DueWindow } from './board-rows';
import type { CountedVersion } from './counted-versions';
import type { CountedRow } from './credits';
import type { Placed, StoredWindow } from './progress-rows';

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

/** A window of the slice; null: it has no number yet. */
interface SliceWindow extends Omit<StoredWindow, 'windowNo'> {
  windowNo: number | null;
}

export class SliceRows {
  readonly counting: Counting;
  /** Progress that is not restored yet. */
  private fresh: PlayerProgress[] = [];
  /** By version and key. */
  private readonly windows = new Map<CountedVersion, Map<string, SliceWindow>>();
  private readonly found = new Map<PlayerProgress, SliceWindow>();

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
        const hits = hitsOf(this.versions, entry, matchedAt);
        if (hits.length === 0) continue;
        const credited = hits.map(({ version, window, credits }) => ({
          progress: this.progressOf(version, window, playerRef),
          credits,
        }));
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
  windowsToNumber(): Omit<StoredWindow, 'windowNo'>[] {
    const windows = [...this.windows.values()].flatMap((byKey) => [...byKey.values()]);
    return windows.filter(({ windowNo }) => windowNo === null);
  }

  number(windows: readonly StoredWindow[]): void {
    for (const { windowNo, version, window } of windows) this.windowOf(version, window).windowNo = windowNo;
  }

  progressOf(version: CountedVersion, window: PromotionWindow, playerRef: string): PlayerProgress {
    const progress = this.counting.progressOf(version, window, playerRef);
    if (!this.found.has(progress)) {
      this.found.set(progress, this.windowOf(version, window));
      this.fresh.push(progress);
    }
    return progress;
  }

  /** How many players have progress in memory, each window of each version counted. */
  get size(): number {
    return this.found.size;
  }

  /**
   * The progress that was found since the last call: it is to be restored. The next part may be matched in
   * between, and its windows have no numbers yet. Their progress comes with the next call.
   */
  takeFresh(): Placed[] {
    const fresh: Placed[] = [];
    const later: PlayerProgress[] = [];
    for (const progress of this.fresh) {
      const window = this.found.get(progress);
      if (window?.windowNo == null) later.push(progress);
      else fresh.push([window.windowNo, progress]);
    }
    this.fresh = later;
    return fresh;
  }

  private windowOf(version: CountedVersion, window: PromotionWindow): SliceWindow {
    let byKey = this.windows.get(version);
    if (byKey === undefined) {
      byKey = new Map();
      this.windows.set(version, byKey);
    }
    let found = byKey.get(window.key);
    if (found === undefined) {
      found = { windowNo: null, version, window };
      byKey.set(window.key, found);
    }
    return found;
  }

  /** The version and the window of progress. */
  placeOf(progress: PlayerProgress): StoredWindow {
    const found = this.found.get(progress);
    if (found === undefined) throw new RangeError('no such progress in the slice');
    if (!isNumbered(found)) throw new RangeError('progress of the slice has no window with a number');
    return found;
  }

  all(): Placed[] {
    return [...this.found.keys()].map((progress) => [this.placeOf(progress).windowNo, progress]);
  }
}

function isNumbered(window: SliceWindow): window is SliceWindow & StoredWindow {
  return window.windowNo !== null;
}
