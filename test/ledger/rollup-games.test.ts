/** A sender that makes up games: the ledger by day stays small, exact, and goes on. */
import { randomBytes } from 'node:crypto';
import { MOST_GAMES, OTHER_GAMES } from '../../src/rollups/days';
import { aRollupFold, foldAll } from '../support/folds';
import { aBet, aRefund, freshStore, type Json, type TestStore } from '../support/ledger';

const FURTHER = 60;
const BATCH = 2_000;

let store: TestStore;
beforeEach(async () => {
  store = await freshStore();
});
afterEach(() => store.close());

const fold = () =>
  aRollupFold(store.pool, { slice: { rows: BATCH, ms: 500 }, fill: { rows: 200_000, ms: 500 } });

const betOn = (game: string, name: string | number): Json =>
  aBet({ event_id: `b-${name}`, round_id: `r-${name}`, game: { id: game }, amount: '1.00' });
const TOTALS = `select sum(entries), sum(amount), sum(refunded), sum(net_amount), sum(reversals) from promo.ledger_daily where operator_id = 'acme'`;
const OTHERS = `select game_id, entries, amount, refunded, net_amount, reversals from promo.ledger_daily where game_id = '${OTHER_GAMES}'`;

test('beyond the limit, games of a day are counted together, with their refunds, also after a rebuild [L5]', async () => {
  const folding = fold();
  const partition = store.partition('acme');
  const all = MOST_GAMES + FURTHER;
  for (let first = 0; first < all; first += BATCH) {
    const size = Math.min(BATCH, all - first);
    await partition.read(
      ...Array.from({ length: size }, (_, index) => betOn(`made-up-${first + index}`, first + index)),
    );
    await foldAll(folding);
  }
  const rows = () => store.value(`select count(*) from promo.ledger_daily where operator_id = 'acme'`);
  expect(await rows()).toBe(String(MOST_GAMES + 1));
  expect(await store.rows(OTHERS)).toEqual([
    [OTHER_GAMES, String(FURTHER), `${FURTHER}.00`, '0', `${FURTHER}.00`, '0'],
  ]);

  // The first games keep their rows. A refund changes the row of its entry, here of the first and last game.
  await partition.read(
    betOn('made-up-0', 'again'),
    betOn(`made-up-${all - 1}`, 'again-too'),
    betOn(OTHER_GAMES, 'of-this-name'),
    aRefund({ event_id: 'x1', round_id: 'r-0', game: { id: 'made-up-0' } }),
    aRefund({ event_id: 'x2', round_id: `r-${all - 1}`, game: { id: 'new' } }),
  );
  await store.partition('bravo').read(betOn('another', 'of-another'));
  await foldAll(folding);
  const expected = [[OTHER_GAMES, String(FURTHER + 2), `${FURTHER + 2}.00`, '1', `${FURTHER + 1}.00`, '1']];
  expect(await store.rows(OTHERS)).toEqual(expected);
  expect(
    await store.rows(
      `select entries, refunded, reversals from promo.ledger_daily where game_id = 'made-up-0'`,
    ),
  ).toEqual([['2', '1', '1']]);
  expect(await store.value(`select count(*) from promo.ledger_daily where game_id = 'another'`)).toBe('1');
  expect(await rows()).toBe(String(MOST_GAMES + 1));
  const totals = [[String(all + 3), `${all + 3}.00`, '2', `${all + 1}.00`, '2']];
  expect(await store.rows(TOTALS)).toEqual(totals);

  // Slices of a rebuild are larger, and the first games are the same.
  const games = () => store.rows('select game_id, entries, refunded from promo.ledger_daily order by 1');
  const before = await games();
  await folding.rebuild('test');
  await foldAll(folding);
  expect(await store.value('select generation from promo.rollup_coverage')).toBe('2');
  expect(await store.rows(TOTALS)).toEqual(totals);
  expect(await games()).toEqual(before);
}, 120_000);

test('an id that no index can hold is counted with the other games, and the fold goes on [L5]', async () => {
  const folding = fold();
  const long = randomBytes(4_000).toString('base64');
  const partition = store.partition('acme');
  const bound = 'ü'.repeat(127);
  expect(await partition.read(betOn(long, 1), betOn(`${bound}ü`, 2), betOn(bound, 3))).toEqual([
    'accepted',
    'accepted',
    'accepted',
  ]);
  await foldAll(folding);
  await partition.read(aRefund({ event_id: 'x', round_id: 'r-1', game: { id: long } }));
  for (let batch = 0; batch < 101; batch++) await partition.read({ event_id: `no-${batch}` });
  await foldAll(folding);
  await partition.read(aRefund({ event_id: 'y', round_id: 'r-2', game: { id: long } }));
  await foldAll(folding);
  expect(
    await store.rows('select game_id, entries, refunded, reversals from promo.ledger_daily order by 1'),
  ).toEqual([
    [OTHER_GAMES, '2', '2', '2'],
    [bound, '1', '0', '0'],
  ]);
});
