/** The windows of a promotion, and the local days of a zone (docs/rules.md, P3). */

import { DAY_MS, dayOf, dayText, type TimeZone } from '../lib/time-zone';
import type { Repetition } from './definition';
import { WEEKDAYS } from './definition';

/** A range of time: its first instant counts, its end does not. Microseconds since 1970; null: no bound. */
export interface PromotionWindow {
  /** Unique within the promotion: the local day on which it begins, or ONLY_WINDOW. */
  readonly key: string;
  readonly startsAt: bigint | null;
  readonly endsAt: bigint | null;
}

/** The key of the one window of a promotion that does not repeat. */
export const ONLY_WINDOW = 'once';

/** The begin of a window without a bound: earlier than every instant. */
export const BEFORE_ALL = -(2n ** 62n);

export interface Calendar {
  /** The window that contains an instant. Windows do not overlap. */
  at(micros: bigint): PromotionWindow | undefined;
  /** The first instant that counts; null: no bound. */
  readonly from: bigint | null;
}

/** The windows that contain an instant of a range, in order. A store can keep them as rows. */
export function* windowsBetween(calendar: Calendar, from: bigint, to: bigint): Generator<PromotionWindow> {
  let at: bigint | null = calendar.from !== null && calendar.from > from ? calendar.from : from;
  while (at !== null && at < to) {
    const window = calendar.at(at);
    if (window === undefined) return;
    yield window;
    at = window.endsAt;
  }
}

const MICROS_PER_MS = 1000n;
/** 1970-01-01 was a Thursday. */
const FIRST_WEEKDAY = 3;

/** @param zone of the local days; needed where the windows repeat */
export function makeCalendar(
  from: bigint | null,
  to: bigint | null,
  repetition: Repetition | undefined,
  zone: TimeZone | undefined,
): Calendar {
  const isInside = (micros: bigint) => (from === null || micros >= from) && (to === null || micros < to);
  if (repetition === undefined) {
    const only = { key: ONLY_WINDOW, startsAt: from, endsAt: to };
    return { from, at: (micros) => (isInside(micros) ? only : undefined) };
  }
  if (zone === undefined) throw new RangeError('a window that repeats needs a time zone');
  const periods = new Periods(repetition, zone, from, to);
  return { from, at: (micros) => (isInside(micros) ? periods.at(micros) : undefined) };
}

/** Finds the local day of an instant. */
export function makeLocalDays(zone: TimeZone): (micros: bigint) => string {
  const days = new Periods({ every: 'day' }, zone, null, null);
  return (micros) => days.at(micros).key;
}

class Periods {
  private readonly known = new Map<number, PromotionWindow>();
  /** The window of the last call. Most events come in the order of time. */
  private last: PromotionWindow | undefined;

  constructor(
    private readonly repetition: Repetition,
    private readonly zone: TimeZone,
    private readonly from: bigint | null,
    private readonly to: bigint | null,
  ) {}

  at(micros: bigint): PromotionWindow {
    if (this.last !== undefined && contains(this.last, micros)) return this.last;
    const day = dayOf(this.zone.localOf(Math.floor(Number(micros) / 1000)));
    // Where clocks go back over midnight, they show the old day once more. The new day has begun already.
    let found = this.beginningOn(this.firstDayOf(day));
    if (!contains(found, micros)) found = this.beginningOn(this.firstDayAfter(this.firstDayOf(day)));
    this.last = found;
    return found;
  }

  private beginningOn(first: number): PromotionWindow {
    let found = this.known.get(first);
    if (found === undefined) {
      const [startsAt, endsAt] = [first, this.firstDayAfter(first)].map(
        (day) => BigInt(this.zone.firstInstantOf(day * DAY_MS)) * MICROS_PER_MS,
      );
      found = {
        key: dayText(first),
        startsAt: later(startsAt ?? null, this.from),
        endsAt: earlier(endsAt ?? null, this.to),
      };
      this.known.set(first, found);
    }
    return found;
  }

  private firstDayOf(day: number): number {
    const { repetition } = this;
    if (repetition.every === 'day') return day;
    if (repetition.every === 'week') {
      const since = day + FIRST_WEEKDAY - WEEKDAYS.indexOf(repetition.starts);
      return day - (((since % 7) + 7) % 7);
    }
    const date = new Date(day * DAY_MS);
    const months = date.getUTCDate() < repetition.starts ? -1 : 0;
    return inMonth(date, months, repetition.starts);
  }

  private firstDayAfter(first: number): number {
    const { repetition } = this;
    if (repetition.every === 'day') return first + 1;
    if (repetition.every === 'week') return first + 7;
    return inMonth(new Date(first * DAY_MS), 1, repetition.starts);
  }
}

/** The number of a day of the month that is `months` after a date. */
function inMonth(date: Date, months: number, dayOfMonth: number): number {
  const found = new Date(date);
  found.setUTCFullYear(date.getUTCFullYear(), date.getUTCMonth() + months, dayOfMonth);
  return dayOf(found.getTime());
}

function contains({ startsAt, endsAt }: PromotionWindow, micros: bigint): boolean {
  return (startsAt === null || micros >= startsAt) && (endsAt === null || micros < endsAt);
}

/** The later of two times; null: no bound. */
export function later(a: bigint | null, b: bigint | null): bigint | null {
  return a === null || (b !== null && b > a) ? b : a;
}

/** The earlier of two times; null: no bound. */
export function earlier(a: bigint | null, b: bigint | null): bigint | null {
  return a === null || (b !== null && b < a) ? b : a;
}
