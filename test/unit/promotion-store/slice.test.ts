/** The parts of a slice of promotions, and where the slice ends. */

import { playersOf } from '../../../src/promotion-store/slice';
import { ChangesByPlayer, SliceCounting } from '../../../src/promotion-store/slice-counting';
import { nextClose } from '../../../src/promotion-store/slice-end';
import { compilePromotion } from '../../../src/promotions/terms';
import { definitionsOf } from '../../support/promotions';

const rowsOf = (players: string) => [...players].map((playerRef) => ({ playerRef }));

async function partsOf(...pages: readonly string[]): Promise<string[]> {
  async function* read() {
    for (const page of pages) yield rowsOf(page);
  }
  const parts: string[] = [];
  let open = '';
  for await (const { rows, isWhole } of playersOf(read())) {
    const players = rows.map(({ playerRef }) => playerRef).join('');
    open = open === '' ? players : `${open}+${players}`;
    if (isWhole) {
      parts.push(open);
      open = '';
    }
  }
  expect(open).toBe('');
  return parts;
}

test.each([
  [
    ['aab', 'bc', 'cd'],
    ['aa', 'bb', 'cc', 'd'],
  ],
  [
    ['ab', 'cd'],
    ['a', 'bc', 'd'],
  ],
  [
    ['aaa', 'aaa', 'ab'],
    ['aaa+aaa+a', 'b'],
  ],
  [
    ['aaa', 'bcd'],
    ['aaa+bc', 'd'],
  ],
  [['aaa', 'bbb'], ['aaa+bbb+']],
  [
    ['ab', 'bb'],
    ['a', 'bbb+'],
  ],
  [[''], ['']],
])('the pages %p are cut into parts that have all rows of their players: %p', async (pages, parts) => {
  expect(await partsOf(...pages)).toEqual(parts);
});

const DAY = 86_400_000_000n;
const race = (id: string, ...fields: string[]) =>
  [`id: ${id}`, 'type: leaderboard', 'points: [{ counts: bet, points: 1 }]', ...fields].join(', ');
const countedOf = (...flows: readonly string[]) =>
  definitionsOf(...flows).map((definition, place) => ({
    promotionNo: place + 1,
    version: 1,
    promotion: compilePromotion(definition),
    since: null,
    until: null,
    removedAt: null,
  }));
const at = (text: string) => BigInt(Date.parse(text)) * 1_000n;

test('changes of each player come in the order of their numbers, and equal ones as they were added', () => {
  const versions = countedOf('id: bets, type: bet_count, target: 10');
  const counting = new SliceCounting(versions);
  const window = { key: 'once', startsAt: null, endsAt: null };
  const changes = new ChangesByPlayer();
  for (const numbers of [[2, 7, 7], [9, 4, 6, 4], [], [1]]) {
    for (const [place, changeNo] of numbers.entries()) {
      const credited = versions.map((version) => ({
        progress: counting.progressOf(version, window, `p-${place}`),
        credits: [],
      }));
      changes.add({ changeNo, at: 0n, sign: 1n, credited });
    }
    changes.add({ changeNo: 0, at: 0n, sign: 1n, credited: [] });
    changes.endPlayer();
  }
  expect(changes.take().map(({ changeNo, credited }) => [changeNo, credited[0]?.progress.playerRef])).toEqual(
    [
      ...[
        [2, 'p-0'],
        [7, 'p-1'],
        [7, 'p-2'],
      ],
      ...[
        [4, 'p-1'],
        [4, 'p-3'],
        [6, 'p-2'],
        [9, 'p-0'],
      ],
      [1, 'p-0'],
    ],
  );
  expect(changes.take()).toEqual([]);
});

test('the next close is that of the first leaderboard whose window and accepts_late are over [P15]', () => {
  const daily = race('daily', 'window: { every: day }', 'time_zone: UTC');
  const late = race('late', 'window: { every: day }', 'time_zone: UTC', 'accepts_late: PT6H');
  const bets = 'id: bets, type: bet_count, target: 10, window: { every: day }, time_zone: UTC';
  const noon = at('2026-11-29T12:00:00Z');
  expect(nextClose(countedOf(daily), noon)).toBe(at('2026-11-30T00:00:00Z'));
  // At a close, the next one is a day later.
  expect(nextClose(countedOf(daily), at('2026-11-30T00:00:00Z'))).toBe(at('2026-12-01T00:00:00Z'));
  expect(nextClose(countedOf(late, daily, bets), noon)).toBe(at('2026-11-30T00:00:00Z'));
  expect(nextClose(countedOf(late), at('2026-11-30T01:00:00Z'))).toBe(at('2026-11-30T06:00:00Z'));
  expect(nextClose(countedOf(bets), noon)).toBeNull();
  expect(nextClose(countedOf(race('endless')), noon)).toBeNull();
});

test('a leaderboard that has not begun closes after its first window, and one that is over never again [P15]', () => {
  const once = race('once', 'from: 2026-12-01T00:00Z', 'to: 2026-12-03T00:00Z');
  const close = at('2026-12-03T00:00:00Z');
  for (const time of [at('2026-11-01T00:00:00Z'), close - DAY, close - 1n])
    expect(nextClose(countedOf(once), time)).toBe(close);
  expect(nextClose(countedOf(once), close)).toBeNull();
});
