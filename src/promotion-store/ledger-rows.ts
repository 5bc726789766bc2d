/** The rows of the ledger that a slice of promotions reads (docs/rules.md, P1, P11). */
import { isKind, KINDS, kindCode } from '../domain/event/event';
import { BATCH_NUMBERS, type Slice } from '../fold/fold';
import type { Row } from '../postgres/pipeline';
import type { Reader, Statement } from '../postgres/transaction';
import type { LedgerEntry } from '../promotions/ledger-entry';
import type { CountedKind } from '../promotions/terms';

/** The events that the promotions of a store may count. */
export interface CountedScope {
  readonly operatorIds: readonly string[];
  readonly kinds: readonly CountedKind[];
}

/** A row of the ledger, and the number of its round; null for account kinds. */
export interface LedgerRow {
  readonly roundNo: string | null;
  readonly entry: LedgerEntry;
}

const inMicros = (column: string) => `(extract(epoch from ${column}) * 1000000)::bigint`;
/** The columns of an entry `h`, in the order of `ledgerRowOf`, behind those of the verdict. */
const ENTRY = `h.verdict_id, f.operator_id, f.feed_id, h.round_no, b.brand_id, h.player_ref, h.kind, u.code, coalesce(h.amount_minor, 0), h.game_id,
  ${inMicros('h.occurred_at')}, ${inMicros('h.decided_at')}`;
const NAMES = `join promo_store.feeds f on f.feed_no = h.feed_no and f.test_mark <> 1
left join promo_store.brands b on b.brand_no = h.brand_no
left join promo_store.currencies u on u.currency_no = h.currency_no`;
const STORED = `h.verdict_id, h.feed_no, h.round_no, h.brand_no, h.player_ref, h.kind, h.currency_no, h.amount_minor, h.game_id, h.occurred_at, h.decided_at, h.counted`;

/**
 * Entries of the slice, and reversals of the rounds that opened near it: behind $3, and not before $4. One
 * scan finds them all. A row without an entry is the refund of a round that opened earlier.
 */
const READ: Statement = {
  name: 'promotions_read',
  text: `with read as materialized (
  select ${STORED}, case when h.kind = 4 and h.outcome = 0 then h.event_id end as refund
  from promo_store.history h
  where h.verdict_id > least($1::bigint, $3::bigint) and h.verdict_id <= $2::bigint and h.decided_at >= $4::timestamptz
    and h.feed_no = any(array(select feed_no from promo_store.feeds where operator_id = any($5::text[])))
    and (h.counted and h.kind = any($6::smallint[]) or h.kind = 4 and h.outcome = 0)
), refunds as materialized (
  select s.verdict_id as change_no, x.round_no, coalesce(x.refunded_at, x.opened_at) as refunded_at,
    x.round_no / ${BATCH_NUMBERS} * ${BATCH_NUMBERS} > $3 and x.opened_at >= $4 as is_near
  from read s
  cross join lateral (select * from promo_store.refunds x where x.round_no = s.round_no and x.refunded_by = s.refund offset 0) x
  where s.verdict_id > $1 and s.refund is not null
), rows as (
  select h.verdict_id as change_no, h.decided_at as entered_at, false as is_reversal, h.* from read h where h.verdict_id > $1 and h.counted
  union all
  select x.change_no, x.refunded_at, true, h.* from read h join refunds x on x.round_no = h.round_no and x.is_near where h.counted
)
select h.change_no, ${inMicros('h.entered_at')}, h.is_reversal, ${ENTRY} from rows h
${NAMES}
union all
select change_no, ${inMicros('refunded_at')}, null, round_no, null, null, null, null, null, null, null, null, null, null, null from refunds where not is_near`,
};

/** Reversals of rounds that opened long ago, found as the rollups find them. */
const READ_FAR: Statement = {
  name: 'promotions_read_far',
  text: `select w.change_no, w.entered_at, true, ${ENTRY}
from unnest($1::bigint[], $2::bigint[], $3::bigint[]) w (change_no, entered_at, round_no)
join promo_store.refunds x on x.round_no = w.round_no
cross join lateral (select * from (select ${STORED} from promo_store.history h where h.round_no = x.round_no
    and h.decided_at >= x.opened_at - interval '1 day' and h.decided_at <= coalesce(x.refunded_at, 'infinity') + interval '1 day' offset 0) h
  where h.counted and h.kind = any($4::smallint[])) h
${NAMES}`,
};

/** Entries of rounds up to a number. The rounds of attributions are few, and of any age. */
const READ_ROUNDS: Statement = {
  name: 'promotions_read_rounds',
  text: `select h.verdict_id, ${inMicros('h.decided_at')}, false, ${ENTRY}
from unnest($1::bigint[]) w (round_no)
join promo_store.rounds r on r.round_no = w.round_no
cross join lateral (select * from (select ${STORED} from promo_store.history h
    where h.round_no = r.round_no and h.decided_at >= r.opened_at - interval '1 day' offset 0) h
  where h.counted and h.kind = any($2::smallint[]) and h.verdict_id <= $3::bigint) h
${NAMES}`,
};

/** Without nested loops, one scan of a slice is joined by hash, whatever the planner expects. */
const ALLOW_LOOPS: Statement = {
  name: 'promotions_loops',
  text: `select set_config('enable_nestloop', $1, true)`,
};
/** Most refunds are of rounds that opened a moment before. */
const NEAR_BATCHES = 100;
/** Of a store with verdicts of another: numbers say nothing about time. */
const NONE_NEAR = '9223372036854775807';

/** The entries and reversals of a slice, in no order. */
export async function readLedgerRows(
  session: Reader,
  slice: Slice,
  scope: CountedScope,
): Promise<LedgerRow[]> {
  const { after, upTo, since, isInOrder } = slice;
  const kinds = scope.kinds.map(kindCode);
  const near = isInOrder ? Math.max(-1, after - NEAR_BATCHES * BATCH_NUMBERS) : NONE_NEAR;
  await session.query(ALLOW_LOOPS, ['off']);
  const found = await session.query(READ, [after, upTo, near, since, scope.operatorIds, kinds]);
  await session.query(ALLOW_LOOPS, ['on']);
  const far = found.filter(([, , isReversal]) => isReversal === null);
  const rows = found.filter(([, , isReversal]) => isReversal !== null).map(ledgerRowOf);
  if (far.length === 0) return rows;
  const columns = [0, 1, 3].map((place) => far.map((row) => row[place]));
  return [...rows, ...(await session.query(READ_FAR, [...columns, kinds])).map(ledgerRowOf)];
}

/** The entries of rounds that were decided up to a number, also refunded ones. */
export async function readEntriesOfRounds(
  session: Reader,
  rounds: readonly string[],
  { kinds }: CountedScope,
  upTo: number,
): Promise<LedgerRow[]> {
  if (rounds.length === 0) return [];
  return (await session.query(READ_ROUNDS, [rounds, kinds.map(kindCode), upTo])).map(ledgerRowOf);
}

function ledgerRowOf(row: Row): LedgerRow {
  const [changeNo, enteredAt, isReversal, verdictId, operatorId, feedId, roundNo, brand, ...rest] = row;
  const [playerRef, kindNo, currency, amount, gameId, occurredAt, decidedAt] = rest;
  const kind = KINDS[Number(kindNo) - 1];
  if (kind === undefined || !isKind(kind) || operatorId == null || feedId == null || playerRef == null)
    throw new RangeError(`the entry ${verdictId} of the ledger lacks kind, operator or player`);
  const entryId = Number(verdictId) * 2;
  const isReversed = isReversal === 't';
  const amountMinor = BigInt(amount ?? 0);
  const decided = BigInt(decidedAt ?? 0);
  return {
    roundNo: roundNo ?? null,
    entry: {
      changeNo: Number(changeNo),
      entryId: isReversed ? entryId + 1 : entryId,
      reversesEntryId: isReversed ? entryId : null,
      ...{ operatorId, feedId, roundId: roundNo ?? null, brand: brand ?? null, playerRef, kind },
      ...{ currency: currency ?? null, amountMinor: isReversed ? -amountMinor : amountMinor },
      ...{ gameId: gameId ?? null, decidedAt: decided, enteredAt: BigInt(enteredAt ?? 0) },
      occurredAt: occurredAt == null ? decided : BigInt(occurredAt),
    },
  };
}
