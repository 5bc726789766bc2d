/** The texts of times and durations in a promotion (docs/rules.md, P3, P4, P13). */
import { parseInstant } from '../domain/event/timestamp';
import { isTimeZone, TimeZone } from '../lib/time-zone';

const LOCAL = /^\d{4}-\d\d-\d\d(?:T\d\d:\d\d(?::\d\d)?)?$/;
const MICROS = 1000n;

export type BoundFault = 'syntax' | 'zone_missing' | 'skipped' | 'repeated';

/**
 * The instant of a bound, in microseconds since 1970: a local time of the zone, or a time with an offset. A
 * date alone means 00:00.
 *
 * @param timeZone undefined where the promotion names none, or an unknown one
 */
export function readBound(text: string, timeZone: string | undefined): bigint | BoundFault {
  if (!LOCAL.test(text)) {
    const instant = parseInstant(text.replace(/^(.{10}T\d\d:\d\d)(?=Z|[+-])/, '$1:00'));
    return instant ?? 'syntax';
  }
  const [date = '', time = '00:00'] = text.split('T');
  const inUtc = parseInstant(`${date}T${time.length === 5 ? `${time}:00` : time}Z`);
  if (inUtc === undefined || time.endsWith(':60')) return 'syntax';
  if (timeZone === undefined || !isTimeZone(timeZone)) return 'zone_missing';
  const instants = new TimeZone(timeZone).instantsOf(Number(inUtc / MICROS));
  const [only] = instants;
  if (only === undefined) return 'skipped';
  return instants.length > 1 ? 'repeated' : BigInt(only) * MICROS;
}

const DURATION =
  /^P(?:(\d{1,4})W|(?=\d|T\d)(?:(\d{1,5})D)?(?:T(?=\d)(?:(\d{1,6})H)?(?:(\d{1,7})M)?(?:(\d{1,8})S)?)?)$/;
/** Seconds of a week, a day, an hour, a minute and a second: the parts of DURATION. */
const UNIT_SECONDS = [604_800, 86_400, 3_600, 60, 1] as const;

/** Microseconds of an ISO 8601 duration such as P7D; a day has 24 hours. Undefined for another text. */
export function readDuration(text: string): bigint | undefined {
  const parts = DURATION.exec(text)?.slice(1);
  if (parts === undefined) return undefined;
  const seconds = UNIT_SECONDS.reduce((sum, unit, index) => sum + unit * Number(parts[index] ?? 0), 0);
  return BigInt(seconds) * 1_000_000n;
}

/** An instant for people: in UTC, to the millisecond where it has any. @param micros since 1970 */
export function instantText(micros: bigint): string {
  return new Date(Math.floor(Number(micros) / 1000)).toISOString().replace('.000Z', 'Z');
}
