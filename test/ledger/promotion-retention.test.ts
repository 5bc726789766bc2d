/** Promotions whose months retention drops, also in the middle of a rebuild. */
import { dropMonthsBefore, erasePlayer } from '../../src/ledger/operations';
import { inSnapshot } from '../../src/postgres/snapshot';
import { applyPromotions } from '../../src/promotion-store/documents';
import { recountPromotions } from '../../src/promotion-store/recount';
import { aPromotionFold, foldAll } from '../support/folds';
import { aBet, aRefund, freshStore, type TestStore } from '../support/ledger';
import { makeMonth, monthBefore, moveBack } from '../support/old-months';
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

test('retention in the middle of a rebuild, refunds of both months and an erasure leave older windows as they were [P11] [P16] [B6]', async () => {
  store.damaged = true; // Its events are moved by hand.
  await store.pool.query(`update promo_store.reference_versions set applied_at = ${monthBefore(3)}`);
  for (const months of [3, 2, 1]) await makeMonth(store, months);
  const promotions = definitionsOf(
    'id: all, type: bet_count, target: 2, completes: each',
    'id: daily, type: bet_count, target: 1, completes: each, window: { every: day }, time_zone: UTC',
  );
  const application = { by: 'anna', reason: null, takeover: 'next_window' } as const;
  await applyPromotions(store.pool, { promotions }, application, () => true);
  const acme = store.partition('acme');
  await acme.read(bet('old-1'), bet('old-2'), bet('old-3'), bet('edge-1', 'edge'));
  await moveBack(store, 2, 'old-1', 'old-2', 'old-3', 'edge-1');
  await acme.read(bet('edge-2', 'edge'), bet('new-1'), bet('new-2'));
  const fold = aPromotionFold(store.pool);
  await foldAll(fold, 3);
  expect((await store.rows(PROGRESS))[0]).toEqual(['all', 'p', '7']);

  expect(await fold.rebuild('a check')).toBe(true);
  const [firstKept = ''] =
    (await store.rows(`select (${monthBefore(1)} at time zone 'utc')::date::text`))[0] ?? [];
  await dropMonthsBefore(store.url, BY, firstKept ?? '');
  const refund = (round: string) => aRefund({ event_id: `x-${round}`, round_id: round, player_ref: 'p' });
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
  const access = { applicationName: 'test', timeoutMs: 60_000 };
  expect(await inSnapshot(store.url, access, (reader) => recountPromotions(reader, 1))).toMatchObject({
    type: 'counted',
    recounted: { damages: [] },
  });
});
