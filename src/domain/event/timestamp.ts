/**
 * Reads RFC 3339 date-times with a zone exactly (docs/rules.md, F6).
 * https://www.rfc-editor.org/rfc/rfc3339#section-5.6
 */

const MICROS_PER_SECOND = 1_000_000n;
const SECONDS_PER_DAY = 86_400;
const FRACTION_DIGITS = 6;

/**
 * Microseconds since 1970-01-01T00:00:00Z, or undefined where the text is no RFC 3339 date-time with a zone.
 *
 * - Fractions finer than a microsecond are cut off. T and Z may be lower case, as in the RFC's grammar. A
 * space in place of T is refused.
 * - Second 60 is valid only where UTC is 23:59:60 on 30 June or 31 December. It is the instant at which the
 * next day begins.
 * - The year 0000 is refused, as written and as the year of the instant in UTC: the store's calendar has
 * none.
 */
export function parseInstant(text: string): bigint | undefined {
  if (text.length < 20) return undefined;
  const year = number(text, 0, 4);
  const month = number(text, 5, 2);
  const day = number(text, 8, 2);
  const hour = number(text, 11, 2);
  const minute = number(text, 14, 2);
  const second = number(text, 17, 2);
  if (year < 1 || month < 1 || month > 12 || day < 1 || day > daysInMonth(year, month)) return undefined;
  if (hour < 0 || hour > 23 || minute < 0 || minute > 59 || second < 0 || second > 60) return undefined;
  if (text[4] !== '-' || text[7] !== '-' || text[13] !== ':' || text[16] !== ':') return undefined;
  if (text[10] !== 'T' && text[10] !== 't') return undefined;

  let position = 19;
  let micros = 0;
  if (text[position] === '.') {
    const first = position + 1;
    position = first;
    while (isDigitAt(text, position)) position++;
    if (position === first) return undefined;
    micros = Number(
      text.slice(first, Math.min(position, first + FRACTION_DIGITS)).padEnd(FRACTION_DIGITS, '0'),
    );
  }

  const offsetMinutes = zoneMinutes(text, position);
  if (offsetMinutes === undefined) return undefined;

  const minutes = daysFromEpoch(year, month, day) * 1440 + hour * 60 + minute - offsetMinutes;
  if (second === 60 && !mayEndInLeapSecond(minutes)) return undefined;
  // Compares minutes: a leap second at the end of the year 0000 belongs to that year, although its stored
  // instant does not.
  if (minutes * 60 < FIRST_SECOND) return undefined;
  const seconds = minutes * 60 + second;
  const wanted = seconds * 1_000_000 + micros;
  // One conversion is enough where a double is exact, which is until the year 2255.
  if (Number.isSafeInteger(wanted)) return BigInt(wanted);
  return BigInt(seconds) * MICROS_PER_SECOND + BigInt(micros);
}

/**
 * Like `parseInstant`, for the plainest form in ASCII bytes: `2026-11-21T12:00:00Z` with up to six decimals.
 * NaN for every other form, valid or not.
 */
export function scanInstant(bytes: Uint8Array, start: number, end: number): number {
  const length = end - start;
  if (length < 20 || length > 27 || bytes[end - 1] !== 0x5a) return Number.NaN;
  if (bytes[start + 4] !== 0x2d || bytes[start + 7] !== 0x2d || bytes[start + 10] !== 0x54) return Number.NaN;
  if (bytes[start + 13] !== 0x3a || bytes[start + 16] !== 0x3a) return Number.NaN;
  const year = pairAt(bytes, start) * 100 + pairAt(bytes, start + 2);
  const month = pairAt(bytes, start + 5);
  const day = pairAt(bytes, start + 8);
  const hour = pairAt(bytes, start + 11);
  const minute = pairAt(bytes, start + 14);
  const second = pairAt(bytes, start + 17);
  // Each condition fails for NaN, which a character other than a digit gives.
  if (!(year >= FIRST_EXACT_YEAR && year <= LAST_EXACT_YEAR)) return Number.NaN;
  if (!(month >= 1 && month <= 12 && day >= 1)) return Number.NaN;
  if (!(day <= daysInMonth(year, month) && hour <= 23 && minute <= 59 && second <= 59)) return Number.NaN;
  let micros = 0;
  if (length > 20) {
    if (bytes[start + 19] !== 0x2e || length === 21) return Number.NaN;
    for (let i = 0, at = start + 20; i < FRACTION_DIGITS; i++) {
      micros = micros * 10 + (at + i < end - 1 ? digitAt(bytes, at + i) : 0);
    }
  }
  const seconds = daysFromEpoch(year, month, day) * SECONDS_PER_DAY + hour * 3600 + minute * 60 + second;
  return seconds * 1_000_000 + micros;
}

/** In these years and between them, microseconds are exact as a double: 2^53 microseconds are 285 years. */
const FIRST_EXACT_YEAR = 1685;
const LAST_EXACT_YEAR = 2254;

function pairAt(bytes: Uint8Array, at: number): number {
  return digitAt(bytes, at) * 10 + digitAt(bytes, at + 1);
}

/** NaN where the byte is no digit. */
function digitAt(bytes: Uint8Array, at: number): number {
  const digit = (bytes[at] ?? 0) - 0x30;
  return digit >= 0 && digit <= 9 ? digit : Number.NaN;
}

/** The number that `length` digits form; -1 where a character is no digit. */
function number(text: string, start: number, length: number): number {
  let value = 0;
  for (let i = start; i < start + length; i++) {
    const digit = text.charCodeAt(i) - 0x30;
    if (!(digit >= 0 && digit <= 9)) return -1;
    value = value * 10 + digit;
  }
  return value;
}

function isDigitAt(text: string, position: number): boolean {
  const digit = text.charCodeAt(position) - 0x30;
  return digit >= 0 && digit <= 9;
}

/** The minutes east of UTC of the zone that ends the text; undefined where there is no zone. */
function zoneMinutes(text: string, position: number): number | undefined {
  const sign = text[position];
  if (sign === 'Z' || sign === 'z') return text.length === position + 1 ? 0 : undefined;
  if ((sign !== '+' && sign !== '-') || text.length !== position + 6 || text[position + 3] !== ':')
    return undefined;
  const hours = number(text, position + 1, 2);
  const minutes = number(text, position + 4, 2);
  if (hours < 0 || hours > 23 || minutes < 0 || minutes > 59) return undefined;
  return (sign === '+' ? 1 : -1) * (hours * 60 + minutes);
}

function isLeapYear(year: number): boolean {
  return year % 4 === 0 && (year % 100 !== 0 || year % 400 === 0);
}

function daysInMonth(year: number, month: number): number {
  if (month === 2) return isLeapYear(year) ? 29 : 28;
  return month === 4 || month === 6 || month === 9 || month === 11 ? 30 : 31;
}

/** Days from 1970-01-01 in the proleptic Gregorian calendar. http://howardhinnant.github.io/date_algorithms.html#days_from_civil */
function daysFromEpoch(year: number, month: number, day: number): number {
  const y = month <= 2 ? year - 1 : year;
  const era = Math.floor(y / 400);
  const yearOfEra = y - era * 400;
  const dayOfYear = Math.floor((153 * (month > 2 ? month - 3 : month + 9) + 2) / 5) + day - 1;
  const dayOfEra = yearOfEra * 365 + Math.floor(yearOfEra / 4) - Math.floor(yearOfEra / 100) + dayOfYear;
  return era * 146_097 + dayOfEra - 719_468;
}

const FIRST_SECOND = daysFromEpoch(1, 1, 1) * SECONDS_PER_DAY;

/**
 * Whether a leap second may follow this minute. They are inserted at the end of 30 June or 31 December, UTC.
 */
function mayEndInLeapSecond(minutesFromEpoch: number): boolean {
  const next = new Date((minutesFromEpoch + 1) * 60_000);
  if (next.getUTCHours() !== 0 || next.getUTCMinutes() !== 0) return false;
  const day = next.getUTCDate();
  const month = next.getUTCMonth();
  return day === 1 && (month === 0 || month === 6);
}
