/** What `status` reads about the pseudonyms, as the role of a worker. */
import { randomBytes } from 'node:crypto';
import { makeFold } from '../../src/fold/fold';
import { readFoldCoverage } from '../../src/ledger/fold-coverage';
import { grantRoles } from '../../src/ledger/roles';
import { asPseudonymKey } from '../../src/pseudonyms/pseudonym';
import { makePseudonymResults } from '../../src/pseudonyms/pseudonyms';
import { makeRotation } from '../../src/pseudonyms/rotation';
import { asRole } from '../support/as-role';
import { aLogin, freshStore } from '../support/ledger';
import { dropRoles, makeRole } from '../support/roles';

const LEASE = { holder: 'test', leaseMs: 10_000 };
const SLICE = { rows: 1_000, ms: 500 };
const nextKey = () => asPseudonymKey(randomBytes(32));

test('null before the first pseudonym, then the lag, whether a process works, and a new key [Y3 Y5]', async () => {
  const store = await freshStore();
  const worker = await makeRole(store.url, 'worker');
  await grantRoles(store.url, [{ role: 'writer', name: worker.name }]);
  const coverage = () => readFoldCoverage(worker.url, 'pseudonyms');
  try {
    expect(await coverage()).toBeNull();

    const key = nextKey();
    await store.partition('acme').read(aLogin({ player_ref: 'ann' }), aLogin({ player_ref: 'ben' }));
    const rotation = makeRotation(asRole(store.pool, 'pseudonyms'), {
      ...LEASE,
      keys: [key, undefined],
      replacesLostKey: false,
      most: 1,
    });
    while ((await rotation.step()).kind !== 'settled');
    const results = makePseudonymResults(key, () => undefined);
    const fold = makeFold(asRole(store.pool, 'pseudonyms'), results, {
      ...LEASE,
      slice: SLICE,
      fill: SLICE,
      now: () => performance.now(),
    });
    while ((await fold.step()).kind !== 'idle');
    expect(await coverage()).toEqual({
      lagSeconds: expect.any(Number),
      isRunning: true,
      heldByPid: null,
      isFilling: false,
    });
    await fold.release();
    expect(await coverage()).toMatchObject({ isRunning: false, isFilling: false });

    await makeRotation(asRole(store.pool, 'pseudonyms'), {
      ...LEASE,
      keys: [nextKey(), key],
      replacesLostKey: false,
      most: 1,
    }).step();
    expect(await coverage()).toMatchObject({ isFilling: true });
  } finally {
    await dropRoles(store.url, [worker.name]);
    await store.close();
  }
});
