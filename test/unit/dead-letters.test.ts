/** What `dead-letters list` tells of a letter. */
import { asJson, describe as describeLetters, type Listed } from '../../src/commands/dead-letters';

const letter = (more: Partial<Listed> = {}): Listed => ({
  reason: 'unclaimed',
  source: { topic: 't', partition: 0, offset: 7 },
  sourceTimestampMs: Date.parse('2026-11-22T10:00:00Z'),
  writtenMs: Date.parse('2026-11-22T10:00:01Z'),
  ...{ bytes: 9, partition: 3, offset: 4, ...more },
});
const counts = new Map([['unclaimed', 1]]);

test('why it is there, where it came from and when', () => {
  expect(describeLetters([letter()], counts, 0, 'dead')).toEqual([
    '2026-11-22T10:00:01.000Z unclaimed: t/0 offset 7 of 2026-11-22T10:00:00.000Z, 9 bytes; at 3 offset 4',
    'dead: 1 dead letters (1 unclaimed)',
  ]);
});

// A sender that writes microseconds or nanoseconds for milliseconds; a header that is no number.
test.each([1.7e18, 8.64e15 + 1, -9e15, Number.NaN])('a time that is none is told as such: %d', (ms) => {
  const odd = letter({ sourceTimestampMs: ms, writtenMs: ms });
  expect(describeLetters([odd], counts, 0, 'dead')[0]).toBe(
    'an unknown time unclaimed: t/0 offset 7 of an unknown time, 9 bytes; at 3 offset 4',
  );
  expect(asJson([odd], counts, 0, 'dead').newest).toMatchObject([{ written_at: null, source_time: null }]);
});
