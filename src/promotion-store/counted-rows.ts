/** The rows of a slice that may change progress, each with the player to whom it is credited. */
import type { Reader, Statement } from '../postgres/transaction';
import { later } from '../promotions/calendar';
import { Attributions } from './attributions';
import type { CountedRow, LedgerRow } from './ledger-columns';
import { LedgerReader, type LedgerReading, type MeasuredSlice, readRefunds } from './ledger-rows';
import type { ReversedSum } from './reversed-sums';

const HAS_ATTRIBUTIONS: Statement = {
  name: 'promotions_has_attributions',
  text: `select exists (select from promo_store.attributions a join promo_store.feeds f using (feed_no) where f.operator_id = any($1::text[]))`,
};
/** The rows of a slice that may change progress. Read all sums, then all reversals, and then all entries. */
export interface CountedRows {
  /** The latest time of refunds and of changes of attributions; null: there are none. */
  readonly newestChange: bigint | null;
  /** The sums that refunds take back, in no order. */
  readonly reversedSums: AsyncIterable<readonly ReversedSum[]>;
  /** The reversals of refunds, in no order. */
  readonly reversals: AsyncIterable<readonly CountedRow[]>;
  /**
   * Entries, and those that an attribution moves, player by player. Those of a player come in the order of
   * their numbers.
   */
  readonly entries: AsyncIterable<readonly CountedRow[]>;
}

/** Sums entries of large rounds. */
export interface EntrySums {
  /** @param large the numbers of the rounds that the reading records as large. @returns the same pages */
  passing(pages: AsyncIterable<LedgerRow[]>, large: ReadonlySet<string>): AsyncIterable<LedgerRow[]>;
}

export interface CountedReading extends Omit<LedgerReading, 'isAttributed'> {
  /** Null: no entries are summed. */
  readonly sums: EntrySums | null;
}

export async function readCountedRows(
  session: Reader,
  slice: MeasuredSlice,
  { sums, ...reading }: CountedReading,
): Promise<CountedRows> {
  const { scope } = reading;
  const [[attributed], refunds] = await Promise.all([
    session.query(HAS_ATTRIBUTIONS, [scope.operatorIds]),
    readRefunds(session, slice, scope),
  ]);
  const isAttributed = attributed?.[0] === 't';
  const moves = isAttributed ? await new Attributions(slice.upTo).readMoves(session, slice, scope) : [];
  let newestChange: bigint | null = null;
  for (const { at } of [...refunds, ...moves]) newestChange = later(newestChange, BigInt(at));
  const reader = new LedgerReader(session, slice, { ...reading, isAttributed });
  const rows = reader.entries();
  const large = await reader.record();
  const entries = sums === null ? rows : sums.passing(rows, large);
  return {
    newestChange,
    reversedSums: reader.reversedSums(refunds),
    reversals: countedRowsOf(reader.reversals(refunds)),
    entries: withMoves(countedRowsOf(entries), moves),
  };
}

async function* countedRowsOf(pages: AsyncIterable<readonly LedgerRow[]>): AsyncGenerator<CountedRow[]> {
  for await (const page of pages) yield page.map(countedRowOf);
}

function countedRowOf({ entry, creditedTo }: LedgerRow): CountedRow {
  const { changeNo, enteredAt: at } = entry;
  return { changeNo, at, matchedAt: at, entry, playerRef: creditedTo ?? entry.playerRef, sign: 1n };
}

/** Adds moves to the rows of their players, in the order of their numbers. */
async function* withMoves(
  pages: AsyncIterable<readonly CountedRow[]>,
  moves: readonly CountedRow[],
): AsyncGenerator<readonly CountedRow[]> {
  if (moves.length === 0) return yield* pages;
  const waiting = Map.groupBy(
    [...moves].sort((a, b) => a.changeNo - b.changeNo),
    ({ playerRef }) => playerRef,
  );
  let player = '';
  const takeOf = (playerRef: string, before: number): CountedRow[] => {
    const ofPlayer = waiting.get(playerRef);
    if (ofPlayer === undefined) return [];
    const end = ofPlayer.findIndex(({ changeNo }) => changeNo >= before);
    return ofPlayer.splice(0, end === -1 ? ofPlayer.length : end);
  };
  for await (const page of pages) {
    const rows: CountedRow[] = [];
    for (const row of page) {
      if (row.playerRef !== player) rows.push(...takeOf(player, Number.POSITIVE_INFINITY));
      player = row.playerRef;
      rows.push(...takeOf(player, row.changeNo), row);
    }
    yield rows;
  }
  yield [...takeOf(player, Number.POSITIVE_INFINITY), ...[...waiting.values()].flat()];
}
