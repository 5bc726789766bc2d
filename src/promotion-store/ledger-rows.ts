/** The rows of the ledger that a slice of promotions reads (docs/rules.md, P1, P11). */
import { isKind, KINDS, kindCode } from '../domain/event/event';
import { BATCH_NUMBERS, type Slice } from '../fold/fold';
import type { Row } from '../postgres/pipeline';
import type { Reader, Statement } from '../postgres/transaction';
import type { LedgerEntry } from '../promotions/ledger-entry';
import type { CountedKind } from '../promotions/terms';
import { finiteMicrosOf } from './times';

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

/** The columns of an entry `h`, in the order of `ledgerRowOf`, behind those of the verdict. */
const ENTRY = `h.verdict_id, f.operator_id, f.feed_id, h.round_no, b.brand_id, h.player_ref, h.kind, u.code, coalesce(h.amount_minor, 0), h.game_id,
  ${finiteMicrosOf('h.occurred_at')}, ${finiteMicrosOf('h.decided_at')}`;
const NAMES = `join promo_store.feeds f on f.feed_no = h.feed_no and f.test_mark <> 1
left join promo_store.brands b on b.brand_no = h.brand_no
left join promo_store.currencies u on u.currency_no = h.currency_no`;
const STORED = `h.verdict_id, h.feed_no, h.round_no, h.brand_no, h.player_ref, h.kind, h.currency_no, h.amount_minor, h.game_id, h.occurred_at, h.decided_at, h.counted`;

/** A round may have a million entries. */
const REVERSALS_AT_ONCE = 10_000;

/** Entries of the slice, and its refunds. Only they have an event id. Of one round there may be several. */
const READ: Statement = {
  name: 'promotions_read',
  text: `select h.verdict_id, null, case when h.kind = 4 then h.event_id end, ${ENTRY} from promo_store.history h
${NAMES}
where h.verdict_id > $1::bigint and h.verdict_id <= $2::bigint and h.decided_at >= $3::timestamptz
  and h.feed_no = any(array(select feed_no from promo_store.feeds where operator_id = any($4::text[])))
  and (h.counted and h.kind = any($5::smallint[]) or h.kind = 4 and h.outcome = 0)`,
};
/** The refunds that are the first of their rounds: each takes back what came before. */
const READ_REFUNDS: Statement = {
  name: 'promotions_read_refunds',
  text: `select w.change_no, ${finiteMicrosOf('coalesce(x.refunded_at, x.opened_at)')}, x.round_no, x.opened_at >= $4::timestamptz
from unnest($1::bigint[], $2::bigint[], $3::text[]) w (change_no, round_no, event_id)
cross join lateral (select * from promo_store.refunds x where x.round_no = w.round_no and x.refunded_by = w.event_id offset 0) x`,
};
/**
 * Reversals of rounds that opened a moment before the slice. One scan finds all of them: entries of a round
 * have higher numbers than the batch before it.
 */
const READ_NEAR: Statement = {
  name: 'promotions_read_near',
  text: `select w.change_no, w.entered_at, null, ${ENTRY}
from unnest($1::bigint[], $2::bigint[], $3::bigint[]) w (change_no, entered_at, round_no)
join (select ${STORED} from promo_store.history h
  where h.verdict_id > $4::bigint and h.verdict_id <= $5::bigint and h.decided_at >= $6::timestamptz and h.counted and h.kind = any($7::smallint[])) h
  on h.round_no = w.round_no
${NAMES}
order by h.verdict_id limit ${REVERSALS_AT_ONCE}`,
};
/** Reversals of rounds that opened long ago, found as the rollups find them. */
const READ_FAR: Statement = {
  name: 'promotions_read_far',
  text: `select w.change_no, w.entered_at, null, ${ENTRY}
from unnest($1::bigint[], $2::bigint[], $3::bigint[]) w (change_no, entered_at, round_no)
join promo_store.refunds x on x.round_no = w.round_no
cross join lateral (select * from (select ${STORED} from promo_store.history h where h.round_no = x.round_no
    and h.decided_at >= x.opened_at - interval '1 day' and h.decided_at <= coalesce(x.refunded_at, 'infinity') + interval '1 day' and h.verdict_id > $4::bigint offset 0) h
  where h.counted and h.kind = any($5::smallint[])) h
${NAMES}
order by h.verdict_id limit ${REVERSALS_AT_ONCE}`,
};

/** Entries of rounds up to a number. The rounds of attributions are few, and of any age. */
const READ_ROUNDS: Statement = {
  name: 'promotions_read_rounds',
  text: `select h.verdict_id, null, null, ${ENTRY}
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
/** A look-up of an old round takes as long as a scan of so many rows. */
const ROWS_OF_LOOK_UP = 4_000;

/** The first refund of a round. */
interface Refund {
  readonly changeNo: number;
  /** When the round was refunded, in microseconds since 1970. */
  readonly at: string;
  readonly roundNo: string;
  /** The number before those of the batch that opened the round; null: the number says nothing about time. */
  readonly opensAfter: number | null;
}

/** The entries and reversals of a slice, in no order. Memory holds one page of them at a time. */
export async function* readLedgerPages(
  session: Reader,
  slice: Slice,
  scope: CountedScope,
): AsyncGenerator<LedgerRow[]> {
  const { after, upTo, since } = slice;
  const kinds = scope.kinds.map(kindCode);
  const found = await byHash(session, READ, [after, upTo, since, scope.operatorIds, kinds]);
  const rows = found.filter(([, , eventId]) => eventId === null).map((row) => ledgerRowOf(row));
  const refunds = await readRefunds(session, slice, found);
  const low = lowOfScan(refunds, after, found.length / (upTo - after));
  const far = refunds.filter(({ opensAfter }) => opensAfter === null || opensAfter < low);
  const near = refunds.filter(({ opensAfter }) => opensAfter !== null && opensAfter >= low);
  yield rows;
  yield reversalsWithin(rows, near);
  if (low < after && near.length > 0)
    yield* pagesOf((behind) =>
      byHash(session, READ_NEAR, [...columnsOf(near), Math.max(low, behind), after, since, kinds]),
    );
  if (far.length > 0) yield* pagesOf((behind) => session.query(READ_FAR, [...columnsOf(far), behind, kinds]));
}

/** @param read the first reversals behind the number of an entry, in their order */
async function* pagesOf(read: (behind: number) => Promise<Row[]>): AsyncGenerator<LedgerRow[]> {
  for (let behind = -1; ; ) {
    const rows = (await read(behind)).map((row) => ledgerRowOf(row));
    yield rows;
    const last = rows.at(-1)?.entry.reversesEntryId;
    if (rows.length < REVERSALS_AT_ONCE || last == null) return;
    behind = last / 2;
  }
}

/** Runs a statement without nested loops. A reader may take one statement at a time. */
async function byHash(reader: Reader, statement: Statement, values: readonly unknown[]): Promise<Row[]> {
  await reader.query(ALLOW_LOOPS, ['off']);
  const rows = await reader.query(statement, values);
  await reader.query(ALLOW_LOOPS, ['on']);
  return rows;
}

async function readRefunds(
  session: Reader,
  { since, isInOrder }: Slice,
  found: readonly Row[],
): Promise<Refund[]> {
  const rows = found.filter(([, , eventId]) => eventId !== null);
  if (rows.length === 0) return [];
  const column = (place: number) => rows.map((row) => row[place]);
  const refunds = await session.query(READ_REFUNDS, [column(0), column(ROUND_NO), column(2), since]);
  return refunds.map(([changeNo, at, roundNo, isRecent]) => ({
    ...{ changeNo: Number(changeNo), at: at ?? '0', roundNo: roundNo ?? '' },
    opensAfter:
      isInOrder && isRecent === 't' ? Math.floor(Number(roundNo) / BATCH_NUMBERS) * BATCH_NUMBERS - 1 : null,
  }));
}

/** @returns the number behind which one scan costs less than looking up the rounds that opened there */
function lowOfScan(refunds: readonly Refund[], after: number, rowsPerNumber: number): number {
  const numbers = refunds
    .flatMap(({ opensAfter }) => (opensAfter === null ? [] : [Math.min(opensAfter, after)]))
    .sort((a, b) => b - a);
  let low = after;
  let saved = 0;
  for (const [index, number] of numbers.entries()) {
    const gain = (index + 1) * ROWS_OF_LOOK_UP - (after - number) * rowsPerNumber;
    if (gain < saved) continue;
    saved = gain;
    low = number;
  }
  return low;
}

/** The reversals of entries of the slice itself. */
function reversalsWithin(rows: readonly LedgerRow[], refunds: readonly Refund[]): LedgerRow[] {
  const byRound = new Map(refunds.map((refund) => [refund.roundNo, refund]));
  return rows.flatMap(({ roundNo, entry }) => {
    const refund = roundNo === null ? undefined : byRound.get(roundNo);
    return refund === undefined ? [] : [{ roundNo, entry: reversalOf(entry, refund) }];
  });
}

function reversalOf(
  { entryId, amountMinor, ...entry }: LedgerEntry,
  { changeNo, at }: { readonly changeNo: number; readonly at: string },
): LedgerEntry {
  return {
    ...entry,
    ...{ changeNo, enteredAt: BigInt(at), amountMinor: -amountMinor },
    ...{ entryId: entryId + 1, reversesEntryId: entryId },
  };
}

function columnsOf(refunds: readonly Refund[]): unknown[] {
  return [
    refunds.map(({ changeNo }) => changeNo),
    refunds.map(({ at }) => at),
    refunds.map(({ roundNo }) => roundNo),
  ];
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

/** The place of the round in a row. */
const ROUND_NO = 6;

/** @param row its second column is the time of the refund, for a reversal */
function ledgerRowOf(row: Row): LedgerRow {
  const [changeNo, refundedAt, , verdictId, operatorId, feedId, roundNo, brand, ...rest] = row;
  const [playerRef, kindNo, currency, amount, gameId, occurredAt, decidedAt] = rest;
  const kind = KINDS[Number(kindNo) - 1];
  if (kind === undefined || !isKind(kind) || operatorId == null || feedId == null || playerRef == null)
    throw new RangeError(`the entry ${verdictId} of the ledger lacks kind, operator or player`);
  const no = Number(verdictId);
  const decided = BigInt(decidedAt ?? 0);
  const entry: LedgerEntry = {
    ...{ changeNo: no, entryId: no * 2, reversesEntryId: null },
    ...{ operatorId, feedId, roundId: roundNo ?? null, brand: brand ?? null, playerRef, kind },
    ...{ currency: currency ?? null, amountMinor: BigInt(amount ?? 0), gameId: gameId ?? null },
    ...{
      occurredAt: occurredAt == null ? decided : BigInt(occurredAt),
      decidedAt: decided,
      enteredAt: decided,
    },
  };
  return {
    roundNo: roundNo ?? null,
    entry: refundedAt == null ? entry : reversalOf(entry, { changeNo: Number(changeNo), at: refundedAt }),
  };
}
