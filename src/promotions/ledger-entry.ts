/** The input of promotions: rows of the ledger, as promo.changes_with_players returns them. */
import type { Kind } from '../domain/event/event';

/** An entry or a reversal, as far as promotions count it. */
export interface CountedEntry {
  /** The number of the verdict that made the row: of the event, or of the refund for a reversal. */
  readonly changeNo: number;
  readonly entryId: number;
  /** The entry that this row takes back; null for an entry. A reversal has all other fields of its entry. */
  readonly reversesEntryId: number | null;
  readonly operatorId: string;
  readonly brand: string | null;
  readonly playerRef: string;
  readonly kind: Kind;
  readonly currency: string | null;
  /** Minor units: negative for a reversal. */
  readonly amountMinor: bigint;
  readonly gameId: string | null;
  /** Microseconds since 1970. */
  readonly occurredAt: bigint;
  /** When the event was decided, also in a reversal. */
  readonly decidedAt: bigint;
  /** When the row was made. */
  readonly enteredAt: bigint;
}

export interface LedgerEntry extends CountedEntry {
  readonly feedId: string;
  readonly roundId: string | null;
}

/** The player to whom the entries of a round are credited, in place of their own (docs/rules.md, B4). */
export interface RoundCredit {
  readonly feedId: string;
  readonly roundId: string;
  /** Entries of this brand alone; null: of any brand. */
  readonly brand: string | null;
  readonly playerRef: string;
}

/** The time by which an entry counts: a claimed future fills no window of tomorrow (docs/rules.md, P2). */
export function countedTimeOf({ occurredAt, decidedAt }: CountedEntry): bigint {
  return occurredAt < decidedAt ? occurredAt : decidedAt;
}
