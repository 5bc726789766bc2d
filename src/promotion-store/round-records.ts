/**
 * Where the entries of rounds are in history, recorded as slices read them. A refund then finds the entries
 * of its round at once, whenever they were decided (docs/rules.md, P11).
 */
import type { Slice } from '../fold/fold';
import { declared, pagesOf } from '../postgres/pages';
import type { Row } from '../postgres/pipeline';
import type { Reader, Session, Statement } from '../postgres/transaction';
import {
  BRAND_AND_CURRENCY,
  columnsOf,
  ENTRY,
  ENTRY_COLUMNS,
  ENTRY_NAMES,
  type LedgerRow,
  ledgerRowOf,
  type Refund,
} from './ledger-columns';

/** The records of a generation. */
export interface RoundRecords {
  readonly generation: number;
  /** Rounds with higher numbers are recorded with all their entries; -1: all rounds are. */
  readonly after: number;
}

const BEGIN: Statement = {
  name: 'promotions_begin_records',
  text: `with begun as (
  insert into promo_store.promotion_recordings (generation, after) values ($1, $2) on conflict do nothing returning after
)
select after from begun union all select after from promo_store.promotion_recordings where generation = $1`,
};

/** Finds since when a generation records rounds. The first slice that records is the beginning. */
export async function beginRecords(
  session: Session,
  generation: number,
  after: number,
): Promise<RoundRecords> {
  const [[begun] = []] = await session.query(BEGIN, [generation, after]);
  return { generation, after: Number(begun) };
}

/** Whether all entries of the round of a refund are recorded. */
export function isRecorded(records: RoundRecords | null, { roundNo }: Refund, { isInOrder }: Slice): boolean {
  if (records === null) return false;
  // Numbers of another store say nothing about what was read before.
  return records.after < 0 || (isInOrder && Number(roundNo) > records.after);
}

/** An entry that is at its place no longer has no columns but its verdict, the last one. */
const READ = declared({
  name: 'promotions_read_recorded',
  text: `select w.change_no, w.entered_at, null, ${ENTRY}, r.round_no, e.verdict_id
from unnest($1::bigint[], $2::bigint[], $3::bigint[]) w (change_no, entered_at, round_no)
join promo_store.promotion_rounds r on r.generation = $4 and r.round_no = w.round_no
cross join lateral unnest(r.verdict_ids, r.places) e (verdict_id, place)
left join lateral (select ${ENTRY_COLUMNS} from promo_store.history h where h.ctid = e.place and h.verdict_id = e.verdict_id offset 0) h on true
left join promo_store.feeds f on f.feed_no = h.feed_no
${BRAND_AND_CURRENCY}`,
});
/** Each verdict reads some pages of history. Those of dropped months are gone. */
const READ_MOVED: Statement = {
  name: 'promotions_read_moved',
  text: `select w.change_no, w.entered_at, null, ${ENTRY}
from unnest($1::bigint[], $2::bigint[], $3::bigint[], $4::bigint[]) w (change_no, entered_at, round_no, verdict_id)
join promo_store.refunds x on x.round_no = w.round_no
cross join lateral (select ${ENTRY_COLUMNS} from promo_store.history h where h.verdict_id = w.verdict_id
  and h.decided_at >= x.opened_at - interval '1 day' and h.decided_at <= coalesce(x.refunded_at, 'infinity') + interval '1 day' offset 0) h
${ENTRY_NAMES}`,
};

/** The reversals of refunds whose rounds are recorded, in pages. */
export async function* readRecorded(
  reader: Reader,
  generation: number,
  refunds: readonly Refund[],
): AsyncGenerator<LedgerRow[]> {
  const begun = reader.query(READ, [...columnsOf(refunds), generation]);
  for await (const found of pagesOf(reader, begun)) {
    const rows = found.filter(([, , , verdictId]) => verdictId !== null);
    yield rows.map((row) => ledgerRowOf(row));
    if (rows.length < found.length) yield await readMoved(reader, found);
  }
}

async function readMoved(reader: Reader, found: readonly Row[]): Promise<LedgerRow[]> {
  const moved = found.filter(([, , , verdictId]) => verdictId === null);
  const values = [0, 1, -2, -1].map((place) => moved.map((row) => row.at(place)));
  return (await reader.query(READ_MOVED, values)).map((row) => ledgerRowOf(row));
}

const DROPPED_TO: Statement = {
  name: 'promotions_dropped_to',
  text: `select (max(month) + interval '1 month')::timestamp at time zone 'utc' from promo_store.months where parent = 'history' and dropped_at is not null`,
};
const DROP: Statement = {
  name: 'promotions_drop_records',
  text: `with gone as (delete from promo_store.promotion_rounds where ctid = any(array(
  select ctid from promo_store.promotion_rounds where generation = $1 and newest_at < $2::timestamptz limit 20000)) returning 1) select count(*) from gone`,
};

/** Deletes records of entries that history has dropped. A search reads many records, so it ends with none. */
export class OldRecords {
  /** By generation: history was dropped up to this time, and no older record is left. */
  private readonly done = new Map<number, string>();

  /** Deletes some of them. @returns how many */
  async drop(session: Session, generation: number): Promise<number> {
    const [[droppedTo = null] = []] = await session.query(DROPPED_TO);
    if (droppedTo === null || this.done.get(generation) === droppedTo) return 0;
    const [[count] = []] = await session.query(DROP, [generation, droppedTo]);
    if (Number(count) === 0) this.done.set(generation, droppedTo);
    return Number(count);
  }
}
