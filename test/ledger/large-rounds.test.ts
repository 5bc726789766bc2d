/** Refunds of large rounds take back sums, and read few entries (P11). */
import { makeFold } from '../../src/fold/fold';
import { inSnapshot } from '../../src/postgres/snapshot';
import { inTransaction } from '../../src/postgres/transaction';
import { recountPromotions } from '../../src/promotion-store/recount';
import { makePromotionResults } from '../../src/promotion-store/results';
import { OldRecords } from '../../src/promotion-store/round-records';
import { asRole } from '../support/as-role';
import { attribute, BONUS, NORMAL } from '../support/attributions';
import { foldAll } from '../support/folds';
import { aBet, aRefund, damagesOf, freshStore, type TestStore } from '../support/ledger';
import { applyDefinitions } from '../support/promotion-progress';
import { definitionsOf } from '../support/promotions';

let store: TestStore;
beforeEach(async () => {
  store = await freshStore({ own: true });
});
afterEach(() => store.close());

const BETS = 'id: bets, type: bet_count, target: 3, completes: each, window: { every: day }, time_zone: UTC';
const EURO =
  'id: sum, type: turnover_target, counts: bet, min_amount: { EUR: "1.00" }, target: { EUR: "5.00" }';

async function apply(...flows: readonly string[]): Promise<void> {
  await applyDefinitions(store.pool, definitionsOf(...flows), 'recompute');
}

/** Rounds with more than two entries are large. */
async function fold(): Promise<void> {
  let time = 0;
  const goal = { rows: 1_000, ms: 60_000 };
  const limits = { pageRows: 2, stepRows: 10, largeRound: 2 };
  const asPromotions = asRole(store.pool, 'promotions');
  const made = makeFold(asPromotions, makePromotionResults(asPromotions, limits), {
    holder: 'test',
    leaseMs: 60_000,
    slice: goal,
    fill: goal,
    now: () => (time += 20_000),
  });
  await foldAll(made, 3);
}

const bet = (id: string, fields: Parameters<typeof aBet>[0] = {}) =>
  aBet({ event_id: id, round_id: 'r-a', player_ref: NORMAL, amount: '2.00', currency: 'EUR', ...fields });
const refund = () => aRefund({ event_id: 'x', round_id: 'r-a', player_ref: NORMAL });

/** Reads each bet by itself, and folds after it. */
async function play(...bets: readonly ReturnType<typeof aBet>[]): Promise<void> {
  for (const each of bets) {
    await store.partition('acme').read(each);
    await fold();
  }
}

const sums = () =>
  store.rows(`select m.promotion_id, s.player_ref, s.amount from promo_store.promotion_round_sums s
join promo_store.promotion_windows w using (window_no) join promo_store.promotions m using (promotion_no)
where s.generation = (select generation from promo_store.folds where fold = 'promotions') order by 1, 2, 3`);
/** The values that are not zero. */
const progress = () =>
  store.rows(`select m.promotion_id, p.player_ref, p.amounts[1] from promo_store.promotion_progress p
join promo_store.promotion_windows w using (window_no) join promo_store.promotions m using (promotion_no)
where p.generation = (select generation from promo_store.folds where fold = 'promotions') and p.amounts[1] <> 0 order by 1, 2, 3`);
const recount = () =>
  inSnapshot(store.url, { applicationName: 'test', timeoutMs: 10_000 }, (reader) =>
    recountPromotions(reader, 1),
  );

/** Afterwards, no entry that is summed can be found by its record. */
const hideSummed = () => store.rows('delete from promo_store.promotion_rounds where is_summed');

test('a refund takes the sums of a large round back, and reads the entries before and beside them alone [P11]', async () => {
  await apply(BETS, EURO);
  await play(bet('a'), bet('b'));
  expect(await sums()).toEqual([]);
  await play(bet('c'), bet('d', { amount: '0.50' }), bet('kept', { round_id: 'r-b' }));
  expect(await sums()).toEqual([
    ['bets', NORMAL, '2'],
    ['sum', NORMAL, '200'],
  ]);
  await hideSummed();
  // The slice of the refund has an entry of the round, too.
  await store.partition('acme').read(bet('e'), refund());
  await fold();
  expect(await progress()).toEqual([
    ['bets', NORMAL, '1'],
    ['sum', NORMAL, '200'],
  ]);
  expect(await damagesOf(store.pool)).toEqual([]);
});

test('a round that is large in its first slice is summed as a whole, in the windows of each entry [P3] [P11]', async () => {
  await apply(BETS);
  const ofDay = (id: string, day: number) => bet(id, { occurred_at: `2026-01-0${day}T12:00:00Z` });
  await store
    .partition('acme')
    .read(ofDay('a', 1), ofDay('b', 1), ofDay('c', 2), ofDay('d', 2), ofDay('e', 2));
  await fold();
  expect(await sums()).toEqual([
    ['bets', NORMAL, '2'],
    ['bets', NORMAL, '3'],
  ]);
  await hideSummed();
  await play(refund());
  expect(await progress()).toEqual([]);
  const changes = await store.rows('select change from promo_store.promotion_completions order by entry_no');
  expect(changes).toEqual([['0'], ['1']]);
});

test('sums are counted again in time where the statistics lack the rounds of a new generation [P11] [P16]', async () => {
  await apply(BETS);
  await play(bet('a'), bet('b'), bet('c'), bet('d'));
  const recorded = (
    generation: string,
    count: number,
  ) => `insert into promo_store.promotion_rounds (generation, round_no, last_no, newest_at, entries, verdict_ids, places)
select ${generation}, -i, 0, now(), 1, '{0}', '{"(0,1)"}' from generate_series(1, ${count}) i`;
  await store.rows('alter table promo_store.promotion_rounds set (autovacuum_enabled = false)');
  await store.rows(recorded('9', 60_000));
  await store.rows('analyze promo_store.promotion_rounds');
  await store.rows(recorded(`(select generation from promo_store.folds where fold = 'promotions')`, 60_000));
  expect(await recount()).toMatchObject({ recounted: { inAll: 0 } });
});

test('a refund takes the sums from the player to whom the round is credited by then, brand by brand [B4] [P11]', async () => {
  await apply(BETS);
  await play(...['a', 'b', 'c', 'd'].map((id) => bet(id)), bet('e', { brand: 'second' }));
  await attribute(store, 'r-a', BONUS, { brand: 'main' });
  await fold();
  expect(await progress()).toEqual([
    ['bets', BONUS, '4'],
    ['bets', NORMAL, '1'],
  ]);
  await play(refund());
  expect(await progress()).toEqual([]);
});

test('an erasure gives the sums of a player to erased:N, and joins those of a slice between its calls [B6] [P11]', async () => {
  await apply(BETS);
  await play(...['a', 'b', 'c', 'd'].map((id) => bet(id)));
  const [[erasure = null] = []] = await store.rows(
    `select erasure_no from promo.erase_player('acme', $1, 1)`,
    [NORMAL],
  );
  expect(await sums()).toEqual([['bets', 'erased:1', '2']]);
  await play(bet('e'));
  expect(await sums()).toEqual([
    ['bets', 'erased:1', '2'],
    ['bets', NORMAL, '1'],
  ]);
  for (let isDone: string | null = 'f'; isDone !== 't'; )
    isDone = await store.value(`select is_done from promo.erase_player('acme', $1, 100, $2)`, [
      NORMAL,
      erasure,
    ]);
  expect(await sums()).toEqual([['bets', 'erased:1', '3']]);
  await play(refund());
  expect(await progress()).toEqual([]);
});

test('an erasure finds sums of a generation that an older process has swept [B6]', async () => {
  await apply(BETS);
  await play(...['a', 'b', 'c', 'd'].map((id) => bet(id)));
  // As the sweep of an older process leaves them: it knows no sums.
  await store.rows('update promo_store.promotion_round_sums set generation = 4711');
  await store.rows(`select promo.erase_player('acme', $1)`, [NORMAL]);
  expect(await store.rows('select generation, player_ref from promo_store.promotion_round_sums')).toEqual([
    ['4711', 'erased:1'],
  ]);
});

test('a refund takes nothing back from a promotion that was removed before, and all of it once it is back [P11] [P17]', async () => {
  await apply(BETS, EURO);
  await play(...['a', 'b', 'c', 'd'].map((id) => bet(id)));
  await apply(EURO);
  await play(bet('e'), refund());
  expect(await progress()).toEqual([['bets', NORMAL, '4']]);
  await apply(BETS, EURO);
  for (let rebuilt = 0; rebuilt < 2; rebuilt++) await fold();
  expect(await progress()).toEqual([]);
});

test('a rebuild sums again, and the sums of the generation before are deleted [P16]', async () => {
  await apply(BETS);
  await play(...['a', 'b', 'c', 'd'].map((id) => bet(id)));
  await apply(BETS.replace('target: 3', 'target: 2'));
  await fold();
  await fold();
  const generations = await store.rows('select distinct generation from promo_store.promotion_round_sums');
  expect(generations).toEqual([
    [await store.value(`select generation::text from promo_store.folds where fold = 'promotions'`)],
  ]);
  await hideSummed();
  await play(refund());
  expect(await progress()).toEqual([]);
});

test('a refund takes back no sum of a dropped month, and the sum is deleted then [P11]', async () => {
  await apply(BETS);
  await play(...['a', 'b', 'c', 'd'].map((id) => bet(id)));
  await store.rows(`update promo_store.promotion_round_sums set month = '2020-01-01'`);
  await store.rows(
    `insert into promo_store.months (parent, month, made_at, dropped_at) values ('history', '2020-01-01', '2020-01-01', now())`,
  );
  await store.partition('acme').read(refund());
  await fold();
  expect(await progress()).toEqual([['bets', NORMAL, '2']]);
  expect(await sums()).toEqual([]);
  const generation = Number(
    await store.value(`select generation from promo_store.folds where fold = 'promotions'`),
  );
  expect(await inTransaction(store.pool, (session) => new OldRecords().drop(session, generation))).toBe(0);
});

test('a recount compares no sum of a dropped month, and names it before the drop [P11] [P16]', async () => {
  store.damaged = true;
  await apply(BETS);
  await play(...['a', 'b', 'c', 'd'].map((id) => bet(id)));
  await store.rows(`insert into promo_store.promotion_round_sums
select generation, round_no, '2020-01-01', window_no, player_ref, brand_id, item, currency, amount from promo_store.promotion_round_sums`);
  const what = expect.stringMatching(/ in 2020-01 is 2, and its entries give nothing$/);
  expect(await recount()).toMatchObject({ recounted: { damages: [{ what }] } });
  await store.rows(
    `insert into promo_store.months (parent, month, made_at, dropped_at) values ('history', '2020-01-01', '2020-01-01', now())`,
  );
  expect(await recount()).toMatchObject({ recounted: { damages: [] } });
});

test('a recount compares no sums of an operator beside an erasure that was broken off [B6] [P16]', async () => {
  await apply(BETS);
  await play(...['a', 'b', 'c', 'd'].map((id) => bet(id)));
  // The first call reaches one of the two entries that are summed, and gives its name to their sum.
  await store.rows(`select promo.erase_player('acme', $1, 3)`, [NORMAL]);
  await store.rows(`select promo.erase_player('acme', $1, 100)`, [NORMAL]);
  const names = `select player_ref, count(*) from promo.verdicts group by 1 order by 1`;
  expect(await store.rows(names)).toEqual([
    ['erased:1', '3'],
    ['erased:2', '1'],
  ]);
  expect(await sums()).toEqual([['bets', 'erased:1', '2']]);
  expect(await recount()).toMatchObject({ recounted: { damages: [] } });
});

test('entries that an older process has recorded without sums are read beside the sums [P11]', async () => {
  await apply(BETS);
  await play(...['a', 'b', 'c', 'd'].map((id) => bet(id)));
  await play(bet('e'));
  // As an older process leaves its row.
  await store.rows(`update promo_store.promotion_rounds set is_summed = false, entries_before = 0
where last_no = (select max(last_no) from promo_store.promotion_rounds)`);
  await store.rows('update promo_store.promotion_round_sums set amount = amount - 1');
  await play(bet('f'), bet('g'), bet('h'));
  expect(await sums()).toEqual([['bets', NORMAL, '4']]);
  expect(await recount()).toMatchObject({ recounted: { damages: [] } });
  await play(refund());
  expect(await progress()).toEqual([]);
});

test('a refund that has an earlier time than the removal takes back what a recount takes back [P11] [P16]', async () => {
  await apply(BETS, EURO);
  await play(...['a', 'b', 'c'].map((id) => bet(id)));
  await apply(EURO);
  await play(bet('d'), bet('e'));
  await store.partition('acme').read(refund());
  await store.rows(`update promo_store.refunds set refunded_at = v.removed_at - interval '1 second'
from promo_store.promotion_versions v where v.removed_at is not null`);
  await fold();
  expect(await recount()).toMatchObject({ type: 'counted', recounted: { damages: [], skipped: 0 } });
});

test.each([
  [
    'is changed',
    'update promo_store.promotion_round_sums set amount = amount + 1 where amount = 200',
    / in \d{4}-\d\d is EUR 201( and USD 300)?, and its entries give EUR 200\1?$/,
  ],
  [
    'is missing',
    'delete from promo_store.promotion_round_sums where amount = 200',
    / is (nothing, and its entries give EUR 200|USD 300, and its entries give EUR 200 and USD 300)$/,
  ],
  [
    'is of another player',
    `update promo_store.promotion_round_sums set player_ref = 'nobody' where amount = 200`,
    / is (nothing|EUR 200|USD 300), and its entries give (nothing|EUR 200( and USD 300)?)$/,
  ],
  [
    'is in another currency',
    'update promo_store.promotion_round_sums set amount = 500 - amount where amount in (200, 300) and brand_id = $$main$$',
    /^the sum of the round number \d+ in \d{4}-\d\d is EUR 300 and USD 200, and its entries give EUR 200 and USD 300$/,
  ],
])('a recount names a sum that %s, before a refund takes it back [P11] [P16]', async (_, damage, what) => {
  store.damaged = true;
  await apply(BETS, EURO.replaceAll('.00" }', '.00", USD: "1.00" }'));
  await play(bet('a'), bet('b'), bet('c'), bet('d', { amount: '0.50' }), bet('e', { brand: 'second' }));
  await play(bet('f', { amount: '3.00', currency: 'USD' }));
  await attribute(store, 'r-a', BONUS, { brand: 'main' });
  await fold();
  expect(await recount()).toMatchObject({ recounted: { damages: [] } });
  await store.rows(damage);
  const source = 'acme/sum/once';
  const found = await recount();
  if (found.type !== 'counted') throw new Error(found.reason);
  expect(new Set(found.recounted.damages.map((each) => each.source))).toEqual(new Set([source]));
  for (const each of found.recounted.damages) expect(each.what).toMatch(what);
});

test('the invariants name a sum without a window [P16]', async () => {
  await apply(BETS);
  await play(...['a', 'b', 'c', 'd'].map((id) => bet(id)));
  await store.rows('update promo_store.promotion_round_sums set window_no = 4711');
  store.damaged = true;
  const [damage] = await damagesOf(store.pool);
  expect(damage).toEqual(
    expect.arrayContaining(['I7', expect.stringMatching(/of a window that does not exist/)]),
  );
});
