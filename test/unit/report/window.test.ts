/** The time that a report covers, its buckets and their texts. */
import { DAY_MS, TimeZone } from '../../../src/lib/time-zone';
import {
  bucketText,
  divide,
  divideByDays,
  HOUR_MS,
  momentText,
  sameDates,
  spanOf,
  stepOf,
  stepText,
  ticksOf,
  UnusableRange,
} from '../../../src/report/window';

const UTC = new TimeZone('UTC');
const WARSAW = new TimeZone('Europe/Warsaw');
const at = (text: string) => Date.parse(text);
const NOW = at('2026-11-21T12:30:00Z');
const isoOf = (ms: number) => new Date(ms).toISOString().replace('.000', '');

describe('the span', () => {
  test('is 30 days with today, from the begin of a local day on, where none is named', () => {
    expect(Object.values(spanOf({}, UTC, NOW)).map(isoOf)).toEqual([
      '2026-10-23T00:00:00Z',
      '2026-11-21T12:30:00Z',
    ]);
    // The clocks in Warsaw were still in summer time.
    expect(isoOf(spanOf({}, WARSAW, NOW).from)).toBe('2026-10-22T22:00:00Z');
  });

  test('of a range whose end is a midnight does not begin a day too late', () => {
    expect(isoOf(spanOf({ to: at('2026-11-21T00:00:00Z') }, UTC, NOW).from)).toBe('2026-10-22T00:00:00Z');
  });

  test('ends now at the latest', () => {
    expect(spanOf({ from: NOW - HOUR_MS, to: NOW + DAY_MS }, UTC, NOW)).toEqual({
      from: NOW - HOUR_MS,
      to: NOW,
    });
  });

  test.each([
    ['begins now', { from: NOW }, /begins in the future/],
    ['ends where it begins', { from: NOW - 5, to: NOW - 5 }, /ends before it begins/],
    ['has a day too many', { from: NOW - 1_100 * DAY_MS - 1 }, /more than 1100 days/],
  ])('that %s is refused with a remedy', (_, wanted, message) => {
    expect(() => spanOf(wanted, UTC, NOW)).toThrow(UnusableRange);
    expect(() => spanOf(wanted, UTC, NOW)).toThrow(message);
    expect(() => spanOf(wanted, UTC, NOW)).toThrow(/Choose an? (earlier|later) --from/);
  });
});

describe('buckets', () => {
  test.each([
    [100_000, 'a second', 'second'],
    [100_001, '5 seconds', '5 seconds'],
    [HOUR_MS, 'a minute', 'minute'],
    [DAY_MS, '15 minutes', '15 minutes'],
    [3 * DAY_MS, 'an hour', 'hour'],
    [25 * DAY_MS, 'six hours', '6 hours'],
    [26 * DAY_MS, 'a day', 'day'],
    [101 * DAY_MS, 'a week', 'week'],
    [701 * DAY_MS, 'a month', 'month'],
  ])('of %d ms have %s, the shortest step of at most a hundred', (ms, _, expected) => {
    const { step, edges } = divide(
      { from: at('2026-01-01T00:00:00Z'), to: at('2026-01-01T00:00:00Z') + ms },
      UTC,
    );
    expect(stepText(step)).toBe(expected);
    expect(edges.length).toBeLessThanOrEqual(102);
  });

  test('join: each begins where the one before ends, and the first and last are cut', () => {
    const span = { from: at('2026-11-21T10:07:30Z'), to: at('2026-11-21T10:12:15Z') };
    const { edges } = divide(span, UTC);
    expect(edges[0]).toBe(span.from);
    expect(edges.at(-1)).toBe(span.to);
    expect(edges.slice(1, -1).every((edge) => edge % 5_000 === 0)).toBe(true);
    expect([...edges].sort((a, b) => a - b)).toEqual(edges);
  });

  test('of days are local days, of which one has 25 hours', () => {
    const span = { from: at('2026-10-23T22:00:00Z'), to: at('2026-10-26T23:00:00Z') };
    const { edges } = divideByDays(span, WARSAW);
    const hours = edges.slice(1).map((edge, index) => (edge - (edges[index] ?? 0)) / HOUR_MS);
    expect(hours).toEqual([24, 25, 24]);
  });

  test('of weeks begin on Mondays, and those of months on the first', () => {
    const weeks = divideByDays({ from: at('2026-01-01T00:00:00Z'), to: at('2026-06-01T00:00:00Z') }, UTC);
    const inner = (edges: readonly number[]) => edges.slice(1, -1).map((edge) => new Date(edge));
    expect(inner(weeks.edges).every((date) => date.getUTCDay() === 1)).toBe(true);
    const months = divideByDays({ from: at('2024-01-15T00:00:00Z'), to: at('2026-06-01T00:00:00Z') }, UTC);
    expect(inner(months.edges).every((date) => date.getUTCDate() === 1)).toBe(true);
  });
});

test('the same dates in another zone are its own days, and end now at the latest', () => {
  const span = { from: at('2026-11-19T23:00:00Z'), to: at('2026-11-20T23:00:00Z') };
  expect(Object.values(sameDates(span, WARSAW, UTC, NOW)).map(isoOf)).toEqual([
    '2026-11-20T00:00:00Z',
    '2026-11-21T00:00:00Z',
  ]);
  // Today in Warsaw has begun, and today in UTC has not.
  const early = at('2026-11-20T23:30:00Z');
  const today = sameDates({ from: early - 1_000, to: early }, WARSAW, UTC, early);
  expect(today.to).toBe(today.from + 1);
});

describe('texts', () => {
  const MORNING = at('2026-11-21T06:05:04Z');
  test.each([
    [1_000, '2026-11-21 06:05:04'],
    [HOUR_MS, '2026-11-21 06:05'],
    ['day', '2026-11-21'],
  ] as const)('of a bucket of %s', (step, expected) => {
    expect(bucketText({ step, zone: UTC }, MORNING)).toBe(expected);
  });

  test('of a moment leave out the time at the begin of a local day', () => {
    expect(momentText(WARSAW, MORNING)).toBe('21 Nov 2026, 07:05');
    expect(momentText(WARSAW, at('2026-11-20T23:00:00Z'))).toBe('21 Nov 2026');
  });

  test('of a step are read again, and no other text is one', () => {
    for (const text of ['second', '5 seconds', '15 minutes', 'hour', '6 hours', 'day', 'week', 'month'])
      expect(stepText(stepOf(text))).toBe(text);
    expect(() => stepOf('2 hours')).toThrow(RangeError);
  });

  test.each([90_000, 2 * HOUR_MS, 3 * DAY_MS, 20 * DAY_MS, 90 * DAY_MS, 1_000 * DAY_MS])(
    'below an axis of %d ms are a few, all of them within it',
    (ms) => {
      const span = { from: NOW - ms, to: NOW };
      const ticks = ticksOf(divide(span, WARSAW));
      expect(ticks.length).toBeGreaterThan(1);
      expect(ticks.length).toBeLessThanOrEqual(12);
      expect(ticks.every((tick) => tick.at >= span.from && tick.at < span.to)).toBe(true);
    },
  );
});
