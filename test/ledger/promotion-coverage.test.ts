/** What `status` reads about promotions, as the role of a worker. */
import { makeFold } from '../../src/fold/fold';
import { readPromotionCoverage } from '../../src/ledger/fold-coverage';
import { grantRoles } from '../../src/ledger/roles';
import { makePromotionResults } from '../../src/promotion-store/results';
import { asRole } from '../support/as-role';
import { aLogin, freshStore } from '../support/ledger';
import { dropRoles, makeRole } from '../support/roles';

test('null before promotions are counted, then the lag, whether a process works, and a rebuild [P16]', async () => {
  const store = await freshStore();
  const worker = await makeRole(store.url, 'worker');
  await grantRoles(store.url, [{ role: 'writer', name: worker.name }]);
  const coverage = () => readPromotionCoverage(worker.url);
  try {
    expect(await coverage()).toBeNull();

    await store.partition('acme').read(aLogin({ player_ref: 'ann' }));
    const fold = makeFold(asRole(store.pool, 'promotions'), makePromotionResults(), {
      ...{ holder: 'test', leaseMs: 10_000, now: () => performance.now() },
      ...{ slice: { rows: 1_000, ms: 500 }, fill: { rows: 1_000, ms: 500 } },
    });
    while ((await fold.step()).kind !== 'idle');
    expect(await coverage()).toEqual({ lagSeconds: expect.any(Number), isRunning: true, isRebuilt: false });
    await fold.rebuild('a test');
    expect(await coverage()).toMatchObject({ isRebuilt: true });
    await fold.release();
    expect(await coverage()).toMatchObject({ isRunning: false });
  } finally {
    await dropRoles(store.url, [worker.name]);
    await store.close();
  }
});
