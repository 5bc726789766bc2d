/**
 * The time of judging is proportional to the payload's size, whatever the payload holds. Otherwise one field
 * could stop a partition.
 *
 * The tests compare ratios, not seconds: eight times the bytes may cost up to 32 times the time. Quadratic
 * cost exceeds that. large-events.test.ts tests the verdict of an event with 10 MB in one field.
 */
import { aBet, bytesOf, type EventJson } from '../support/builders';
import { judgeBytes, judgingMs } from '../unit/domain/world';

const SMALL = 96 * 1024;
const LARGE = 8 * SMALL;
/** Shorter times are noise. Quadratic cost takes minutes for the large size. */
const SHORTEST_MS = 8;

const cost = (event: EventJson): number => judgingMs(bytesOf(event));

const LONG: readonly (readonly [string, (size: number) => EventJson])[] = [
  ['spec', (size) => ({ spec: 'p'.repeat(size) })],
  ['event_id', (size) => ({ event_id: 'e'.repeat(size) })],
  ['brand', (size) => ({ brand: 'b'.repeat(size) })],
  ['player_ref', (size) => ({ player_ref: 'é'.repeat(size / 2) })],
  ['kind', (size) => ({ kind: 'bet'.repeat(size / 3) })],
  ['round_id', (size) => ({ round_id: '😀'.repeat(size / 4) })],
  ['game.id', (size) => ({ game: { id: 'g'.repeat(size) } })],
  ['amount of digits', (size) => ({ amount: '9'.repeat(size) })],
  ['amount of decimals', (size) => ({ amount: `0.${'0'.repeat(size)}` })],
  ['amount that is wrong at its end', (size) => ({ amount: `${'1'.repeat(size)}x` })],
  ['amount of leading zeros', (size) => ({ amount: '0'.repeat(size) })],
  ['currency', (size) => ({ currency: 'EUR'.repeat(size / 3) })],
  ['occurred_at with a fraction', (size) => ({ occurred_at: `2026-11-21T12:00:00.${'1'.repeat(size)}Z` })],
  [
    'occurred_at that is wrong at its end',
    (size) => ({ occurred_at: `2026-11-21T12:00:00.${'1'.repeat(size)}` }),
  ],
  ['a field that is not listed', (size) => ({ more: 'm'.repeat(size) })],
  [
    'many fields that are not listed',
    (size) => ({ more: Array.from({ length: size / 16 }, () => ({ id: 'x' })) }),
  ],
];

it.each(LONG)('a long %s costs time in proportion to its length', (_, changes) => {
  const small = cost(aBet(changes(SMALL)));
  const large = cost(aBet(changes(LARGE)));
  expect(large).toBeLessThan(32 * Math.max(small, SHORTEST_MS));
});

it.each(['1e400', '-1e400', '9'.repeat(1_000_000), `0.${'0'.repeat(1_000_000)}1`, '1E-400', '-0'])(
  'a number of any size is no amount, and is ignored in every other field [2.3 JSON number]',
  (number) => {
    const text = JSON.stringify(aBet({ amount: 'HERE', more: 'HERE' })).replaceAll('"HERE"', number);
    expect(judgeBytes(text)).toMatchObject({ refusal: { reason: 'bad_amount' } });
  },
);

it('the message for an unreadable payload costs time in proportion to the bytes', () => {
  const broken = (bytes: number) => Buffer.from(`[${'['.repeat(bytes)}x`);
  const small = judgingMs(broken(SMALL));
  expect(judgingMs(broken(LARGE))).toBeLessThan(32 * Math.max(small, SHORTEST_MS));
});
