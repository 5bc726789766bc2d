/** The parts of the report of `status`: a server that does not answer leaves its own part unknown. */
import { explainShortly } from '../../cli/explain-error';
import { inTime, LATE, systemClock } from '../../lib/clock';

/** Time limit of one query to the store or to Kafka. */
export const PART_WITHIN_MS = 15_000;
/** Node fires a timer with a longer delay at once. */
const MAX_TIMER_MS = 2 ** 31 - 1;

/** A part of the status, or the reason why it is unknown. */
export type ReportPart<T> = { readonly value: T } | { readonly unknown: string };

export type OrUnknown<T> = T | { readonly unknown: string };

export async function part<T>(work: () => Promise<T>, withinMs = PART_WITHIN_MS): Promise<ReportPart<T>> {
  try {
    const value = await inTime(systemClock, work(), Math.min(withinMs, MAX_TIMER_MS));
    return value === LATE ? { unknown: `no answer within ${withinMs / 1000} s` } : { value };
  } catch (error) {
    return { unknown: explainShortly(error) };
  }
}

export const valueIn = <T>(part: ReportPart<T>): T | undefined => ('value' in part ? part.value : undefined);

export function mapPart<T, R>(part: ReportPart<T>, map: (value: T) => R): OrUnknown<R> {
  return 'value' in part ? map(part.value) : part;
}

/** @returns null where the part was not asked, or where the store has none */
export function mapIfAny<T, R>(
  part: ReportPart<T | null> | undefined,
  map: (value: T) => R,
): OrUnknown<R | null> | null {
  return part === undefined ? null : mapPart(part, (value) => (value === null ? null : map(value)));
}
