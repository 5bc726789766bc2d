/** Counts rows of a slice: the changes of progress, and the progress with the numbers of its windows. */
import { Counting, type CreditedProgress, isOf, isRemoved } from '../promotions/counting';
import type { Credit } from '../promotions/matching';
import type { PlayerProgress, ProgressWindow } from '../promotions/player-progress';
import type { CountedVersion } from './counted-versions';
import type { CountedRow } from './ledger-columns';
import type { ReversedSum } from './reversed-sums';
import type { WindowRow } from './windows';

/** The change that one verdict makes to progress. */
export interface ProgressChange {
  readonly changeNo: number;
  /** Microseconds since 1970. */
  readonly at: bigint;
  readonly sign: 1n | -1n;
  readonly credited: readonly CreditedProgress[];
}

/**
 * Sums of credits. All reversals of a refund are one step, and a round may have a million entries: memory
 * holds the sums alone.
 */
export class CreditSums {
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

/** Changes of progress, in the order of their numbers once they are asked for. */
export class ProgressChanges {
  private readonly changes: ProgressChange[] = [];
  private readonly reversals = new Map<number, CreditSums>();

  addRow({ entry, sign, changeNo, at }: CountedRow, credited: readonly CreditedProgress[]): void {
    if (credited.length === 0) return;
    if (entry.reversesEntryId === null) {
      this.changes.push({ changeNo, at, sign, credited });
      return;
    }
    this.addReversed({ changeNo, at }, credited);
  }

  /** @param credited with negative amounts */
  addReversed(
    { changeNo, at }: Pick<ProgressChange, 'changeNo' | 'at'>,
    credited: readonly CreditedProgress[],
  ): void {
    let reversal = this.reversals.get(changeNo);
    if (reversal === undefined) {
      reversal = new CreditSums();
      this.reversals.set(changeNo, reversal);
      this.changes.push({ changeNo, at, sign: 1n, credited: reversal.credited });
    }
    for (const each of credited) reversal.add(each);
  }

  addChange(change: ProgressChange): void {
    if (change.credited.length > 0) this.changes.push(change);
  }

  /** Adds a step at which progress is judged, and which does not change it. */
  addStep(step: Pick<ProgressChange, 'changeNo' | 'at'>, progress: PlayerProgress): void {
    this.changes.push({ ...step, sign: 1n, credited: [{ progress, credits: [] }] });
  }

  /** The changes in the order of their numbers. */
  inOrder(): readonly ProgressChange[] {
    return this.changes.sort((a, b) => a.changeNo - b.changeNo);
  }

  /** Takes the changes up to a number, in their order. */
  takeUpTo(changeNo: number): ProgressChange[] {
    const end = this.inOrder().findIndex((change) => change.changeNo > changeNo);
    return this.changes.splice(0, end === -1 ? this.changes.length : end);
  }
}

/**
 * Changes of progress, player by player. Those of one player come in the order of their numbers. Those of
 * different players need no order: no player's progress depends on another one's.
 */
export class ChangesByPlayer {
  private changes: ProgressChange[] = [];
  /** The changes of the current player begin here. */
  private begin = 0;
  private isInOrder = true;

  add(change: ProgressChange): void {
    if (change.credited.length === 0) return;
    const before = this.changes.length > this.begin ? this.changes.at(-1) : undefined;
    if (before !== undefined && before.changeNo > change.changeNo) this.isInOrder = false;
    this.changes.push(change);
  }

  endPlayer(): void {
    if (!this.isInOrder) {
      const own = this.changes.splice(this.begin).sort((a, b) => a.changeNo - b.changeNo);
      for (const change of own) this.changes.push(change);
    }
    this.begin = this.changes.length;
    this.isInOrder = true;
  }

  /** Takes the changes of all players that ended: memory needs them no longer than the caller. */
  take(): readonly ProgressChange[] {
    const { changes } = this;
    this.changes = [];
    this.begin = 0;
    return changes;
  }
}

/** Counts rows in the progress of a store. */
export class SliceCounting extends Counting<CountedVersion> {
  /** The number of players' progress that takeFresh has returned so far. */
  private lookedAt = 0;

  /** Whether a version is a leaderboard. */
  get hasBoards(): boolean {
    return this.versions.some(({ promotion }) => promotion.goal.rule === 'rank');
  }

  /** The progress in which a row counts. */
  matchRow({ entry, playerRef, matchedAt }: CountedRow): readonly CreditedProgress[] {
    return this.match(entry, playerRef, matchedAt);
  }

  /** @param changes those of each player in the order of their numbers; their progress is restored */
  count(changes: readonly ProgressChange[]): void {
    for (const { credited, sign, changeNo, at } of changes) this.addCredits(credited, sign, { changeNo, at });
  }

  /** The progress from which a refund takes a sum; undefined: its version does not count there. */
  progressOfSum({ playerRef, at, ...place }: ReversedSum): PlayerProgress | undefined {
    const { window } = place;
    const version = this.versionOf(place);
    if (version === undefined || !isOf(version, window) || isRemoved(version, at)) return undefined;
    return this.progressOf(version, window, playerRef);
  }

  /** The progress of the same player in the same window as that of other rows. */
  progressLike({ place, playerRef }: PlayerProgress): PlayerProgress {
    const version = this.versions.find((each) => each === place.version);
    if (version === undefined) throw new RangeError('progress of another version');
    return this.progressOf(version, place.window, playerRef);
  }

  /** The window of a row; undefined: its version is not counted. */
  placeOf({ windowNo, window, ...version }: WindowRow): ProgressWindow<CountedVersion> | undefined {
    const counted = this.versionOf(version);
    if (counted === undefined) return undefined;
    const place = this.windowOf(counted, window);
    place.windowNo = windowNo;
    return place;
  }

  private versionOf({
    promotionNo,
    version,
  }: Pick<WindowRow, 'promotionNo' | 'version'>): CountedVersion | undefined {
    return this.versions.find((each) => each.promotionNo === promotionNo && each.version === version);
  }

  /** The progress that was found since the last call: it is to be restored. */
  takeFresh(): readonly PlayerProgress[] {
    const { found } = this;
    const fresh = found.slice(this.lookedAt);
    this.lookedAt = found.length;
    return fresh;
  }
}

/** The reversals of a slice, until the other rows of their players are read. */
export class HeldReversals {
  private readonly counting: SliceCounting;
  private readonly byPlayer = new Map<string, ProgressChanges>();

  constructor(versions: readonly CountedVersion[]) {
    this.counting = new SliceCounting(versions);
  }

  add(row: CountedRow): void {
    const credited = this.counting.matchRow(row);
    if (credited.length > 0) this.changesOf(row.playerRef).addRow(row, credited);
  }

  addSum(sum: ReversedSum): void {
    const progress = this.counting.progressOfSum(sum);
    if (progress !== undefined)
      this.changesOf(sum.playerRef).addReversed(sum, [{ progress, credits: [sum.credit] }]);
  }

  private changesOf(playerRef: string): ProgressChanges {
    const known = this.byPlayer.get(playerRef);
    if (known !== undefined) return known;
    const added = new ProgressChanges();
    this.byPlayer.set(playerRef, added);
    return added;
  }

  /** The players whose changes were not taken. */
  players(): readonly string[] {
    return [...this.byPlayer.keys()];
  }

  /** Takes the changes of a player up to a number. */
  take(playerRef: string, upTo: number): readonly ProgressChange[] {
    const ofPlayer = this.byPlayer.get(playerRef);
    const taken = ofPlayer?.takeUpTo(upTo) ?? [];
    if (ofPlayer?.inOrder().length === 0) this.byPlayer.delete(playerRef);
    return taken;
  }
}
