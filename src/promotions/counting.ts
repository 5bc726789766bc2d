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
import { PlayerProgress } from './player-progress';
import type { CompiledPromotion } from './terms';

/** A version of a promotion, and the windows that it counts. */
export interface PromotionVersion {
  readonly version: number;
  readonly promotion: CompiledPromotion;
  /** It counts windows that begin at this time or later; null: all. */
  readonly since: bigint | null;
  /** It counts windows that begin before this time; null: all, BEFORE_ALL: none. */
  readonly until: bigint | null;
  /** It counts no row that was made at this time or later; null: the promotion is not removed. */
  readonly removedAt: bigint | null;
}

/** A window of a version in which an entry counts. */
export interface Hit<V extends PromotionVersion = PromotionVersion> {
  readonly version: V;
  readonly window: PromotionWindow;
  readonly credits: readonly Credit[];
}

/** The credits of an entry in the progress of one player. */
export interface CreditedProgress {
  readonly progress: PlayerProgress;
  readonly credits: readonly Credit[];
}

/** The verdict, or the change of an attribution, that changes progress. */
export type CountedStep = ProgressStep & { readonly changeNo: number };

/** The windows in which an entry counts. @param at when the row was made, in microseconds since 1970 */
export function hitsOf<V extends PromotionVersion>(
  versions: readonly V[],
  entry: CountedEntry,
  at: bigint,
): Hit<V>[] {
  let hits: Hit<V>[] = [];
  for (const version of versions) {
    if (version.removedAt !== null && at >= version.removedAt) continue;
    const match = matchEntry(version.promotion, entry);
    if (match === undefined || 'miss' in match || !isOf(version, match.window)) continue;
    hits = appended(hits, { version, window: match.window, credits: match.credits });
  }
  return hits;
}

export class Counting {
  readonly judge = new Judge();
  /** By version, key of the window, and player. */
  private readonly players = new Map<PromotionVersion, Map<string, Map<string, PlayerProgress>>>();
  /** The step in progress, and the progress that it has changed so far. */
  private step: CountedStep = { changeNo: 0, at: 0n };
  private readonly changed = new Set<PlayerProgress>();

  constructor(private readonly versions: readonly PromotionVersion[]) {
    for (const version of versions) this.players.set(version, new Map());
  }

  /** @param sign -1n takes the entry from a player to whom it was credited before */
  add(entry: CountedEntry, playerRef: string, sign: 1n | -1n, step: CountedStep): void {
    const credited = hitsOf(this.versions, entry, step.at).map(({ version, window, credits }) => ({
      progress: this.progressOf(version, window, playerRef),
      credits,
    }));
    this.addCredits(credited, sign, step);
  }

  addCredits(credited: readonly CreditedProgress[], sign: 1n | -1n, step: CountedStep): void {
    // All rows of one verdict are one step: a refund takes its whole round back at once.
    if (step.changeNo !== this.step.changeNo) this.endStep();
    this.step = step;
    for (const { progress, credits } of credited) {
      this.judge.prepare(progress, step.at);
      for (const credit of credits) progress.add(sign === 1n ? credit : negative(credit));
      this.changed.add(progress);
    }
  }

  endSlice(asOf: bigint): SliceEnd {
    this.endStep();
    return this.judge.endSlice(asOf);
  }

  get size(): number {
    let sum = 0;
    for (const windows of this.players.values()) for (const players of windows.values()) sum += players.size;
    return sum;
  }

  *progress(): Generator<PlayerProgress> {
    for (const windows of this.players.values())
      for (const players of windows.values()) yield* players.values();
  }

  progressOf(version: PromotionVersion, window: PromotionWindow, playerRef: string): PlayerProgress {
    const windows = this.players.get(version);
    if (windows === undefined) throw new RangeError('no such version');
    let players = windows.get(window.key);
    if (players === undefined) {
      players = new Map();
      windows.set(window.key, players);
    }
    let found = players.get(playerRef);
    if (found === undefined) {
      found = new PlayerProgress(version.promotion, version.version, window, playerRef);
      players.set(playerRef, found);
    }
    return found;
  }

  private endStep(): void {
    if (this.changed.size === 0) return;
    this.judge.endStep(this.changed, this.step);
    this.changed.clear();
  }
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
