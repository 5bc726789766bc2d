/** The columns by which rows of the ledger are read, and the rows as entries of promotions. */
import { isKind, KINDS } from '../domain/event/event';
import type { Row } from '../postgres/pipeline';
import type { CountedEntry } from '../promotions/ledger-entry';
import { readSent, sentOf } from './times';

export interface LedgerRow {
  /** The number of its round; null for account kinds. */
  readonly roundNo: string | null;
  readonly entry: CountedEntry;
  /** The player to whom the round is credited; null: the player of the entry. */
  readonly creditedTo: string | null;
}

/** An entry that is added to the progress of a player, or taken from it. */
export interface CountedRow {
  /** The number of the verdict, or of the change of an attribution. */
  readonly changeNo: number;
  /** When it was made, in microseconds since 1970. */
  readonly at: bigint;
  /** Promotions that were removed at this time or before do not count it. */
  readonly matchedAt: bigint;
  readonly entry: CountedEntry;
  /** The player that is credited. */
  readonly playerRef: string;
  readonly sign: 1n | -1n;
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
 * The columns of an entry `h`, in the order of `ledgerRowOf`, behind those of the refund and of the credit.
 * A sender chooses the length of a game, and a slice has thousands of them. So each is read as
 * promo.stored_id returns it, and VersionCache shortens the lists of games in the same way.
 */
export const ENTRY = `h.verdict_id, f.operator_id, h.round_no, b.brand_id, h.player_ref, h.kind, u.code, coalesce(h.amount_minor, 0), promo.stored_id(h.game_id),
  ${sentOf('h.occurred_at')}, ${sentOf('h.decided_at')}`;
export const ENTRY_NAMES = `join promo_store.feeds f on f.feed_no = h.feed_no and f.test_mark <> 1
left join promo_store.brands b on b.brand_no = h.brand_no
left join promo_store.currencies u on u.currency_no = h.currency_no`;
export const ENTRY_COLUMNS = `h.verdict_id, h.feed_no, h.round_no, h.brand_no, h.player_ref, h.kind, h.currency_no, h.amount_minor, h.game_id, h.occurred_at, h.decided_at`;
/** The verdicts of a slice that concern promotions: $1 to $4 are numbers, time and operators. */
export const VERDICTS_OF_SLICE = `h.verdict_id > $1::bigint and h.verdict_id <= $2::bigint and h.decided_at >= $3::timestamptz
  and h.feed_no = any(array(select feed_no from promo_store.feeds where operator_id = any($4::text[]) and test_mark <> 1))`;
/** The entries among them that promotions may count: $5 are their kinds. */
export const ENTRIES_OF_SLICE = `${VERDICTS_OF_SLICE} and h.counted and h.kind = any($5::smallint[])`;

/**
 * The player to whom the round of a row `h` is credited, as of the row's number (B4, B9). Each part is looked
 * up by its key: a join could read all attributions for each row.
 */
export const CREDITED = `select case when c.brand_no is null or c.brand_no = h.brand_no then coalesce(e.player_ref, c.player_ref) end
  from promo_store.rounds r
  cross join lateral (select c.* from promo_store.attribution_changes c where c.feed_no = r.feed_no and c.round_key = r.round_key
    and c.change_no <= coalesce(h.change_no, h.verdict_id) order by c.change_no desc limit 1) c
  left join lateral (select e.player_ref from promo_store.erased_credits e
    where e.feed_no = c.feed_no and e.round_key = c.round_key and e.change_no = c.change_no offset 0) e on true
  where r.round_no = h.round_no`;

/** The refunds of `columnsOf` as a table: $1 to $3. */
export const REFUNDS = 'unnest($1::bigint[], $2::bigint[], $3::bigint[]) w (change_no, entered_at, round_no)';

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
    changeNo,
    enteredAt: BigInt(at),
    amountMinor: -amountMinor,
    entryId: entryId + 1,
    reversesEntryId: entryId,
  };
}

/** @param row its first columns are number and time of the refund, for a reversal, and the credited player */
export function ledgerRowOf(row: Row): LedgerRow {
  const [
    changeNo,
    refundedAt,
    creditedTo,
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
    creditedTo: creditedTo ?? null,
    entry: refundedAt == null ? entry : reversalOf(entry, { changeNo: Number(changeNo), at: refundedAt }),
  };
}
