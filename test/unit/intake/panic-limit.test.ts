/** The limit on events that become panics. */
import { makePanicLimit } from '../../../src/intake/intake';

test('ten events a minute may become panics, and an eleventh may once a minute is over [V9]', () => {
  let now = 1_000;
  const take = makePanicLimit(() => now);
  expect(Array.from({ length: 11 }, () => take() !== null)).toEqual([...Array(10).fill(true), false]);
  now += 60_000;
  expect(take()).toBeNull();
  now += 1;
  expect(take()).not.toBeNull();
});

test('a place that is returned may be taken again [V9]', () => {
  const take = makePanicLimit(() => 0);
  const places = Array.from({ length: 10 }, () => take());
  expect(take()).toBeNull();
  places[3]?.();
  expect(take()).not.toBeNull();
  expect(take()).toBeNull();
});
