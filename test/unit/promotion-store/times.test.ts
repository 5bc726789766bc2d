/** Times between Postgres and the code. Postgres itself reads them in test/ledger/promotions.test.ts. */
import { readMicros, timestampText } from '../../../src/promotion-store/times';
import { BEFORE_ALL } from '../../../src/promotions/calendar';

test.each([
  ['a microsecond', 1n, '1970-01-01T00:00:00.000001Z'],
  ['the last microsecond of a second', 1_999_999n, '1970-01-01T00:00:01.999999Z'],
  ['a microsecond before 1970', -1n, '1969-12-31T23:59:59.999999Z'],
  ['a millisecond before 1970', -1_000n, '1969-12-31T23:59:59.999000Z'],
  ['a time of now, beyond the digits of a number in nanoseconds', 1_795_000_000_123_456n, null],
  ['the year 1', BigInt(Date.parse('0001-01-01T00:00:00Z')) * 1_000n, '0001-01-01T00:00:00.000000Z'],
  ['the year 12,026', BigInt(Date.UTC(12_026, 0)) * 1_000n, '12026-01-01T00:00:00.000000Z'],
])('%s has a text with all of its digits [P4]', (_, micros, expected) => {
  const text = timestampText(micros);
  if (expected !== null) expect(text).toBe(expected);
  else expect(text).toBe(`${new Date(Number(micros / 1_000n)).toISOString().slice(0, -1)}456Z`);
});

test('no bound is null, and a bound before all windows is -infinity', () => {
  expect(timestampText(null)).toBeNull();
  expect(timestampText(BEFORE_ALL)).toBe('-infinity');
  expect(readMicros('-infinity')).toBe(BEFORE_ALL);
  expect([readMicros(null), readMicros(undefined)]).toEqual([null, null]);
});

test('a stored number is read exactly, where a JavaScript number would be rounded', () => {
  expect(readMicros('9007199254740993')).toBe(9_007_199_254_740_993n);
  expect(readMicros('-1')).toBe(-1n);
});
