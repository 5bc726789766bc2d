/**
 * A fold gives way to the intake. Both need the CPU of one Postgres, and results may be late where events may
 * not. So while most events wait long in Kafka, the fold works for a tenth of the time.
 *
 * It gives way for five minutes at most: a Postgres that is always too small must not stop its results.
 */
import type { Session } from '../postgres/transaction';
import type { SpanGoal } from './span';
import { BATCH_NUMBERS, MOST_WAITED } from './statements';

/** The work of fewer verdicts is too short to be in the way. */
const LEAST_ROWS = 1_000;
/** The latest numbers of the store have the events that were decided last. */
const LATEST_NUMBERS = 4 * BATCH_NUMBERS;
/** An event waits for less, unless the intake is behind. */
const WAITED_MS = 2_000;
/** An intake whose latest verdicts are older is idle, and needs no CPU. */
const DECIDED_WITHIN = '10 seconds';
/** A fold that is further behind no longer gives way. */
const GIVES_WAY = '5 minutes';

/** A longer slice would hold the intake up at a stretch, however long the rest after it is. */
const SLICE_MS = 200;
const RESTS_A_SLICE = 9;
/** After a crash in a rest, another process waits for it. */
const MOST_REST_MS = 15_000;

export interface AddedSlice {
  readonly rows: number;
  /** The time of its newest verdict, as Postgres prints it; null where it has none. */
  readonly newestAt: string | null;
  /** No verdict behind it was decided before this time. */
  readonly since: string;
}

/**
 * Whether most of the latest verdicts waited long in Kafka. The verdicts of the slice may be minutes older:
 * they show how the intake was then.
 *
 * @param horizon the newest number of the store
 */
export async function isIntakeBehind(
  session: Session,
  { rows, newestAt, since }: AddedSlice,
  horizon: number,
): Promise<boolean> {
  if (rows < LEAST_ROWS) return false;
  const latest = [horizon - LATEST_NUMBERS, horizon, since, DECIDED_WITHIN];
  const [[waited] = []] = await session.query(MOST_WAITED, [...latest, WAITED_MS, newestAt, GIVES_WAY]);
  return waited === 't';
}

/** For how long the intake has the CPU alone after a slice. @param ms the time of the slice */
export const restAfter = (ms: number): number => Math.min(MOST_REST_MS, ms * RESTS_A_SLICE);
/** The goal for a slice of a fold that gives way. */
export const goalGivingWay = ({ rows, ms }: SpanGoal): SpanGoal => ({ rows, ms: Math.min(ms, SLICE_MS) });
