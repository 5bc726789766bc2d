/**
 * The fold: from rows of the ledger to the progress of players, completions and leaderboards
 * (docs/rules.md, P1-P16).
 *
 * It is the reference of the rules: every store has to agree with it. It keeps all entries, so it suits files
 * and tests.
 */
import { BEFORE_ALL, type PromotionWindow } from './calendar';
import type { CompletionEntry } from './completion';
import { type HeldCompletion, Judge } from './judging';
import type { LedgerEntry, RoundCredit } from './ledger-entry';
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
}

/** The entries of a round, and the credit of the round. */
interface CreditedRound {
  readonly entries: LedgerEntry[];
  credit: RoundCredit | null;
}

export class PromotionFold {
  private readonly entries = new Set<number>();
  private readonly reversed = new Set<number>();
  private readonly rounds = new Map<string, CreditedRound>();
  private readonly players: Map<string, PlayerProgress>[];
  private readonly judge = new Judge();
  /** The verdict that is being applied, and the progress that it has changed so far. */
  private changeNo = 0;
  private changedAt = 0n;
  private readonly changed = new Set<PlayerProgress>();

  /** @param keepsRounds false where no round is credited to another player: it needs half the memory */
  constructor(
    readonly versions: readonly PromotionVersion[],
    private readonly keepsRounds = true,
  ) {
    this.players = versions.map(() => new Map());
  }

  /** Takes a row. Rows come in the order of their changeNo; a row that comes again changes nothing. */
  take(entry: LedgerEntry): void {
    if (!this.isNew(entry)) return;
    this.beginChange(entry.changeNo, entry.enteredAt);
    const { feedId, roundId } = entry;
    const round = roundId === null || !this.keepsRounds ? undefined : this.roundOf(feedId, roundId);
    round?.entries.push(entry);
    this.add(entry, playerOf(entry, round?.credit ?? null), 1n);
  }

  /** Credits a round to another player, before or after its entries. The first credit of a round stays. */
  creditRound(credit: RoundCredit, changeNo: number, at: bigint): void {
    const round = this.roundOf(credit.feedId, credit.roundId);
    if (round.credit === null) this.moveRound(round, credit, changeNo, at);
  }

  /** Corrects the credit of a round: its entries count for the right player (B9). */
  correctRound(credit: RoundCredit, changeNo: number, at: bigint): void {
    this.moveRound(this.roundOf(credit.feedId, credit.roundId), credit, changeNo, at);
  }

  private moveRound(round: CreditedRound, credit: RoundCredit, changeNo: number, at: bigint): void {
    const before = round.credit;
    round.credit = credit;
    this.beginChange(changeNo, at);
    for (const entry of round.entries) {
      const [from, to] = [playerOf(entry, before), playerOf(entry, credit)];
      if (from === to) continue;
      this.add(entry, from, -1n);
      this.add(entry, to, 1n);
    }
  }

  /**
   * Ends a slice: compares the completions with the progress, at a time, and returns the changes. Changes
   * that took themselves back within the slice are not seen.
   *
   * @param asOf the time up to which rows were taken, in microseconds since 1970
   */
  endSlice(asOf: bigint): CompletionEntry[] {
    this.endChange();
    return this.judge.endSlice(asOf);
  }

  completionsOf(progress: PlayerProgress): ReadonlyMap<number, HeldCompletion> {
    return this.judge.heldBy(progress);
  }

  /** How many players have progress, each window of each version counted. */
  get size(): number {
    return this.players.reduce((sum, players) => sum + players.size, 0);
  }

  /** The progress of all players, by version and in no order. */
  *progress(): Generator<PlayerProgress> {
    for (const players of this.players) yield* players.values();
  }

  private isNew({ entryId, reversesEntryId }: LedgerEntry): boolean {
    if (this.entries.has(entryId)) return false;
    if (reversesEntryId !== null) {
      // A round is refunded once, whatever comes later (R2).
      if (this.reversed.has(reversesEntryId)) return false;
      this.reversed.add(reversesEntryId);
    }
    this.entries.add(entryId);
    return true;
  }

  private roundOf(feedId: string, roundId: string): CreditedRound {
    const key = `${feedId}\0${roundId}`;
    let round = this.rounds.get(key);
    if (round === undefined) {
      round = { entries: [], credit: null };
      this.rounds.set(key, round);
    }
    return round;
  }

  /** All rows of one verdict are one step: a refund takes its whole round back at once. */
  private beginChange(changeNo: number, at: bigint): void {
    if (changeNo !== this.changeNo) this.endChange();
    this.changeNo = changeNo;
    this.changedAt = at;
  }

  private endChange(): void {
    if (this.changed.size === 0) return;
    const step = { changeNo: this.changeNo, at: this.changedAt };
    for (const progress of this.changed) {
      progress.applyChange(step);
      this.judge.touch(progress);
    }
    this.changed.clear();
  }

  private add(entry: LedgerEntry, playerRef: string, sign: 1n | -1n): void {
    for (const [index, version] of this.versions.entries()) {
      const match = matchEntry(version.promotion, entry);
      if (match === undefined || 'miss' in match || !isOf(version, match.window)) continue;
      const progress = this.progressOf(index, version, match.window, playerRef);
      for (const credit of match.credits) progress.add(signed(credit, sign));
      this.changed.add(progress);
    }
  }

  private progressOf(
    index: number,
    version: PromotionVersion,
    window: PromotionWindow,
    playerRef: string,
  ): PlayerProgress {
    const players = this.players[index];
    if (players === undefined) throw new RangeError('no such version');
    const key = `${window.key}\0${playerRef}`;
    let found = players.get(key);
    if (found === undefined) {
      found = new PlayerProgress(version.promotion, version.version, window, playerRef);
      players.set(key, found);
    }
    return found;
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

function signed({ item, currency, amount }: Credit, sign: 1n | -1n): Credit {
  return { item, currency, amount: amount * sign };
}

function playerOf({ playerRef, brand }: LedgerEntry, credit: RoundCredit | null): string {
  return credit === null || (credit.brand !== null && credit.brand !== brand) ? playerRef : credit.playerRef;
}
