/**
 * Counts rows of the ledger in the progress of players, verdict by verdict (docs/rules.md, P1-P16). Files and
 * stores count by this code: a store restores the progress that its slice needs.
 */
import { appended } from '../lib/appended';
import type { ProgressStep } from './attempts';
import { BEFORE_ALL, type PromotionWindow } from './calendar';
import { Judge, type SliceEnd } from './judging';
import type { CountedEntry } from './ledger-entry';
import { type Credit, matchEntry } from './matching';
import { type NumberedPromotion, PlayerProgress, type ProgressWindow } from './player-progress';

/** A version of a promotion, and the windows that it counts. */
export interface PromotionVersion extends NumberedPromotion {
  /** It counts windows that begin at this time or later; null: all. */
  readonly since: bigint | null;
  /** It counts windows that begin before this time; null: all, BEFORE_ALL: none. */
  readonly until: bigint | null;
  /** It counts no row that was made at this time or later; null: the promotion is not removed. */
  readonly removedAt: bigint | null;
}

/** The credits of an entry in the progress of one player. */
export interface CreditedProgress {
  readonly progress: PlayerProgress;
  readonly credits: readonly Credit[];
}

/** The verdict, or the change of an attribution, that changes progress. */
export type CountedStep = ProgressStep & { readonly changeNo: number };

/** A window to which progress is added. */
interface CountedWindow<V extends PromotionVersion> extends ProgressWindow<V> {
  readonly players: Map<string, PlayerProgress>;
}

const NOTHING: readonly CreditedProgress[] = [];

export class Counting<V extends PromotionVersion = PromotionVersion> {
  readonly judge = new Judge();
  /** By version, key of the window, and player. */
  private readonly players = new Map<V, Map<string, CountedWindow<V>>>();
  /** The step in progress, and the progress that it has changed so far. */
  private step: CountedStep = { changeNo: 0, at: 0n };
  private changed: PlayerProgress[] = [];
  private readonly made: PlayerProgress[] = [];

  constructor(protected readonly versions: readonly V[]) {
    for (const version of versions) this.players.set(version, new Map());
  }

  /** @param sign -1n takes the entry from a player to whom it was credited before */
  add(entry: CountedEntry, playerRef: string, sign: 1n | -1n, step: CountedStep): void {
    this.addCredits(this.match(entry, playerRef, step.at), sign, step);
  }

  /** The progress in which an entry counts. @param at when the row was made, in microseconds since 1970 */
  match(entry: CountedEntry, playerRef: string, at: bigint): readonly CreditedProgress[] {
    let credited: readonly CreditedProgress[] = NOTHING;
    for (const version of this.versions) {
      if (isRemoved(version, at)) continue;
      const match = matchEntry(version.promotion, entry);
      if (match === undefined || 'miss' in match || !isOf(version, match.window)) continue;
      const progress = this.progressOf(version, match.window, playerRef);
      credited = appended(credited, { progress, credits: match.credits });
    }
    return credited;
  }

  addCredits(credited: readonly CreditedProgress[], sign: 1n | -1n, step: CountedStep): void {
    // All rows of one verdict are one step: a refund takes its whole round back at once.
    if (step.changeNo !== this.step.changeNo) this.endStep();
    this.step = step;
    for (const { progress, credits } of credited) {
      this.judge.prepare(progress, step.at);
      for (const credit of credits) progress.add(sign === 1n ? credit : negative(credit));
      if (progress.isChanged) continue;
      progress.isChanged = true;
      this.changed.push(progress);
    }
  }

  endSlice(asOf: bigint): SliceEnd {
    this.endStep();
    return this.judge.endSlice(asOf);
  }

  /** All progress, in the order in which it was found. */
  get found(): readonly PlayerProgress[] {
    return this.made;
  }

  *windows(): Generator<ProgressWindow<V>> {
    for (const windows of this.players.values()) yield* windows.values();
  }

  *progress(): Generator<PlayerProgress> {
    for (const windows of this.players.values())
      for (const { players } of windows.values()) yield* players.values();
  }

  windowOf(version: V, window: PromotionWindow): CountedWindow<V> {
    const windows = this.players.get(version);
    if (windows === undefined) throw new RangeError('no such version');
    let found = windows.get(window.key);
    if (found === undefined) {
      found = { version, window, windowNo: null, players: new Map() };
      windows.set(window.key, found);
    }
    return found;
  }

  progressOf(version: V, window: PromotionWindow, playerRef: string): PlayerProgress {
    const place = this.windowOf(version, window);
    let found = place.players.get(playerRef);
    if (found === undefined) {
      found = new PlayerProgress(place, playerRef);
      place.players.set(playerRef, found);
      this.made.push(found);
    }
    return found;
  }

  private endStep(): void {
    if (this.changed.length === 0) return;
    this.judge.endStep(this.changed, this.step);
    for (const progress of this.changed) progress.isChanged = false;
    this.changed = [];
  }
}

/** Whether a promotion counts no row that was made at a time. */
export function isRemoved({ removedAt }: Pick<PromotionVersion, 'removedAt'>, at: bigint): boolean {
  return removedAt !== null && at >= removedAt;
}

/** Whether a version counts a window. A changed definition begins with a whole window (P17). */
export function isOf(
  { since, until }: Pick<PromotionVersion, 'since' | 'until'>,
  { startsAt }: PromotionWindow,
): boolean {
  const begin = startsAt ?? BEFORE_ALL;
  return (since === null || begin >= since) && (until === null || begin < until);
}

function negative({ item, currency, amount }: Credit): Credit {
  return { item, currency, amount: -amount };
}
