/** Rows of one table, in the COPYs that Postgres runs most cheaply. */

import { CopyRows } from './binary-format';
import type { Write } from './pipeline';

/**
 * Postgres 17 and newer notes each of the first 1,000 rows of a COPY, at a cost that grows by their square. A
 * batch of a worker that keeps up has some hundred rows, and writes them faster by several COPYs. A large
 * batch has one COPY: the cost grows no further, and each COPY has costs of its own.
 */
const ROWS_OF_A_COPY = 250;
const ROWS_OF_A_LARGE_BATCH = 1_500;

/** @param writeRow writes the row of an item @returns the statement with all rows, once or more often */
export function copies<T>(
  statement: Omit<Write, 'rows'>,
  items: readonly T[],
  writeRow: (rows: CopyRows, item: T) => void,
): Write[] {
  const size = items.length < ROWS_OF_A_LARGE_BATCH ? ROWS_OF_A_COPY : items.length;
  const writes: Write[] = [];
  for (let from = 0; from < items.length; from += size) {
    const rows = new CopyRows();
    for (const item of items.slice(from, from + size)) writeRow(rows, item);
    writes.push({ ...statement, rows });
  }
  return writes;
}
