/** The batches of the next slice. */
import { FIRST_SPAN, nextSpan, spanAfterFailure } from '../../../src/fold/span';

const GOAL = { rows: 10_000, ms: 1_000 };

test.each([
  ['half of both goals: twice as many', { rows: 5_000, ms: 500 }, 200],
  ['the goal of rows, in little time: as many', { rows: 10_000, ms: 10 }, 100],
  ['the goal of time, with few rows: as many', { rows: 10, ms: 1_000 }, 100],
  ['twice the goal of time: half', { rows: 10, ms: 2_000 }, 50],
  ['no rows, in no time: four times as many and no more', { rows: 0, ms: 0 }, 400],
  ['far above the goal: a quarter and no less', { rows: 10_000_000, ms: 1 }, 25],
])('a slice of 100 batches with %s', (_, { rows, ms }, expected) => {
  expect(nextSpan({ batches: 100, rows, ms }, GOAL)).toBe(expected);
});

test('a span stays a whole number of at least one batch, and is bounded', () => {
  expect(nextSpan({ batches: 1, rows: 1_000_000, ms: 9_000 }, GOAL)).toBe(1);
  expect(nextSpan({ batches: 3, rows: 7_000, ms: 1 }, GOAL)).toBe(4);
  expect(nextSpan({ batches: 2 ** 40, rows: 0, ms: 0 }, GOAL)).toBe(2 ** 40);
});

test('quiet slices of numbers without verdicts cross 100 million batches in a dozen steps', () => {
  let [span, batches, steps] = [FIRST_SPAN, 0, 0];
  for (; batches < 100_000_000; steps++) {
    batches += span;
    span = nextSpan({ batches: span, rows: 0, ms: 1 }, GOAL);
  }
  expect(steps).toBeLessThanOrEqual(13);
});

test('after a slice that the store did not finish, the next has a sixteenth of it', () => {
  expect([1_600, 100, 15, 1].map(spanAfterFailure)).toEqual([100, 6, 1, 1]);
});
