/** The columns by which rows of the ledger are read, and the rows as entries of promotions. */
import { isKind, KINDS } from '../domain/event/event';
import type { Row } from '../postgres/pipeline';
import type { CountedEntry } from '../promotions/ledger-entry';
import { readSent, sentOf } from './times';

/** A row of the ledger, and the number of its round; null for account kinds. */
export interface LedgerRow {
  readonly roundNo: string | null;
  readonly entry: CountedEntry;
}

/** The first refund of a round. */
export interface Refund {
  readonly changeNo: number;
  /** When the round was refunded, in microseconds since 1970. */
  readonly at: string;
  readonly roundNo: string;
  /** The number before those of the batch that opened the round; null: the number says nothing about time. */
  readonly opensAfter: number | null;
}

/**
 * A sender chooses the length of a game, and a slice has thousands of them. So each is read as
 * promo.stored_id returns it, and VersionCache shortens the lists of games in the same way.
 *
 * @param feed the row with the operator of an entry `h`
 */
export const entryBy = (
  feed: string,
): string => `h.verdict_id, ${feed}.operator_id, h.round_no, b.brand_id, h.player_ref, h.kind, u.code, coalesce(h.amount_minor, 0), promo.stored_id(h.game_id),
  ${sentOf('h.occurred_at')}, ${sentOf('h.decided_at')}`;
/** The columns of an entry `h`, in the order of `ledgerRowOf`, behind those of the verdict. */
export const ENTRY = entryBy('f');
export const ENTRY_FEED = 'join promo_store.feeds f on f.feed_no = h.feed_no and f.test_mark <> 1';
export const BRAND_AND_CURRENCY = `left join promo_store.brands b on b.brand_no = h.brand_no
left join promo_store.currencies u on u.currency_no = h.currency_no`;
export const ENTRY_NAMES = `${ENTRY_FEED}\n${BRAND_AND_CURRENCY}`;
export const ENTRY_COLUMNS = `h.verdict_id, h.feed_no, h.round_no, h.brand_no, h.player_ref, h.kind, h.currency_no, h.amount_minor, h.game_id, h.occurred_at, h.decided_at, h.counted`;

export function columnsOf(refunds: readonly Refund[]): unknown[] {
  return [
    refunds.map(({ changeNo }) => changeNo),
    refunds.map(({ at }) => at),
    refunds.map(({ roundNo }) => roundNo),
  ];
}

export function reversalOf(
  { entryId, amountMinor, ...entry }: CountedEntry,
  { changeNo, at }: { readonly changeNo: number; readonly at: string },
): CountedEntry {
  return {
    ...entry,
    ...{ changeNo, enteredAt: BigInt(at), amountMinor: -amountMinor },
    ...{ entryId: entryId + 1, reversesEntryId: entryId },
  };
}

/** The places of the verdict and of the round in a row. */
export const VERDICT_ID = 3;
export const ROUND_NO = 5;

/** @param row its first columns are number and time of the refund, for a reversal */
export function ledgerRowOf(row: Row): LedgerRow {
  const [
    changeNo,
    refundedAt,
    ,
    verdictId,
    operatorId,
    roundNo,
    brand,
    playerRef,
    kindNo,
    currency,
    amount,
    gameId,
    occurredAt,
    decidedAt,
  ] = row;
  const kind = KINDS[Number(kindNo) - 1];
  if (kind === undefined || !isKind(kind) || operatorId == null || playerRef == null)
    throw new RangeError(`the entry ${verdictId} of the ledger lacks kind, operator or player`);
  if (decidedAt == null) throw new RangeError(`the entry ${verdictId} of the ledger has no time`);
  const no = Number(verdictId);
  const decided = readSent(decidedAt);
  const entry: CountedEntry = {
    changeNo: no,
    entryId: no * 2,
    reversesEntryId: null,
    operatorId,
    brand: brand ?? null,
    playerRef,
    kind,
    currency: currency ?? null,
    amountMinor: BigInt(amount ?? 0),
    gameId: gameId ?? null,
    occurredAt: occurredAt == null || occurredAt === decidedAt ? decided : readSent(occurredAt),
    decidedAt: decided,
    enteredAt: decided,
  };
  return {
    roundNo: roundNo ?? null,
    entry: refundedAt == null ? entry : reversalOf(entry, { changeNo: Number(changeNo), at: refundedAt }),
  };
}
