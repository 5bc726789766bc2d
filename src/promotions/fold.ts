/**
 * The fold: from rows of the ledger to the progress of players, completions and leaderboards
 * (docs/rules.md, P1-P16).
 *
 * It is the reference of the rules: every store has to agree with it. It keeps all entries, so it suits files
 * and tests.
 */
import type { CompletionEntry } from './completion';
import { Counting, type PromotionVersion } from './counting';
import { type HeldCompletion, heldBy } from './judging';
import type { LedgerEntry, RoundCredit } from './ledger-entry';
import type { PlayerProgress } from './player-progress';

/** The entries of a round, and the credit of the round. */
interface CreditedRound {
  readonly entries: LedgerEntry[];
  credit: RoundCredit | null;
}

export class PromotionFold {
  private readonly entries = new Set<number>();
  private readonly reversed = new Set<number>();
  private readonly rounds = new Map<string, CreditedRound>();
  private readonly counting: Counting;

  /** @param keepsRounds false where no round is credited to another player: it needs half the memory */
  constructor(
    readonly versions: readonly PromotionVersion[],
    private readonly keepsRounds = true,
  ) {
    this.counting = new Counting(versions);
  }

  /** Takes a row. Rows come in the order of their changeNo; a row that comes again changes nothing. */
  take(entry: LedgerEntry): void {
    if (!this.isNew(entry)) return;
    const { feedId, roundId, changeNo, enteredAt } = entry;
    const round = roundId === null || !this.keepsRounds ? undefined : this.roundOf(feedId, roundId);
    round?.entries.push(entry);
    this.counting.add(entry, playerOf(entry, round?.credit ?? null), 1n, { changeNo, at: enteredAt });
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
    for (const entry of round.entries) {
      const [from, to] = [playerOf(entry, before), playerOf(entry, credit)];
      if (from === to) continue;
      this.counting.add(entry, from, -1n, { changeNo, at });
      this.counting.add(entry, to, 1n, { changeNo, at });
    }
  }

  /**
   * Ends a slice: compares the completions with the progress, at a time, and returns the changes. Changes
   * that took themselves back within the slice are not seen.
   *
   * @param asOf the time up to which rows were taken, in microseconds since 1970
   */
  endSlice(asOf: bigint): CompletionEntry[] {
    return this.counting.endSlice(asOf).entries.map(([, entry]) => entry);
  }

  completionsOf(progress: PlayerProgress): ReadonlyMap<number, HeldCompletion> {
    return heldBy(progress);
  }

  /** How many players have progress, each window of each version counted. */
  get size(): number {
    return this.counting.found.length;
  }

  /** The progress of all players, by version and in no order. */
  progress(): Iterable<PlayerProgress> {
    return this.counting.progress();
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
}

function playerOf({ playerRef, brand }: LedgerEntry, credit: RoundCredit | null): string {
  return credit === null || (credit.brand !== null && credit.brand !== brand) ? playerRef : credit.playerRef;
}
