/** The records by which a refund finds the entries of its round (P11). */
import { makeFold } from '../../src/fold/fold';
import { inTransaction } from '../../src/postgres/transaction';
import { makePromotionResults } from '../../src/promotion-store/results';
import { OldRecords } from '../../src/promotion-store/round-records';
import { aBet, aRefund, freshStore, type TestStore } from '../support/ledger';
import { applyDefinitions, foldPromotions } from '../support/promotion-progress';
import { definitionsOf } from '../support/promotions';

let store: TestStore;
beforeEach(async () => {
  store = await freshStore();
  await applyDefinitions(store.pool, definitionsOf('id: bets, type: bet_count, target: 100'));
});
afterEach(() => store.close());

const bet = (id: string, round: string) => aBet({ event_id: id, round_id: round, player_ref: 'p' });
const refund = (id: string, round: string) => aRefund({ event_id: id, round_id: round, player_ref: 'p' });

/** The number of bets that count for each player. */
const counted = () =>
  store.rows(`select player_ref, amounts[1] from promo_store.promotion_progress p
join promo_store.folds f using (generation) where f.fold = 'promotions' order by 1`);
const records = () =>
  store.rows(`select entries, cardinality(verdict_ids), cardinality(places) from promo_store.promotion_rounds
order by round_no, last_no`);

test('the entries of a round are recorded as they are counted, and a refund takes all of them back [P11]', async () => {
  const acme = store.partition('acme');
  await acme.read(bet('a', 'r-1'), bet('b', 'r-1'), bet('c', 'r-2'));
  await foldPromotions(store.pool);
  await acme.read(bet('d', 'r-1'));
  await foldPromotions(store.pool);
  expect(await records()).toEqual([
    ['2', '2', '2'],
    ['1', '1', '1'],
    ['1', '1', '1'],
  ]);
  expect(await counted()).toEqual([['p', '4']]);
  // The refund comes with an entry of its round, in one slice.
  await acme.read(bet('e', 'r-1'), refund('x', 'r-1'), refund('y', 'r-1'));
  await foldPromotions(store.pool);
  expect(await counted()).toEqual([['p', '1']]);
});

test('parts of a slice that have refunds alone take their rounds back in one slice [P11]', async () => {
  const acme = store.partition('acme');
  const rounds = ['r-1', 'r-2', 'r-3'];
  await acme.read(...rounds.map((round) => bet(round, round)), bet('kept', 'kept'));
  await foldPromotions(store.pool);
  for (const round of rounds) await acme.read(refund(`x-${round}`, round));
  const goal = { rows: 1_000, ms: 60_000 };
  const fold = makeFold(store.pool, makePromotionResults(null, { pageRows: 1, stepRows: 1, largeRound: 1 }), {
    holder: 'test',
    leaseMs: 60_000,
    slice: goal,
    fill: goal,
    now: () => performance.now(),
  });
  const before = await counted();
  expect(await fold.step()).toMatchObject({ kind: 'slice', rows: rounds.length });
  expect([before, await counted()]).toEqual([[['p', '4']], [['p', '1']]]);
});

test('a refund finds its entries by the records, not by a search of history [P11]', async () => {
  const acme = store.partition('acme');
  await acme.read(bet('a', 'r-1'));
  await foldPromotions(store.pool);
  await store.rows('delete from promo_store.promotion_rounds');
  await acme.read(refund('x', 'r-1'));
  await foldPromotions(store.pool);
  expect(await counted()).toEqual([['p', '1']]);
});

test('a refund finds entries that left their place, as an erasure or a restored dump moves them [P11] [B6]', async () => {
  const acme = store.partition('acme');
  await acme.read(bet('a', 'r-1'), bet('b', 'r-1'), bet('c', 'r-2'));
  await foldPromotions(store.pool);
  // The row of one entry gets another place, and the place of another entry has a row that is not its own.
  await store.rows(`update promo_store.history set game_id = game_id where event_id = 'a'`);
  await store.rows(
    `update promo_store.promotion_rounds set places[2] = (select ctid from promo_store.history where event_id = 'c') where entries = 2`,
  );
  await acme.read(refund('x', 'r-1'));
  await foldPromotions(store.pool);
  expect(await counted()).toEqual([['p', '1']]);
});

test('rounds from before the records are found in history, until a rebuild records them [P11]', async () => {
  const acme = store.partition('acme');
  await acme.read(bet('a', 'r-1'), bet('b', 'r-2'), bet('c', 'r-3'));
  await foldPromotions(store.pool);
  // As an older version of the process leaves them.
  await store.rows('delete from promo_store.promotion_rounds');
  await store.rows('delete from promo_store.promotion_recordings');
  await acme.read(bet('d', 'r-1'), refund('x', 'r-1'), bet('e', 'r-4'));
  await foldPromotions(store.pool);
  expect(await counted()).toEqual([['p', '3']]);
  await acme.read(refund('y', 'r-2'), refund('z', 'r-4'));
  await foldPromotions(store.pool);
  expect(await counted()).toEqual([['p', '1']]);
  expect(await store.value('select after from promo_store.promotion_recordings')).not.toBe('-1');
});

test('records are deleted once history has dropped their month', async () => {
  const acme = store.partition('acme');
  await acme.read(bet('a', 'r-1'), bet('b', 'r-2'));
  await foldPromotions(store.pool);
  const generation = Number(
    await store.value(`select generation from promo_store.folds where fold = 'promotions'`),
  );
  const old = new OldRecords();
  const drop = () => inTransaction(store.pool, (session) => old.drop(session, generation));
  expect(await drop()).toBe(0);
  expect(await records()).toHaveLength(2);
  await store.rows(
    `update promo_store.promotion_rounds set newest_at = '2020-01-01' where last_no = (select min(last_no) from promo_store.promotion_rounds)`,
  );
  expect(await drop()).toBe(0);
  expect(await records()).toHaveLength(2);
  await store.rows(
    `insert into promo_store.months (parent, month, made_at, dropped_at) values ('history', '2020-01-01', '2020-01-01', now())`,
  );
  expect([await drop(), await drop()]).toEqual([1, 0]);
  expect(await records()).toHaveLength(1);
});
