/**
 * A fold gives way to the intake. Both need the CPU of one Postgres, and results may be late where events may
 * not. So while most events wait long in Kafka, the fold works for a tenth of the time.
 *
 * It gives way for five minutes at most: a Postgres that is always too small must not stop its results.
 */
import type { Session } from '../postgres/transaction';
import { BATCH_NUMBERS, MOST_WAITED } from './statements';

/** The work of fewer verdicts is too short to be in the way. */
const LEAST_ROWS = 1_000;
/** The last numbers of a slice have the events that were decided before it began. */
const LATEST_NUMBERS = 4 * BATCH_NUMBERS;
/** An event waits for less, unless the intake is behind. */
const WAITED_MS = 2_000;
/** Verdicts that are older do not count: results are as late as they may be. */
const GIVES_WAY = '5 minutes';

const RESTS_A_SLICE = 9;
/** After a crash in a rest, another process waits for it. */
const MOST_REST_MS = 15_000;

export interface AddedRange {
  readonly after: number;
  readonly upTo: number;
  /** No verdict of the slice was decided before this time. */
  readonly since: string;
  readonly rows: number;
}

/** Whether most of the latest verdicts of a slice waited long in Kafka, and are from the last minutes. */
export async function isIntakeBehind(
  session: Session,
  { after, upTo, since, rows }: AddedRange,
): Promise<boolean> {
  if (rows < LEAST_ROWS) return false;
  const range = [Math.max(after, upTo - LATEST_NUMBERS), upTo, since];
  const [[waited] = []] = await session.query(MOST_WAITED, [...range, WAITED_MS, GIVES_WAY]);
  return waited === 't';
}

/** For how long the intake has the CPU alone after a slice. @param ms the time of the slice */
export const restAfter = (ms: number): number => Math.min(MOST_REST_MS, ms * RESTS_A_SLICE);
