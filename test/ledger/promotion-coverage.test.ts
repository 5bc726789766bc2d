/** What `status` reads about promotions, as the role of a worker. */
import { readFoldCoverage } from '../../src/ledger/fold-coverage';
import { grantRoles } from '../../src/ledger/roles';
import { aPromotionFold, foldAll } from '../support/folds';
import { aLogin, freshStore } from '../support/ledger';
import { dropRoles, makeRole } from '../support/roles';

test('null before promotions are counted, then the lag, whether a process works, and a rebuild [P16]', async () => {
  const store = await freshStore();
  const worker = await makeRole(store.url, 'worker');
  await grantRoles(store.url, [{ role: 'writer', name: worker.name }]);
  const coverage = () => readFoldCoverage(worker.url, 'promotions');
  try {
    expect(await coverage()).toBeNull();

    await store.partition('acme').read(aLogin({ player_ref: 'ann' }));
    const fold = aPromotionFold(store.pool, 1_000, () => performance.now());
    await foldAll(fold);
    expect(await coverage()).toEqual({
      lagSeconds: expect.any(Number),
      isRunning: true,
      heldByPid: null,
      isFilling: false,
    });
    await fold.rebuild('a test');
    expect(await coverage()).toMatchObject({ isFilling: true });
    await fold.release();
    expect(await coverage()).toMatchObject({ isRunning: false });
  } finally {
    await dropRoles(store.url, [worker.name]);
    await store.close();
  }
});
