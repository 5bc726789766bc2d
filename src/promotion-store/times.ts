/** Times of promotions between Postgres and the code: microseconds since 1970, exactly. */
import { POSTGRES_EPOCH_MICROS } from '../postgres/binary-format';
import { BEFORE_ALL } from '../promotions/calendar';

export const DAY_MICROS = 86_400_000_000n;

const BEFORE_ALL_TEXT = '-infinity';

/** A finite timestamptz, or null, as a number that `readMicros` reads. */
export const finiteMicrosOf = (column: string): string => `(extract(epoch from ${column}) * 1000000)::bigint`;

/** A timestamptz as the text that `readMicros` reads. */
export const microsOf = (column: string): string =>
  `case ${column} when '${BEFORE_ALL_TEXT}' then '${BEFORE_ALL_TEXT}' else ${finiteMicrosOf(column)}::text end`;

export function readMicros(text: string | null | undefined): bigint | null {
  if (text == null) return null;
  return text === BEFORE_ALL_TEXT ? BEFORE_ALL : BigInt(text);
}

/** An instant as a text that Postgres reads. A JavaScript date has milliseconds alone. */
export function timestampText(micros: bigint | null): string | null {
  if (micros === null) return null;
  if (micros <= BEFORE_ALL) return BEFORE_ALL_TEXT;
  const rest = ((micros % 1000n) + 1000n) % 1000n;
  const millis = new Date(Number((micros - rest) / 1000n)).toISOString();
  return millis.replace('Z', `${String(rest).padStart(3, '0')}Z`).replace(/^\+0*/, '');
}

/** A timestamptz as the text that `readSent` reads: for many rows, since it takes no numeric. */
export const sentOf = (column: string): string => `timestamptz_send(${column})`;

/** @param text the digits of a bytea: microseconds since 2000 */
export function readSent(text: string): bigint {
  return BigInt.asIntN(64, BigInt(`0${text.slice(1)}`)) + POSTGRES_EPOCH_MICROS;
}
