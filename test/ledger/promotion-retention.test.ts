/** Promotions whose months retention drops, also in the middle of a rebuild. */
import { until } from '../../dev/servers/deadline';
import { erasePlayer } from '../../src/ledger/erasure';
import { dropMonthsBefore, planRetention } from '../../src/ledger/retention';
import { inSnapshot } from '../../src/postgres/snapshot';
import { recountPromotions } from '../../src/promotion-store/recount';
import { aPromotionFold, aRollupFold, foldAll } from '../support/folds';
import { aBet, aRefund, freshStore, type TestStore, withClient } from '../support/ledger';
import { makeMonth, monthBefore, moveBack } from '../support/old-months';
import { applyDefinitions } from '../support/promotion-progress';
import { definitionsOf } from '../support/promotions';

const BY = { requestedBy: 'ops@desk' };

let store: TestStore;
beforeEach(async () => {
  store = await freshStore({ own: true });
});
afterEach(() => store.close());

const PROGRESS = `select p.promotion_id, g.player_ref, sum(a.amount) from promo_store.promotion_progress g
join promo_store.folds f on f.fold = 'promotions' and f.generation = g.generation
join promo_store.promotion_windows w using (window_no) join promo_store.promotions p using (promotion_no)
cross join lateral unnest(g.amounts) a (amount) where a.amount <> 0 group by 1, 2 order by 1, 2`;
const HELD = `select window_no, player_ref, ordinal, attempt from promo_store.promotion_completions
group by 1, 2, 3, 4 having bool_and(change <> 1) order by 1, 2, 3, 4`;
const bet = (id: string, round = id) => aBet({ event_id: id, round_id: round, player_ref: 'p' });
const refund = (round: string) => aRefund({ event_id: `x-${round}`, round_id: round, player_ref: 'p' });
const firstOf = async (month: number) =>
  String(await store.value(`select (${monthBefore(month)} at time zone 'utc')::date::text`));
const verified = () =>
  inSnapshot(store.url, { applicationName: 'test', timeoutMs: 60_000 }, (reader) =>
    recountPromotions(reader, 1),
  );

test('retention in the middle of a rebuild, refunds of both months and an erasure leave older windows as they were [P11] [P16] [B6]', async () => {
  store.damaged = true; // Its events are moved by hand.
  await store.pool.query(`update promo_store.reference_versions set applied_at = ${monthBefore(3)}`);
  for (const months of [3, 2, 1]) await makeMonth(store, months);
  const promotions = definitionsOf(
    'id: all, type: bet_count, target: 2, completes: each',
    'id: daily, type: bet_count, target: 1, completes: each, window: { every: day }, time_zone: UTC',
  );
  await applyDefinitions(store.pool, promotions);
  const acme = store.partition('acme');
  await acme.read(bet('old-1'), bet('old-2'), bet('old-3'), bet('edge-1', 'edge'));
  await moveBack(store, 2, 'old-1', 'old-2', 'old-3', 'edge-1');
  await acme.read(bet('edge-2', 'edge'), bet('new-1'), bet('new-2'));
  const fold = aPromotionFold(store.pool);
  await foldAll(fold, 3);
  expect((await store.rows(PROGRESS))[0]).toEqual(['all', 'p', '7']);

  expect(await fold.rebuild('a check')).toBe(true);
  await dropMonthsBefore(store.url, BY, await firstOf(1));
  await acme.read(refund('old-1'), refund('edge'), refund('new-1'));
  await foldAll(fold, 3);
  // The dropped entries of refunded rounds stay counted: two kept ones are taken back.
  expect((await store.rows(PROGRESS))[0]).toEqual(['all', 'p', '5']);
  const held = await store.rows(HELD);
  expect(held.length).toBeGreaterThan(2);

  expect(await fold.rebuild('another check')).toBe(true);
  await foldAll(fold, 3);
  expect((await store.rows(PROGRESS))[0]).toEqual(['all', 'p', '5']);
  expect(await store.rows(HELD)).toEqual(held);
  await erasePlayer(store.url, BY, { operator: 'acme', player: 'p', batch: 1 }, () => undefined);
  await acme.read(refund('new-2'));
  await foldAll(fold, 3);
  expect((await store.rows(PROGRESS))[0]).toEqual(['all', 'erased:2', '4']);
  expect(await verified()).toMatchObject({ type: 'counted', recounted: { damages: [] } });
});

/** A rebuild has counted the bets of two months ago, and not yet the refund of one of them. */
async function aRebuildInTheMiddle() {
  store.damaged = true; // Its events are moved by hand.
  await store.pool.query(`update promo_store.reference_versions set applied_at = ${monthBefore(3)}`);
  // History is whole before the drop, so a rebuild would show what it counts.
  for (const months of [3, 2, 1]) await makeMonth(store, months);
  // The window begins after the dropped month, and has bets that were claimed for it before.
  const promotions = definitionsOf('id: all, type: bet_count, target: 2, completes: each');
  await applyDefinitions(store.pool, promotions);
  const acme = store.partition('acme');
  await acme.read(bet('old-1'), bet('old-2'));
  await moveBack(store, 2, 'old-1', 'old-2');
  for (let batch = 0; batch < 40; batch++) await acme.read(bet(`new-${batch}`));
  await acme.read(refund('old-1'));
  const folds = { promotions: aPromotionFold(store.pool), rollups: aRollupFold(store.pool) };
  for (const fold of Object.values(folds)) await foldAll(fold, 3);
  return folds;
}

test.each(['promotions', 'rollups'] as const)(
  'no month is dropped in the middle of a rebuild of the %s, unless the rebuild begins again [P11] [L5]',
  async (name) => {
    const folds = await aRebuildInTheMiddle();
    const before = await store.rows(PROGRESS);
    expect(before).toEqual([['all', 'p', '41']]);
    const fold = folds[name];
    expect(await fold.rebuild('a check')).toBe(true);
    const counted = `select after from promo_store.fold_generations where state = 'filling'`;
    while (Number(await store.value(counted)) < 0) await fold.step();
    const firstKept = await firstOf(1);

    expect((await planRetention(store.url, 1)).rebuilds).toEqual([{ fold: name, reason: 'a check' }]);
    await expect(dropMonthsBefore(store.url, BY, firstKept)).rejects.toThrow(
      `no month can be dropped: a rebuild of the ${name} has counted verdicts up to`,
    );
    expect((await planRetention(store.url, 1)).tables).toHaveLength(6);

    const { dropped, restarted } = await dropMonthsBefore(store.url, BY, firstKept, true);
    expect(dropped).toHaveLength(6);
    expect(restarted).toEqual([{ fold: name, reason: 'a check' }]);
    expect((await planRetention(store.url, 1)).rebuilds).toEqual([]);
    expect(await store.value(counted)).toBe('-1');
    for (const each of Object.values(folds)) await foldAll(each, 3);
    expect(await store.rows(PROGRESS)).toEqual(before);
    expect(await verified()).toMatchObject({ type: 'counted', recounted: { damages: [] } });
  },
);

test('promotions that are applied before a month is dropped count the kept months, and an older version keeps none [P11] [P21]', async () => {
  const fold = (await aRebuildInTheMiddle()).promotions;
  const promotions = definitionsOf(
    'id: all, type: bet_count, target: 3, completes: each',
    'id: more, type: bet_count, target: 10, completes: each',
  );
  await applyDefinitions(store.pool, promotions, 'recompute');
  await dropMonthsBefore(store.url, BY, await firstOf(1));
  await foldAll(fold, 3);
  expect(await store.rows(PROGRESS)).toEqual([
    ['all', 'p', '40'],
    ['more', 'p', '40'],
  ]);
  const held = `select promotion_id, version, count(*) from promo.completions where change = 'completed' and holds group by 1, 2 order by 1`;
  expect(await store.rows(held)).toEqual([
    ['all', '2', '13'],
    ['more', '1', '4'],
  ]);
  expect(await verified()).toMatchObject({ type: 'counted', recounted: { damages: [] } });
});

test('without the refusal, a rebuild counts a bet of a dropped month whose refund it reads after the drop [P11]', async () => {
  const { promotions: fold } = await aRebuildInTheMiddle();
  expect(await store.rows(PROGRESS)).toEqual([['all', 'p', '41']]);
  const held = await store.rows(HELD);
  expect(await fold.rebuild('a check')).toBe(true);
  const counted = `select after from promo_store.fold_generations where state = 'filling'`;
  while (Number(await store.value(counted)) < 0) await fold.step();
  await store.rows(
    `create or replace function promo_store.refuse_beside_rebuild() returns void language sql as ''`,
  );
  await dropMonthsBefore(store.url, BY, await firstOf(1));
  await foldAll(fold, 3);
  expect(await store.rows(PROGRESS)).toEqual([['all', 'p', '42']]);
  expect(await store.rows(HELD)).toHaveLength(held.length + 1);
});

test('no month is dropped where a rebuild has counted it since the first look [P11]', async () => {
  const { promotions } = await aRebuildInTheMiddle();
  const firstKept = await firstOf(1);
  await withClient(store.url, async (writer) => {
    // It keeps retention from its lock on the month, and no reader.
    await writer.query(`begin; delete from promo_store.history where event_id = 'old-2'`);
    const refused = expect(dropMonthsBefore(store.url, BY, firstKept)).rejects.toThrow(
      'no month can be dropped: a rebuild of the promotions',
    );
    const waits = 'select count(*) > 0 from pg_locks where not granted';
    await until('retention waits', 2_000, async () => (await store.value(waits)) === 't');
    expect(await promotions.rebuild('a check')).toBe(true);
    for (let step = 0; step < 3; step++) await promotions.step();
    await writer.query('rollback');
    await refused;
  });
  expect((await planRetention(store.url, 1)).tables).toHaveLength(6);
});
