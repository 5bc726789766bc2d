/** The difference of two files of promotions, and the windows that it concerns. */
import { describePromotionChanges, printPromotionChanges } from '../../../src/promotions/changes';
import { definitionsOf, micros } from '../../support/promotions';

const AT = micros('2026-12-03T12:00:00Z');
const WEEKLY = 'window: { every: week, starts: monday }, time_zone: Europe/Warsaw';
const linesOf = (before: readonly string[], after: readonly string[]): string[] =>
  printPromotionChanges(
    describePromotionChanges(
      { promotions: definitionsOf(...before) },
      { promotions: definitionsOf(...after) },
      AT,
    ),
  );
const bets = (more: string) => `id: x, type: bet_count, ${more}`;

test.each([
  [
    'a target, from the next window on',
    bets(`target: 5, ${WEEKLY}`),
    bets(`target: 6, ${WEEKLY}`),
    'changed promotion acme/x: target: 5 -> 6 (for windows that begin at 2026-12-06T23:00:00Z or later)',
  ],
  [
    'an amount of a currency, and another one',
    `id: x, type: deposit_target, target: { EUR: "5.00" }, to: 2026-12-10T00:00Z`,
    `id: x, type: deposit_target, target: { EUR: "6.00", USD: "7" }, to: 2026-12-10T00:00Z`,
    'changed promotion acme/x: target.EUR: 5.00 -> 6.00; target.USD: not given -> 7 (for windows that begin at 2026-12-10T00:00:00Z or later)',
  ],
  [
    'a promotion that has not begun, from its begin on',
    bets('target: 5, from: 2027-01-01T00:00Z'),
    bets('target: 6, from: 2027-01-01T00:00Z'),
    'changed promotion acme/x: target: 5 -> 6 (for windows that begin at 2027-01-01T00:00:00Z or later)',
  ],
  [
    'a promotion whose only window never ends, not at all',
    bets('target: 5'),
    bets('target: 6'),
    'changed promotion acme/x: target: 5 -> 6 (without effect until it is recomputed: its window "once" has begun and never ends)',
  ],
  [
    'the length of its windows, with the time in which none counts',
    bets(`target: 5, ${WEEKLY}`),
    bets('target: 5, window: { every: month, starts: 1 }, time_zone: Europe/Warsaw'),
    'changed promotion acme/x: window.every: week -> month; window.starts: monday -> 1 (for windows that begin at 2026-12-31T23:00:00Z or later; no window counts from 2026-12-06T23:00:00Z until then)',
  ],
  [
    'its time zone, with the time in which no window counts',
    bets('target: 5, window: { every: week, starts: monday }, time_zone: America/New_York'),
    bets(`target: 5, ${WEEKLY}`),
    'changed promotion acme/x: time_zone: America/New_York -> Europe/Warsaw (for windows that begin at 2026-12-13T23:00:00Z or later; no window counts from 2026-12-07T05:00:00Z until then)',
  ],
  [
    'items, by their ids',
    `id: x, type: collect_items, items: [{ id: a, need: 1 }, { id: b, need: 2 }], ${WEEKLY}`,
    `id: x, type: collect_items, items: [{ id: b, need: 3, per: { EUR: "1" } }], ${WEEKLY}`,
    'changed promotion acme/x: items.a.need: 1 -> not given; items.b.need: 2 -> 3; items.b.per.EUR: not given -> 1 (for windows that begin at 2026-12-06T23:00:00Z or later)',
  ],
  [
    'points, by their place',
    `id: x, type: leaderboard, points: [{ counts: bet, points: 1 }], ${WEEKLY}`,
    `id: x, type: leaderboard, points: [{ counts: bet, points: 2, min_amount: { EUR: "1" } }], ${WEEKLY}`,
    'changed promotion acme/x: points.1.points: 1 -> 2; points.1.min_amount.EUR: not given -> 1 (for windows that begin at 2026-12-06T23:00:00Z or later)',
  ],
])('a change of %s [P17]', (_, before, after, line) => {
  expect(linesOf([before], [after])).toEqual([line]);
});

test('added and removed promotions, in the order of their ids [P17]', () => {
  expect(
    linesOf(
      [bets('target: 5')],
      ['id: y, type: round_count, target: 2', 'id: a b, type: bet_count, target: 1'.replace('a b', 'a')],
    ),
  ).toEqual([
    'added promotion acme/a: type: bet_count; completes: once; target: 1 (counts from its first window on, with the events that came before)',
    'removed promotion acme/x (counts nothing from now on; its completions stay)',
    'added promotion acme/y: type: round_count; completes: once; target: 2 (counts from its first window on, with the events that came before)',
  ]);
});

test('the order of promotions, games, brands and items is no change [P17]', () => {
  const items = ['{ id: a, need: 1 }', '{ id: b, need: 2 }'];
  const gems = (list: readonly string[]) => `id: y, type: collect_items, items: [${list.join(', ')}]`;
  const before = [bets('target: 5, games: [g1, g2], brands: [m, n]'), gems(items)];
  const after = [gems([...items].reverse()), bets('target: 5, games: [g2, g1], brands: [n, m]')];
  expect(linesOf(before, after)).toEqual([]);
});
