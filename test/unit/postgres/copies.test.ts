/** How the rows of a batch are divided among COPYs. */

import { copies } from '../../../src/postgres/pipeline';

const STATEMENT = { name: 'copy_numbers', text: 'copy numbers from stdin binary' };

/** The numbers of each COPY. */
function dividedOf(count: number): number[][] {
  const items = Array.from({ length: count }, (_, index) => index);
  const byRows = new Map<object, number[]>();
  const writes = copies(STATEMENT, items, (rows, item) => {
    const numbers = byRows.get(rows) ?? [];
    numbers.push(item);
    byRows.set(rows, numbers);
  });
  return writes.map(({ rows, ...statement }) => {
    expect(statement).toEqual(STATEMENT);
    return byRows.get(rows ?? {}) ?? [];
  });
}

it.each([
  [0, []],
  [1, [1]],
  [250, [250]],
  [251, [250, 1]],
  [754, [250, 250, 250, 4]],
  [1_499, [250, 250, 250, 250, 250, 249]],
  [1_500, [1_500]],
  [8_000, [8_000]],
])('%d rows go into COPYs of %j rows, in their order', (count, lengths) => {
  const divided = dividedOf(count);
  expect(divided.map(({ length }) => length)).toEqual(lengths);
  expect(divided.flat()).toEqual(Array.from({ length: count }, (_, index) => index));
});
