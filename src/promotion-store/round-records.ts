/**
 * Where the entries of rounds are in history, recorded as slices read them. A refund then finds the entries
 * of its round at once, whenever they were decided (docs/rules.md, P11).
 */
import type { Slice } from '../fold/fold';
import { deleteSome, deletionOf } from '../fold/statements';
import type { Reader, Session, Statement } from '../postgres/transaction';
import { ENTRIES_OF_SLICE, type Refund } from './ledger-columns';

/** The records of a generation. */
export interface RoundRecords {
  readonly generation: number;
  /** Rounds with higher numbers are recorded with all their entries; -1: all rounds are. */
  readonly after: number;
  /** Rounds with more entries are large: further entries are summed. */
  readonly largeRound: number;
}

/** An older process may have left sums of a generation that it gave up: its number is given again. */
const BEGIN: Statement = {
  name: 'promotions_begin_records',
  text: `with gone as (
  delete from promo_store.promotion_round_sums where generation = $1 and $2::bigint < 0
), begun as (
  insert into promo_store.promotion_recordings (generation, after) values ($1, $2) on conflict do nothing returning after
)
select after from begun union all select after from promo_store.promotion_recordings where generation = $1`,
};

/** Finds since when a generation records rounds. The first slice that records is the beginning. */
export async function beginRecords(
  session: Session,
  generation: number,
  after: number,
  largeRound: number,
): Promise<RoundRecords> {
  const [[begun] = []] = await session.query(BEGIN, [generation, after]);
  return { generation, after: Number(begun), largeRound };
}

/** Whether all entries of the round of a refund are recorded. */
export function isRecorded(records: RoundRecords | null, { roundNo }: Refund, { isInOrder }: Slice): boolean {
  if (records === null) return false;
  // Numbers of another store say nothing about what was read before.
  return records.after < 0 || (isInOrder && Number(roundNo) > records.after);
}

/**
 * Entries without a round are left out after the scan. Without statistics, the planner would look for the
 * others by the summaries of rounds. They name all pages of the month. Rounds that the slice has opened have
 * no earlier row, so none is looked up.
 */
const RECORD: Statement = {
  name: 'promotions_record',
  text: `with recorded as (
  insert into promo_store.promotion_rounds (generation, round_no, last_no, newest_at, entries, verdict_ids, places, entries_before, is_summed)
  select $6, s.*, s.entries_before + s.entries > $7::int from (
    select h.round_no, max(h.verdict_id), max(h.decided_at), count(*)::int as entries, array_agg(h.verdict_id), array_agg(h.place),
      coalesce((select p.entries_before + p.entries from promo_store.promotion_rounds p
        where p.generation = $6 and p.round_no = h.round_no and h.round_no <= $1::bigint order by p.last_no desc limit 1), 0) as entries_before
    from (select h.round_no, h.verdict_id, h.decided_at, h.ctid as place from promo_store.history h where ${ENTRIES_OF_SLICE} offset 0) h
    where h.round_no is not null group by h.round_no
  ) s order by s.round_no returning round_no, is_summed
)
select round_no from recorded where is_summed`,
};

/** Records the entries of a slice. @returns the numbers of the large rounds among theirs */
export async function recordRounds(
  session: Reader,
  { generation, largeRound }: RoundRecords,
  entriesOfSlice: readonly unknown[],
): Promise<ReadonlySet<string>> {
  const rows = await session.query(RECORD, [...entriesOfSlice, generation, largeRound]);
  return new Set(rows.map(([roundNo]) => roundNo ?? ''));
}

const DROPPED_TO: Statement = {
  name: 'promotions_dropped_to',
  text: `select (max(month) + interval '1 month')::timestamp at time zone 'utc' from promo_store.months where parent = 'history' and dropped_at is not null`,
};
const DROPS = [
  deletionOf(
    'promotions_drop_records',
    'promotion_rounds',
    'generation = $1 and newest_at < $2::timestamptz',
  ),
  deletionOf(
    'promotions_drop_sums',
    'promotion_round_sums',
    `generation = $1 and month < ($2::timestamptz at time zone 'utc')::date`,
  ),
];

/**
 * Deletes records and sums of entries that history has dropped. A search reads many records, so it ends with
 * none.
 */
export class OldRecords {
  /** By generation: history was dropped up to this time, and no older record is left. */
  private readonly done = new Map<number, string>();

  /** Deletes some of them. @returns how many */
  async drop(session: Session, generation: number): Promise<number> {
    const [[droppedTo = null] = []] = await session.query(DROPPED_TO);
    if (droppedTo === null || this.done.get(generation) === droppedTo) return 0;
    const dropped = await deleteSome(session, DROPS, [generation, droppedTo]);
    if (dropped === 0) this.done.set(generation, droppedTo);
    return dropped;
  }
}
