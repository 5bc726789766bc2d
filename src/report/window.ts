/** The time that a report covers, and its division into buckets. Pure. */
import { DAY_MS, dayOf, dayText, type TimeZone } from '../lib/time-zone';

/** The range cannot be reported. The message is a complete sentence, and names the remedy. */
export class UnusableRange extends Error {
  override readonly name = 'UnusableRange';
}

export const HOUR_MS = 3_600_000;
const MINUTE_MS = 60_000;
/** Days before today in a report that names no begin. */
const DAYS_BY_DEFAULT = 29;
const MOST_DAYS = 1_100;
/** More bars would be thinner than the gaps between them. */
const MOST_BUCKETS = 100;
const MOST_TICKS = 9;

const FIXED_MS = [
  ...[1_000, 5_000, 15_000, MINUTE_MS, 5 * MINUTE_MS, 15 * MINUTE_MS],
  ...[HOUR_MS, 3 * HOUR_MS, 6 * HOUR_MS],
] as const;
const CALENDAR = [
  { step: 'day', days: 1 },
  { step: 'week', days: 7 },
  { step: 'month', days: 30 },
] as const;
type CalendarStep = (typeof CALENDAR)[number]['step'];
export type BucketStep = (typeof FIXED_MS)[number] | CalendarStep;

export interface Buckets {
  readonly step: BucketStep;
  /** The begin of each bucket, and the end of the last one. */
  readonly edges: readonly number[];
  readonly zone: TimeZone;
}

/** Milliseconds since 1970. The end is not included. */
export interface ReportSpan {
  readonly from: number;
  readonly to: number;
}

/** @param now the time of the store. A report ends there at the latest. @throws UnusableRange */
export function spanOf(wanted: Partial<ReportSpan>, zone: TimeZone, now: number): ReportSpan {
  const to = Math.min(wanted.to ?? now, now);
  const today = dayOf(zone.localOf(to - 1));
  const from = wanted.from ?? zone.firstInstantOf((today - DAYS_BY_DEFAULT) * DAY_MS);
  if (from >= now) throw new UnusableRange('The range begins in the future. Choose an earlier --from.');
  if (from >= to) throw new UnusableRange('The range ends before it begins. Choose an earlier --from.');
  if (to - from > MOST_DAYS * DAY_MS)
    throw new UnusableRange(`The range has more than ${MOST_DAYS} days. Choose a later --from.`);
  return { from, to };
}

/** Buckets of the shortest step that leaves few enough. */
export function divide({ from, to }: ReportSpan, zone: TimeZone): Buckets {
  const step = FIXED_MS.find((ms) => (to - from) / ms <= MOST_BUCKETS);
  if (step === undefined) return divideByDays({ from, to }, zone);
  return { step, zone, edges: [from, ...aligned({ from, to }, step, zone), to] };
}

/** The same, where a day is the shortest step. */
export function divideByDays({ from, to }: ReportSpan, zone: TimeZone): Buckets {
  const days = (to - from) / DAY_MS;
  const { step } = CALENDAR.find((each) => days / each.days <= MOST_BUCKETS) ?? CALENDAR[2];
  return { step, zone, edges: [from, ...calendarEdges({ from, to }, step, zone), to] };
}

/** Instants within the span whose local time is a multiple of the step. */
function aligned({ from, to }: ReportSpan, step: number, zone: TimeZone): number[] {
  const offset = zone.localOf(from) - from;
  const found: number[] = [];
  for (let at = (Math.floor((from + offset) / step) + 1) * step - offset; at < to; at += step) found.push(at);
  return found;
}

function calendarEdges({ from, to }: ReportSpan, step: CalendarStep, zone: TimeZone): number[] {
  const found: number[] = [];
  for (let day = dayOf(zone.localOf(from)) + 1; ; day++) {
    if (!begins(day, step)) continue;
    const at = zone.firstInstantOf(day * DAY_MS);
    if (at >= to) return found;
    if (at > from) found.push(at);
  }
}

function begins(day: number, step: CalendarStep): boolean {
  const date = new Date(day * DAY_MS);
  if (step === 'month') return date.getUTCDate() === 1;
  return step === 'day' || date.getUTCDay() === 1;
}

/** The same dates in another zone. @param now the end of a range that goes up to now */
export function sameDates(
  { from, to }: ReportSpan,
  zone: TimeZone,
  other: TimeZone,
  now: number,
): ReportSpan {
  const [first, last] = [dayOf(zone.localOf(from)), dayOf(zone.localOf(to - 1))];
  const begin = other.firstInstantOf(first * DAY_MS);
  const end = Math.min(other.firstInstantOf((last + 1) * DAY_MS), now);
  return { from: begin, to: Math.max(end, begin + 1) };
}

// --- texts

const MONTHS = ['Jan', 'Feb', 'Mar', 'Apr', 'May', 'Jun', 'Jul', 'Aug', 'Sep', 'Oct', 'Nov', 'Dec'] as const;

/** "2026-11-01", or "2026-11-01 06:00" where a bucket is shorter than a day. */
export function bucketText({ step, zone }: Pick<Buckets, 'step' | 'zone'>, at: number): string {
  if (typeof step === 'string') return dayText(dayOf(zone.localOf(at)));
  const text = new Date(zone.localOf(at)).toISOString().replace('T', ' ');
  return text.slice(0, step < MINUTE_MS ? 19 : 16);
}

/** "1 Nov 2026, 14:30"; without the time at the begin of a day. */
export function momentText(zone: TimeZone, at: number): string {
  const local = new Date(zone.localOf(at));
  const date = `${local.getUTCDate()} ${MONTHS[local.getUTCMonth()]} ${local.getUTCFullYear()}`;
  const time = local.toISOString().slice(11, 16);
  return time === '00:00' ? date : `${date}, ${time}`;
}

/** A few marks below an axis. */
export function ticksOf(buckets: Buckets): { readonly at: number; readonly text: string }[] {
  const { step, edges, zone } = buckets;
  const [from, to] = [edges[0] ?? 0, edges.at(-1) ?? 0];
  const begins = edges.slice(0, -1);
  if (typeof step === 'string') {
    const stride = Math.ceil(begins.length / MOST_TICKS);
    return begins
      .filter((_, index) => index % stride === 0)
      .map((at) => ({ at, text: tickDate(zone, at, step) }));
  }
  const strides = [1, 5, 15, 30, 60, 300, 600, 900, 1_800, 3_600, 10_800, 21_600, 43_200, 86_400, 172_800];
  const stride = strides.map((seconds) => seconds * 1_000).find((ms) => (to - from) / ms <= MOST_TICKS);
  const starts = aligned({ from: from - 1, to }, stride ?? 2 * DAY_MS, zone);
  return starts.map((at) => ({ at, text: tickTime(zone, at, step) }));
}

function tickDate(zone: TimeZone, at: number, step: CalendarStep): string {
  const local = new Date(zone.localOf(at));
  const month = MONTHS[local.getUTCMonth()];
  return step === 'month' ? `${month} ${local.getUTCFullYear()}` : `${local.getUTCDate()} ${month}`;
}

function tickTime(zone: TimeZone, at: number, step: number): string {
  const time = new Date(zone.localOf(at)).toISOString().slice(11, step < MINUTE_MS ? 19 : 16);
  return /^00:00(:00)?$/.test(time) ? tickDate(zone, at, 'day') : time;
}

/** The step of this text. @throws RangeError for a text that no step has */
export function stepOf(text: string): BucketStep {
  const found = [...FIXED_MS, ...CALENDAR.map(({ step }) => step)].find((each) => stepText(each) === text);
  if (found === undefined) throw new RangeError(`no step: ${text}`);
  return found;
}

/** "day", "3 hours" */
export function stepText(step: BucketStep): string {
  if (typeof step === 'string') return step;
  const [count, unit] =
    step >= HOUR_MS
      ? [step / HOUR_MS, 'hour']
      : step >= MINUTE_MS
        ? [step / MINUTE_MS, 'minute']
        : [step / 1_000, 'second'];
  return count === 1 ? unit : `${count} ${unit}s`;
}
