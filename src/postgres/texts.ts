/** Rows as texts, as psql prints them in a session whose TimeZone is UTC and whose DateStyle is ISO. */

export type TextRow = readonly (string | null)[];

const TYPES = { getTypeParser: () => (value: string) => value };

/** A query for such rows. */
export function textQuery(text: string, values: readonly unknown[] = []) {
  return { text, values: [...values], rowMode: 'array' as const, types: TYPES };
}

/** Milliseconds since 1970 of a time as text; NaN where there is none. */
export function millisecondsOf(stored: string | null): number {
  return Date.parse(`${(stored ?? '').replace(' ', 'T').replace(/(\.\d{3})\d*|\+00$/g, '$1')}Z`);
}
