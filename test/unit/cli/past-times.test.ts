/** Options that name a time of the past. */
import { readPast } from '../../../src/cli/option-values';

const NOW = Date.parse('2026-11-30T12:00:00Z');
const read = (text: string) => readPast(new Map([['since', text]]), 'since', NOW);

test.each([
  ['2026-11-30T11:59:59.5Z', '2026-11-30T11:59:59.500Z'],
  ['2026-11-30T12:30+01:00', '2026-11-30T11:30:00.000Z'],
  ['45s', '2026-11-30T11:59:15.000Z'],
  ['10m', '2026-11-30T11:50:00.000Z'],
  ['2h', '2026-11-30T10:00:00.000Z'],
  ['3d', '2026-11-27T12:00:00.000Z'],
  ['999999999d', '1970-01-01T00:00:00.000Z'],
])('%s is %s', (text, time) => {
  expect(new Date(read(text) ?? Number.NaN).toISOString()).toBe(time);
});

test('an absent option is no time', () => {
  expect(readPast(new Map(), 'since', NOW)).toBeUndefined();
});

test.each(['10', '10 m', '-10m', '1.5h', '10min', '2026-11-30', '2026-11-30T10:00:00', 'yesterday', ''])(
  '"%s" is refused with the forms that are read',
  (text) => {
    expect(() => read(text)).toThrow(
      /is neither a time with a zone nor a duration.*Write it like 2026-11-22T10:00:00Z, or like 10m\. The units are s, m, h, d/,
    );
  },
);

test('a time of the future is refused', () => {
  expect(() => read('2026-11-30T12:00:01Z')).toThrow(
    /"2026-11-30T12:00:01Z" is in the future.*Name a past time, or leave --since out/,
  );
});
