/** How many records of each partition are decided together: so many in all, up to one time. */
import { makeRandom } from '../../dev/random';
import { cut } from '../../src/transports/gathering';

interface Offered {
  readonly envelopes: readonly { readonly timestamp: string }[];
  readonly isAll: boolean;
}

/** Records of these times; more of the partition waits, unless it is told otherwise. */
const offer = (times: readonly number[], isAll = false): Offered => ({
  envelopes: times.map((time) => ({ timestamp: String(time) })),
  isAll,
});
/** So many records, this far apart in time. */
const every = (step: number, count: number, from = 0) =>
  Array.from({ length: count }, (_, index) => from + index * step);

test('each partition gives its records up to where all of them have told theirs', () => {
  expect(cut([offer([1, 2, 3, 4, 5, 6]), offer([2, 4]), offer([1, 3, 4, 5])], 100)).toEqual([4, 2, 3]);
});

test('records of the same time are decided together', () => {
  expect(cut([offer([1, 1, 1, 1]), offer([1, 1, 2, 2])], 100)).toEqual([4, 2]);
});

test('a partition of which nothing more waits holds no other back', () => {
  expect(cut([offer([1, 2], true), offer([1, 2, 3, 9])], 100)).toEqual([2, 4]);
});

test('each gives its share of what is too much together', () => {
  const counts = cut([offer(every(1, 800)), offer(every(1, 800)), offer(every(2, 400))], 1_000);
  // Rounded down.
  expect(counts).toEqual([399, 399, 200]);
});

test('a partition whose share is cut holds the others back, though nothing more of it waits', () => {
  expect(cut([offer(every(1, 100), true), offer(every(1, 100), true)], 100)).toEqual([50, 50]);
  expect(cut([offer(every(1, 100), true), offer(every(4, 100), true)], 100)).toEqual([50, 13]);
});

test.each([
  ['run far ahead', every(1, 100, 1_000_000)],
  ['cannot be read', Array.from({ length: 100 }, () => Number.NaN)],
  ['are those of another clock', [Number.MAX_SAFE_INTEGER, ...every(1, 99)]],
])('no partition is left behind whose times %s: a quarter of its share is decided', (_, times) => {
  const [ours = 0, theirs = 0] = cut([offer(times), offer(every(1, 100))], 1_000);
  expect(ours).toBeGreaterThanOrEqual(25);
  expect(theirs).toBeGreaterThanOrEqual(25);
});

test('whatever is offered: no more than is allowed, of each that has any at least one, and of none more than it has', () => {
  const random = makeRandom(7);
  for (let run = 0; run < 300; run++) {
    const maxEvents = 1 + random.below(200);
    const offers = Array.from({ length: 1 + random.below(Math.min(20, maxEvents)) }, () =>
      offer(
        Array.from({ length: 1 + random.below(random.pick([2, 300])) }, () => random.below(1_000)).sort(
          (a, b) => a - b,
        ),
        random.chance(0.3),
      ),
    );
    const counts = cut(offers, maxEvents);
    expect(counts.reduce((sum, count) => sum + count, 0)).toBeLessThanOrEqual(maxEvents);
    for (const [index, { envelopes }] of offers.entries()) {
      expect(counts[index]).toBeGreaterThanOrEqual(1);
      expect(counts[index]).toBeLessThanOrEqual(envelopes.length);
    }
  }
});
