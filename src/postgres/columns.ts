/** Columns of rows as Postgres writes them in text, and times in milliseconds. */

/** SQL of a time as milliseconds since 1970. */
export const inMilliseconds = (column: string) => `(extract(epoch from ${column}) * 1000)::bigint`;

/** SQL of the time that lies this many milliseconds ahead. @param parameter such as `$1` */
export const timeAhead = (parameter: string) => `now() + make_interval(secs => ${parameter}::float8 / 1000)`;

/** @throws where the column is null */
export function textOf(value: string | null | undefined): string {
  if (typeof value !== 'string') throw new Error('the store answered null in place of a text');
  return value;
}

/** @throws where the column is null, or no number */
export function numberOf(value: string | null | undefined): number {
  const number = Number(textOf(value));
  if (!Number.isFinite(number)) throw new Error('the store answered a text in place of a number');
  return number;
}
