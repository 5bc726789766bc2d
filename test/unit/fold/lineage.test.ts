/** The meaning of a changed lineage: system/timeline/arrivals, and the start of a server without fsync. */
import { compareLineages, hasArrivals } from '../../../src/fold/lineage';

test.each([
  ['the same store', '7/1/0', '7/1/0', 'none'],
  ['a promoted replica', '7/1/0', '7/2/0', 'another server'],
  ['a restored copy on another system', '7/1/0', '9/1/0', 'another server'],
  ['an arrival from another cell', '7/1/0', '7/1/1', 'other rows'],
  ['an arrival and a promotion at once', '7/1/0', '7/2/1', 'other rows'],
  ['a server without fsync that did not start again', '7/1/0/111', '7/1/0/111', 'none'],
  [
    'a server without fsync that started again and may have lost rows',
    '7/1/0/111',
    '7/1/0/222',
    'other rows',
  ],
  ['a server that has fsync now', '7/1/0/111', '7/1/0', 'other rows'],
])('%s', (_, before, now, expected) => {
  expect(compareLineages(before, now)).toBe(expected);
});

test.each([
  ['7/1/0', false],
  ['7/1/0/111', false],
  ['7/1/1', true],
  ['7/1/12', true],
])('the numbers of %s have those of another store among them: %s', (lineage, expected) => {
  expect(hasArrivals(lineage)).toBe(expected);
});
