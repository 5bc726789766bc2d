/** How many batches the next slice spans, so that a slice has a bounded number of rows and a bounded time. */

export interface Folded {
  /** Batches that the slice spanned. */
  readonly batches: number;
  /** Verdicts in it. */
  readonly rows: number;
  readonly ms: number;
}

/** A batch has up to 8,000 verdicts, so even the first slices are small. */
export const FIRST_SPAN = 16;
const MAX_SPAN = 2 ** 40;
/** The next span is at most this many times the last one, and at least this part of it. */
const MAX_STEP = 4;

export interface SpanGoal {
  readonly rows: number;
  readonly ms: number;
}

export function nextSpan({ batches, rows, ms }: Folded, goal: SpanGoal): number {
  const fits = Math.min(goal.rows / Math.max(rows, 1), goal.ms / Math.max(ms, 1));
  const step = Math.min(MAX_STEP, Math.max(1 / MAX_STEP, fits));
  return Math.min(MAX_SPAN, Math.max(1, Math.floor(batches * step)));
}

/** The span after a slice that the store did not finish in time. */
export const spanAfterFailure = (batches: number): number => Math.max(1, Math.floor(batches / MAX_STEP ** 2));
