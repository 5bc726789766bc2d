/** The rows of the ledger that a slice of promotions reads (docs/rules.md, P1, P11). */
import { kindCode } from '../domain/event/event';
import type { Slice } from '../fold/fold';
import { BATCH_NUMBERS } from '../fold/statements';
import { declared, pagesOf } from '../postgres/pages';
import type { Row } from '../postgres/pipeline';
import type { Reader, Statement } from '../postgres/transaction';
import type { CountedKind } from '../promotions/terms';
import { byHash } from './by-hash';
import {
  BRAND_AND_CURRENCY,
  columnsOf,
  ENTRY,
  ENTRY_COLUMNS,
  ENTRY_FEED,
  ENTRY_NAMES,
  entryBy,
  type LedgerRow,
  ledgerRowOf,
  type Refund,
  ROUND_NO,
  reversalOf,
  VERDICT_ID,
} from './ledger-columns';
import { isRecorded, type RoundRecords, readRecorded } from './round-records';
import { finiteMicrosOf } from './times';

/** The events that the promotions of a store may count. */
export interface CountedScope {
  readonly operatorIds: readonly string[];
  readonly kinds: readonly CountedKind[];
}

const inSlice = (columns: string, names: string): string => `select ${columns} from promo_store.history h
${names}
where h.verdict_id > $1::bigint and h.verdict_id <= $2::bigint and h.decided_at >= $3::timestamptz
  and h.feed_no = any(array(select feed_no from promo_store.feeds where operator_id = any($4::text[])))
  and (h.counted and h.kind = any($5::smallint[]) or h.kind = 4 and h.outcome = 0)`;
/** Entries of the slice, and its refunds. Only they have an event id. Of one round there may be several. */
const READ: Statement = {
  name: 'promotions_read',
  text: inSlice(
    `null, null, case when h.kind = 4 then promo.stored_id(h.event_id) end, ${ENTRY}`,
    ENTRY_NAMES,
  ),
};
/** The same, and records where the entries of rounds are. */
const READ_AND_RECORD: Statement = {
  name: 'promotions_read_and_record',
  text: `with found as materialized (
  ${inSlice(`h.ctid as place, ${ENTRY_COLUMNS}, h.event_id, f.operator_id`, ENTRY_FEED)}
), recorded as (
  insert into promo_store.promotion_rounds (generation, round_no, last_no, newest_at, entries, verdict_ids, places)
  select $6, round_no, max(verdict_id), max(decided_at), count(*), array_agg(verdict_id), array_agg(place)
  from found where kind <> 4 and round_no is not null group by round_no order by round_no
)
select null, null, case when h.kind = 4 then promo.stored_id(h.event_id) end, ${entryBy('h')} from found h ${BRAND_AND_CURRENCY}`,
};
/** The refunds that are the first of their rounds: each takes back what came before. */
const READ_REFUNDS: Statement = {
  name: 'promotions_read_refunds',
  text: `select w.change_no, ${finiteMicrosOf('coalesce(x.refunded_at, x.opened_at)')}, x.round_no, x.opened_at >= $4::timestamptz
from unnest($1::bigint[], $2::bigint[], $3::text[]) w (change_no, round_no, event_id)
cross join lateral (select * from promo_store.refunds x where x.round_no = w.round_no and promo.stored_id(x.refunded_by) = w.event_id offset 0) x`,
};
/**
 * Reversals of rounds that opened a moment before the slice. One scan finds all of them: entries of a round
 * have higher numbers than the batch before it.
 */
const READ_NEAR = declared({
  name: 'promotions_read_near',
  text: `select w.change_no, w.entered_at, null, ${ENTRY}
from unnest($1::bigint[], $2::bigint[], $3::bigint[]) w (change_no, entered_at, round_no)
join (select ${ENTRY_COLUMNS} from promo_store.history h
  where h.verdict_id > $4::bigint and h.verdict_id <= $5::bigint and h.decided_at >= $6::timestamptz and h.counted and h.kind = any($7::smallint[])) h
  on h.round_no = w.round_no
${ENTRY_NAMES}`,
});
/** Reversals of rounds that opened long ago, found as the rollups find them. */
const READ_FAR = declared({
  name: 'promotions_read_far',
  text: `select w.change_no, w.entered_at, null, ${ENTRY}
from unnest($1::bigint[], $2::bigint[], $3::bigint[]) w (change_no, entered_at, round_no)
join promo_store.refunds x on x.round_no = w.round_no
cross join lateral (select * from (select ${ENTRY_COLUMNS} from promo_store.history h where h.round_no = x.round_no
    and h.decided_at >= x.opened_at - interval '1 day' and h.decided_at <= coalesce(x.refunded_at, 'infinity') + interval '1 day' offset 0) h
  where h.counted and h.kind = any($4::smallint[])) h
${ENTRY_NAMES}`,
});

/** Entries of rounds up to a number. The rounds of attributions are few, and of any age. */
const READ_ROUNDS: Statement = {
  name: 'promotions_read_rounds',
  text: `select null, null, null, ${ENTRY}
from unnest($1::bigint[]) w (round_no)
join promo_store.rounds r on r.round_no = w.round_no
cross join lateral (select * from (select ${ENTRY_COLUMNS} from promo_store.history h
    where h.round_no = r.round_no and h.decided_at >= r.opened_at - interval '1 day' offset 0) h
  where h.counted and h.kind = any($2::smallint[]) and h.verdict_id <= $3::bigint) h
${ENTRY_NAMES}`,
};

/** A look-up of an old round takes as long as a scan of so many rows. */
const ROWS_OF_LOOK_UP = 4_000;

/**
 * The entries and reversals of a slice, in no order. Memory holds one page of them at a time.
 *
 * @param records null: refunds find the entries of their rounds in history alone
 */
export async function* readLedgerPages(
  session: Reader,
  slice: Slice,
  scope: CountedScope,
  records: RoundRecords | null,
): AsyncGenerator<LedgerRow[]> {
  const { after, upTo, since } = slice;
  const kinds = scope.kinds.map(kindCode);
  const values = [after, upTo, since, scope.operatorIds, kinds];
  const found = await (records === null
    ? byHash(session, READ, values)
    : byHash(session, READ_AND_RECORD, [...values, records.generation]));
  const rows = found.filter(([, , eventId]) => eventId === null).map((row) => ledgerRowOf(row));
  const all = await readRefunds(session, slice, found);
  const refunds = all.filter((refund) => !isRecorded(records, refund, slice));
  const low = lowOfScan(refunds, after, found.length / (upTo - after));
  const far = refunds.filter(({ opensAfter }) => opensAfter === null || opensAfter < low);
  const near = refunds.filter(({ opensAfter }) => opensAfter !== null && opensAfter >= low);
  yield rows;
  yield reversalsWithin(rows, near);
  if (low < after && near.length > 0)
    yield* reversalPages(session, byHash(session, READ_NEAR, [...columnsOf(near), low, after, since, kinds]));
  if (far.length > 0) yield* reversalPages(session, session.query(READ_FAR, [...columnsOf(far), kinds]));
  if (records !== null && all.length > refunds.length)
    yield* readRecorded(
      session,
      records.generation,
      all.filter((refund) => isRecorded(records, refund, slice)),
    );
}

/** A round may have a million entries. */
async function* reversalPages(session: Reader, begun: Promise<unknown>): AsyncGenerator<LedgerRow[]> {
  for await (const page of pagesOf(session, begun)) yield page.map((row) => ledgerRowOf(row));
}

async function readRefunds(
  session: Reader,
  { since, isInOrder }: Slice,
  found: readonly Row[],
): Promise<Refund[]> {
  const rows = found.filter(([, , eventId]) => eventId !== null);
  if (rows.length === 0) return [];
  const column = (place: number) => rows.map((row) => row[place]);
  const refunds = await session.query(READ_REFUNDS, [column(VERDICT_ID), column(ROUND_NO), column(2), since]);
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
