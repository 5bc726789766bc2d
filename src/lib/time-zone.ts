/**
 * Local times of IANA time zones, by the rules that Node.js brings (docs/rules.md, P3, P4).
 *
 * A local time is written as the milliseconds that it would be in UTC. So arithmetic on it knows no zone.
 */

export const DAY_MS = 86_400_000;

/** Two local times that a zone skips or repeats lie within this distance of the change of its offset. */
const AROUND_MS = DAY_MS;

export class TimeZone {
  private readonly format: Intl.DateTimeFormat;

  /** @throws RangeError for a name that `isTimeZone` refuses */
  constructor(readonly name: string) {
    this.format = new Intl.DateTimeFormat('en-US', {
      timeZone: name,
      calendar: 'gregory',
      numberingSystem: 'latn',
      hourCycle: 'h23',
      era: 'short',
      year: 'numeric',
      month: 'numeric',
      day: 'numeric',
      hour: 'numeric',
      minute: 'numeric',
      second: 'numeric',
    });
  }

  /** The local time of an instant. @param instantMs whole seconds are enough: offsets have no fractions */
  localOf(instantMs: number): number {
    const parts = new Map(this.format.formatToParts(instantMs).map(({ type, value }) => [type, value]));
    const part = (type: Intl.DateTimeFormatPartTypes) => Number(parts.get(type));
    const year = parts.get('era')?.startsWith('B') ? 1 - part('year') : part('year');
    // Date.UTC takes the years 0 to 99 for 1900 to 1999.
    const date = new Date(0);
    date.setUTCFullYear(year, part('month') - 1, part('day'));
    date.setUTCHours(part('hour'), part('minute'), part('second'));
    return date.getTime() + (((instantMs % 1000) + 1000) % 1000);
  }

  /** The instants at which the zone's clocks show a local time: none, one or two, the earlier first. */
  instantsOf(localMs: number): number[] {
    const offsets = new Set([-AROUND_MS, AROUND_MS].map((distance) => this.offsetAt(localMs + distance)));
    return [...offsets]
      .map((offset) => localMs - offset)
      .filter((instant) => this.localOf(instant) === localMs)
      .sort((a, b) => a - b);
  }

  /** The first instant at which the zone's clocks show a local time, or skip it. */
  firstInstantOf(localMs: number): number {
    const [first] = this.instantsOf(localMs);
    if (first !== undefined) return first;
    let before = localMs - AROUND_MS;
    let after = localMs + AROUND_MS;
    // The clocks skip the local time, so they change once between these instants.
    while (after - before > 1000) {
      const middle = Math.floor((before + after) / 2000) * 1000;
      if (this.localOf(middle) < localMs) before = middle;
      else after = middle;
    }
    return after;
  }

  private offsetAt(instantMs: number): number {
    return this.localOf(instantMs) - instantMs;
  }
}

/** Whether Node.js knows the name. An offset such as "+01:00" is none: it knows no summer time. */
export function isTimeZone(name: string): boolean {
  if (!/^[A-Za-z]/.test(name)) return false;
  try {
    new Intl.DateTimeFormat('en-US', { timeZone: name });
    return true;
  } catch (error) {
    if (error instanceof RangeError) return false;
    throw error;
  }
}

/** Names of time zones, to suggest one. */
export function timeZoneNames(): readonly string[] {
  return ['UTC', ...Intl.supportedValuesOf('timeZone')];
}

/** The number of a local day: days since 1970-01-01. */
export function dayOf(localMs: number): number {
  return Math.floor(localMs / DAY_MS);
}

/** A local day as text: 2026-12-01. */
export function dayText(day: number): string {
  return new Date(day * DAY_MS).toISOString().split('T')[0] ?? '';
}
