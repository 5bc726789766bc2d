/** The rows of the ledger that a slice of promotions reads (docs/rules.md, P1, P11). */
import { kindCode } from '../domain/event/event';
import type { Slice } from '../fold/fold';
import { BATCH_NUMBERS } from '../fold/statements';
import { declared, pagesOf } from '../postgres/pages';
import type { Row } from '../postgres/pipeline';
import type { Reader, Statement } from '../postgres/transaction';
import type { CountedKind } from '../promotions/terms';
import {
  CREDITED,
  columnsOf,
  ENTRIES_OF_SLICE,
  ENTRY,
  ENTRY_COLUMNS,
  ENTRY_NAMES,
  type LedgerRow,
  ledgerRowOf,
  REFUNDS,
  type Refund,
  VERDICTS_OF_SLICE,
} from './ledger-columns';
import { byHash } from './plans';
import { type ReversedSum, reversedSums } from './reversed-sums';
import { isRecorded, type RoundRecords, recordRounds } from './round-records';
import { finiteMicrosOf } from './times';

/** The events that the promotions of a store may count. */
export interface CountedScope {
  readonly operatorIds: readonly string[];
  readonly kinds: readonly CountedKind[];
}

/** A slice, and how many verdicts it has. */
export type MeasuredSlice = Slice & { readonly rows: number };

/** The refunds that are the first of their rounds: each takes back what came before. */
const READ_REFUNDS: Statement = {
  name: 'promotions_read_refunds',
  text: `select h.verdict_id, ${finiteMicrosOf('coalesce(x.refunded_at, x.opened_at)')}, x.round_no, x.opened_at >= $3::timestamptz
from (select h.verdict_id, h.round_no, h.event_id from promo_store.history h
  where ${VERDICTS_OF_SLICE} and h.kind = 4 and h.outcome = 0 offset 0) h
cross join lateral (select * from promo_store.refunds x where x.round_no = h.round_no and x.refunded_by = h.event_id offset 0) x`,
};

/** A scan of rows of the ledger. The look-up of credits for each row takes time, so few scans have it. */
interface LedgerScan {
  readonly plain: Statement;
  readonly credited: Statement;
}

/**
 * @param rows a query of the columns change_no, entered_at and those of an entry
 * @param order of its rows `h`, by the columns of the query and by credited_to
 */
function scanOf(name: string, rows: string, order = ''): LedgerScan {
  const text = (creditedTo: string) => `select h.change_no, h.entered_at, h.credited_to, ${ENTRY}
from (select h.*, ${creditedTo} as credited_to from (${rows}) h offset 0) h
${ENTRY_NAMES}
${order}`;
  return {
    plain: declared({ name, text: text('null::text') }),
    credited: declared({ name: `${name}_credited`, text: text(`(${CREDITED})`) }),
  };
}

/** All entries of one player follow one another, so that memory holds the progress of few players. */
const READ = scanOf(
  'promotions_read',
  `select null::bigint as change_no, null::bigint as entered_at, ${ENTRY_COLUMNS} from promo_store.history h where ${ENTRIES_OF_SLICE}`,
  'order by coalesce(h.credited_to, h.player_ref) collate "C", h.verdict_id',
);

const REVERSAL = `w.change_no, w.entered_at, ${ENTRY_COLUMNS}`;
/** Entries of a round were decided within a day of its opening and its refund. */
const OF_ROUND = `h.decided_at >= x.opened_at - interval '1 day' and h.decided_at <= coalesce(x.refunded_at, 'infinity') + interval '1 day'`;
/**
 * Reversals whose entries are recorded, but for entries that slices up to $5 have summed (round-sums.ts). The
 * slice itself has not summed its entries yet. An entry that is at its place no longer is searched for: that
 * reads some pages of history. Those of dropped months are gone.
 */
const READ_RECORDED = scanOf(
  'promotions_read_recorded',
  `select w.change_no, w.entered_at, e.* from ${REFUNDS}
cross join lateral (select * from promo_store.promotion_rounds r where r.generation = $4 and r.round_no = w.round_no
  and (not r.is_summed or r.last_no > $5::bigint) offset 0) r
cross join lateral unnest(r.verdict_ids, r.places) p (verdict_no, place)
left join lateral (select ${ENTRY_COLUMNS} from promo_store.history h where h.ctid = p.place and h.verdict_id = p.verdict_no offset 0) found on true
cross join lateral (
  select ${ENTRY_COLUMNS} from (select found.*) h where found.verdict_id is not null
  union all
  select ${ENTRY_COLUMNS} from promo_store.refunds x cross join lateral (
    select ${ENTRY_COLUMNS} from promo_store.history h where h.verdict_id = p.verdict_no and ${OF_ROUND} offset 0) h
  where found.verdict_id is null and x.round_no = w.round_no
) e`,
);
/**
 * Reversals of rounds that opened a moment before the slice, or in it. One scan finds all of them: entries of
 * a round have higher numbers than the batch before it.
 */
const READ_NEAR = scanOf(
  'promotions_read_near',
  `select ${REVERSAL} from ${REFUNDS} join promo_store.history h on h.round_no = w.round_no
where h.verdict_id > $4::bigint and h.verdict_id <= $5::bigint and h.decided_at >= $6::timestamptz and h.counted and h.kind = any($7::smallint[])`,
);
/** Reversals of rounds that opened long ago, found as the rollups find them. */
const READ_FAR = scanOf(
  'promotions_read_far',
  `select ${REVERSAL} from ${REFUNDS}
cross join lateral (select * from promo_store.refunds x where x.round_no = w.round_no offset 0) x
cross join lateral (select ${ENTRY_COLUMNS}, h.counted from promo_store.history h where h.round_no = x.round_no and ${OF_ROUND} offset 0) h
where h.counted and h.kind = any($4::smallint[])`,
);

/** Entries of rounds up to a number. The rounds of attributions are few, and of any age. */
const READ_ROUNDS: Statement = {
  name: 'promotions_read_rounds',
  text: `select null, null, null, ${ENTRY}
from unnest($1::bigint[]) w (round_no)
join promo_store.rounds r on r.round_no = w.round_no
cross join lateral (select * from (select ${ENTRY_COLUMNS}, h.counted from promo_store.history h
    where h.round_no = r.round_no and h.decided_at >= r.opened_at - interval '1 day' offset 0) h
  where h.counted and h.kind = any($2::smallint[]) and h.verdict_id <= $3::bigint) h
${ENTRY_NAMES}`,
};

/** A look-up of an old round takes as long as a scan of so many rows. */
const ROWS_OF_LOOK_UP = 4_000;

/** The refunds of a slice that are the first of their rounds. */
export async function readRefunds(
  session: Reader,
  { after, upTo, since, isInOrder }: Slice,
  { operatorIds }: CountedScope,
): Promise<Refund[]> {
  const rows = await session.query(READ_REFUNDS, [after, upTo, since, operatorIds]);
  return rows.map(([changeNo, at, roundNo, isRecent]) => ({
    changeNo: Number(changeNo),
    at: at ?? '0',
    roundNo: roundNo ?? '',
    opensAfter:
      isInOrder && isRecent === 't' ? Math.floor(Number(roundNo) / BATCH_NUMBERS) * BATCH_NUMBERS - 1 : null,
  }));
}

export interface LedgerReading {
  readonly scope: CountedScope;
  /** Null: refunds find the entries of their rounds in history alone. */
  readonly records: RoundRecords | null;
  /** Whether rounds may be credited to other players. */
  readonly isAttributed: boolean;
  /** The store is asked for so many entries at once. */
  readonly pageRows?: number;
  /** Reads the entries while the session works; absent: the session reads them. */
  readonly beside?: Reader | undefined;
}

/** The rows of the ledger that a slice reads. A transaction has one scan at a time. */
export class LedgerReader {
  constructor(
    private readonly session: Reader,
    private readonly slice: MeasuredSlice,
    private readonly reading: LedgerReading,
  ) {}

  /**
   * The entries of the slice, player by player. Those of a player come in the order of their numbers. A
   * connection beside the session begins to read at once.
   */
  entries(): AsyncGenerator<LedgerRow[]> {
    const { beside, pageRows } = this.reading;
    const values = this.valuesOfEntries();
    const readBy = (reader: Reader) =>
      this.pages(READ, (statement) => byHash(reader, statement, values), { reader, pageRows });
    return beside === undefined ? inTurn(() => readBy(this.session)) : readBy(beside);
  }

  /**
   * The reversals of refunds, also of entries of the slice itself, in no order. The slice is recorded before.
   *
   * @param refunds those of `readRefunds`
   */
  async *reversals(refunds: readonly Refund[]): AsyncGenerator<LedgerRow[]> {
    const { session, slice } = this;
    const { records, scope } = this.reading;
    const { after, upTo, since, rows } = slice;
    const kinds = scope.kinds.map(kindCode);
    const recorded = refunds.filter((refund) => isRecorded(records, refund, slice));
    const others = refunds.filter((refund) => !isRecorded(records, refund, slice));
    const low = lowOfScan(others, after, rows / (upTo - after));
    const near = others.filter(({ opensAfter }) => opensAfter !== null && opensAfter >= low);
    const far = others.filter(({ opensAfter }) => opensAfter === null || opensAfter < low);
    if (records !== null && recorded.length > 0)
      yield* this.pages(READ_RECORDED, (statement) =>
        session.query(statement, [...columnsOf(recorded), records.generation, after]),
      );
    if (near.length > 0)
      yield* this.pages(READ_NEAR, (statement) =>
        byHash(session, statement, [...columnsOf(near), low, upTo, since, kinds]),
      );
    if (far.length > 0)
      yield* this.pages(READ_FAR, (statement) => session.query(statement, [...columnsOf(far), kinds]));
  }

  /** The sums that refunds take back. Reversals have none of the entries that are in them. */
  async *reversedSums(refunds: readonly Refund[]): AsyncGenerator<ReversedSum[]> {
    const { records, isAttributed } = this.reading;
    if (records === null) return;
    const recorded = refunds.filter((refund) => isRecorded(records, refund, this.slice));
    yield* reversedSums(this.session, records.generation, recorded, isAttributed);
  }

  /**
   * Records the entries of the slice, so that its refunds find them, too.
   *
   * @returns the numbers of the large rounds, whose entries are to be summed
   */
  async record(): Promise<ReadonlySet<string>> {
    const { records } = this.reading;
    return records === null ? new Set() : recordRounds(this.session, records, this.valuesOfEntries());
  }

  private valuesOfEntries(): unknown[] {
    const { after, upTo, since } = this.slice;
    const { operatorIds, kinds } = this.reading.scope;
    return [after, upTo, since, operatorIds, kinds.map(kindCode)];
  }

  private pages(
    scan: LedgerScan,
    begin: (statement: Statement) => Promise<unknown>,
    { reader = this.session, pageRows }: { reader?: Reader; pageRows?: number | undefined } = {},
  ): AsyncGenerator<LedgerRow[]> {
    const begun = begin(this.reading.isAttributed ? scan.credited : scan.plain);
    return ledgerRowsOf(pagesOf(reader, begun, pageRows));
  }
}

async function* ledgerRowsOf(pages: AsyncIterable<readonly Row[]>): AsyncGenerator<LedgerRow[]> {
  for await (const page of pages) yield page.map(ledgerRowOf);
}

/** Begins a scan with its first page: the scans of one connection follow one another. */
async function* inTurn<T>(begin: () => AsyncIterable<T>): AsyncGenerator<T> {
  yield* begin();
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
