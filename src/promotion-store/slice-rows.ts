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
    if (credited.length === 0) return;
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

  addMatched(row: MatchedRow): void {
    if (row.credited.length > 0) this.rows.push(row);
  }

  /** Adds a step at which progress is judged, and which does not change it. */
  addStep(step: Pick<MatchedRow, 'changeNo' | 'at'>, progress: PlayerProgress): void {
    this.rows.push({ ...step, sign: 1n, credited: [{ progress, credits: [] }] });
  }

  /** The rows in the order of their numbers. */
  inOrder(): readonly MatchedRow[] {
    return this.rows.sort((a, b) => a.changeNo - b.changeNo);
  }

  /** Takes the rows up to a number, in their order. */
  takeUpTo(changeNo: number): MatchedRow[] {
    const end = this.inOrder().findIndex((row) => row.changeNo > changeNo);
    return this.rows.splice(0, end === -1 ? this.rows.length : end);
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

  /** The progress of the same player in the same window as that of other rows. */
  progressLike({ place, playerRef }: PlayerProgress): PlayerProgress {
    const version = this.versions.find((each) => each === place.version);
    if (version === undefined) throw new RangeError('progress of another version');
    return this.counting.progressOf(version, place.window, playerRef);
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

/** The reversals of a slice, until the other rows of their players are read. */
export class ReversedRows {
  private readonly rows: SliceRows;
  private readonly byPlayer = new Map<string, MatchedRows>();

  constructor(versions: readonly CountedVersion[]) {
    this.rows = new SliceRows(versions);
  }

  add(row: CountedRow): void {
    const credited = this.rows.match(row);
    if (credited.length === 0) return;
    const known = this.byPlayer.get(row.playerRef);
    const ofPlayer = known ?? new MatchedRows();
    if (known === undefined) this.byPlayer.set(row.playerRef, ofPlayer);
    ofPlayer.add(row, credited);
  }

  /** The players whose rows were not taken. */
  players(): readonly string[] {
    return [...this.byPlayer.keys()];
  }

  /** Takes the rows of a player up to a number. */
  take(playerRef: string, upTo: number): readonly MatchedRow[] {
    const ofPlayer = this.byPlayer.get(playerRef);
    const taken = ofPlayer?.takeUpTo(upTo) ?? [];
    if (ofPlayer?.inOrder().length === 0) this.byPlayer.delete(playerRef);
    return taken;
  }
}
