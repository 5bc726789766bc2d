/**
 * The parts in which a slice is read. Memory holds the rows of two parts at most, and all progress that the
 * slice changes. The slice ends early where that becomes too much.
 */
import type { Slice } from '../fold/fold';
import { BATCH_NUMBERS } from '../fold/statements';
import type { Session, Statement } from '../postgres/transaction';
import type { CountedRow } from './credits';
import type { CountedSlice } from './slice';
import type { SliceRows } from './slice-rows';
import { finiteMicrosOf } from './times';

/** Verdicts behind those of the part before. */
export interface SlicePart extends Slice {
  readonly rows: number;
  /** The latest time of them, as Postgres writes it and in microseconds since 1970; null: there are none. */
  readonly newestAt: string | null;
  readonly latest: bigint | null;
}

/** What memory holds of a slice. */
export interface SliceLimits {
  /** A part has so many verdicts, and the rest of its last batch. */
  readonly partRows: number;
  /** No further part is read where so much progress is in memory. */
  readonly progress: number;
}

/** A filter of history leads to some 6,000 rows, which are read as a whole. */
export const SLICE_LIMITS: SliceLimits = { partRows: 8_000, progress: 100_000 };

/** Batches may have one verdict, or thousands. */
const PARTS: Statement = {
  name: 'promotions_parts',
  text: `select max(batch), sum(rows), max(newest_at), ${finiteMicrosOf('max(newest_at)')} from (
  select b.*, (sum(rows) over (order by batch) - 1)::bigint / $4::int as part from (
    select verdict_id / ${BATCH_NUMBERS} as batch, count(*) as rows, max(decided_at) as newest_at from promo_store.history
    where verdict_id > $1::bigint and verdict_id <= $2::bigint and decided_at >= $3::timestamptz group by 1
  ) b
) p group by part order by part`,
};

/** @returns at least one part. Attributions have numbers, too, so the parts have all numbers of the slice. */
export async function readParts(
  session: Session,
  slice: Slice,
  { partRows }: SliceLimits,
): Promise<SlicePart[]> {
  const found = await session.query(PARTS, [slice.after, slice.upTo, slice.since, partRows]);
  if (found.length === 0) return [{ ...slice, rows: 0, newestAt: null, latest: null }];
  let { after } = slice;
  return found.map(([batch, rows, newestAt = null, latest], place) => {
    const isLast = place === found.length - 1;
    const upTo = isLast ? slice.upTo : (Number(batch) + 1) * BATCH_NUMBERS - 1;
    const part = { ...slice, after, upTo, rows: Number(rows), newestAt, latest: BigInt(latest ?? 0) };
    after = upTo;
    return part;
  });
}

/** The rows of a part, by pages. */
export type ReadPages = (part: SlicePart) => AsyncGenerator<readonly CountedRow[]>;

/**
 * Counts parts, in the order of their numbers. The store reads a part and looks up the progress of the part
 * before it, while this process counts.
 *
 * @returns the parts that are counted: at least one
 */
export async function countParts(
  slice: CountedSlice,
  rowsOfSlice: SliceRows,
  parts: readonly SlicePart[],
  limits: SliceLimits,
  readPages: ReadPages,
): Promise<readonly SlicePart[]> {
  let begunParts = 0;
  const read = () => {
    const part = rowsOfSlice.counting.found.length < limits.progress ? parts[begunParts] : undefined;
    if (part === undefined) return null;
    begunParts++;
    return begun(readPages(part));
  };
  let prepared: Promise<() => void> = Promise.resolve(() => {});
  for (let pages = read(); pages !== null; ) {
    const following = read();
    const rows = await rowsOfSlice.match(pages);
    const count = await prepared;
    count();
    prepared = slice.prepareRows(rows);
    // Its failure is met in the next round.
    prepared.catch(() => {});
    pages = following;
  }
  const count = await prepared;
  count();
  return parts.slice(0, begunParts);
}

/** Begins to read the first page at once. @returns all pages */
function begun<T>(pages: AsyncGenerator<T>): AsyncIterable<T> {
  const first = pages.next();
  // The reader of the pages meets its failure.
  first.catch(() => {});
  return {
    async *[Symbol.asyncIterator]() {
      const { value, done } = await first;
      if (done === true) return;
      yield value;
      yield* pages;
    },
  };
}
