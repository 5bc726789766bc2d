/** Where a slice of promotions ends. */
import type { Slice } from '../fold/fold';
import { BATCH_NUMBERS } from '../fold/statements';
import type { Session, Statement } from '../postgres/transaction';
import { closeOf } from '../promotions/board';
import { BEFORE_ALL, later } from '../promotions/calendar';
import type { CountedVersion } from './counted-versions';
import type { MeasuredSlice } from './ledger-rows';
import { finiteMicrosOf } from './times';

export interface SliceLimits {
  /** The store is asked for so many rows at once. Memory holds some pages of them. */
  readonly pageRows: number;
  /** A slice may end behind so many verdicts, or a multiple of them. */
  readonly stepRows: number;
  /** Rounds with more entries are large: a refund takes back sums of further entries (round-sums.ts). */
  readonly largeRound: number;
}

export const SLICE_LIMITS: SliceLimits = { pageRows: 500, stepRows: 8_000, largeRound: 1_000 };

/** Batches may have one verdict, or thousands. */
const STEPS: Statement = {
  name: 'promotions_steps',
  text: `select max(batch), sum(rows), max(newest_at), ${finiteMicrosOf('max(newest_at)')} from (
  select b.*, (sum(rows) over (order by batch) - 1)::bigint / $4::int as step from (
    select verdict_id / ${BATCH_NUMBERS} as batch, count(*) as rows, max(decided_at) as newest_at from promo_store.history
    where verdict_id > $1::bigint and verdict_id <= $2::bigint and decided_at >= $3::timestamptz group by 1
  ) b
) s group by step order by step`,
};

/** A slice as it is counted. */
export interface CutSlice extends MeasuredSlice {
  /** The latest time of its verdicts, as Postgres writes it and in microseconds since 1970. */
  readonly newestAt: string | null;
  readonly latest: bigint | null;
}

/**
 * Ends a slice before a leaderboard closes, unless it closes within the first verdicts. The rows of all
 * players of such a leaderboard are in memory at once.
 *
 * @param foldedTo the latest time of the slices before, in microseconds since 1970
 */
export async function cutSlice(
  session: Session,
  slice: Slice,
  versions: readonly CountedVersion[],
  foldedTo: bigint | null,
  { stepRows }: SliceLimits,
): Promise<CutSlice> {
  const found = await session.query(STEPS, [slice.after, slice.upTo, slice.since, stepRows]);
  let cut: CutSlice = { ...slice, rows: 0, newestAt: null, latest: null };
  let closesAt: bigint | null = null;
  for (const [place, [batch, rows, newestAt = null, micros]] of found.entries()) {
    const latest = BigInt(micros ?? 0);
    if (place === 0) closesAt = nextClose(versions, later(foldedTo, latest) ?? latest);
    else if (closesAt !== null && latest >= closesAt) return cut;
    const isLast = place === found.length - 1;
    // Attributions have numbers, too, so a whole slice has all of its numbers.
    const upTo = isLast ? slice.upTo : (Number(batch) + 1) * BATCH_NUMBERS - 1;
    const isNewer = latest > (cut.latest ?? BEFORE_ALL);
    cut = { ...cut, upTo, rows: cut.rows + Number(rows), ...(isNewer ? { newestAt, latest } : {}) };
  }
  return cut;
}

/** The first close of a leaderboard after a time; null: none closes. */
export function nextClose(versions: readonly CountedVersion[], after: bigint): bigint | null {
  let next: bigint | null = null;
  for (const version of versions) {
    const { calendar, acceptsLate } = version.promotion;
    const at = after - (acceptsLate ?? 0n);
    const window = calendar.at(calendar.from !== null && calendar.from > at ? calendar.from : at);
    const closesAt = window === undefined ? null : closeOf(version, window);
    if (closesAt !== null && (next === null || closesAt < next)) next = closesAt;
  }
  return next;
}
