/** Postgres as the ledger relies on it; test/simulation/store-contract.test.ts holds the simulator's model against the same scripts. */
import { setTimeout as sleep } from 'node:timers/promises';
import { freshStore, REFERENCE } from '../support/ledger';
import { describeStoreContract } from '../support/store-contract';

jest.setTimeout(60_000);

/** Longer than a statement takes that need not wait. */
const SETTLED_MS = 150;

describeStoreContract(async () => {
  const store = await freshStore({ maxConnections: 5 });
  // The scripts write single rows, not whole decisions.
  store.damaged = true;
  await store.rows('delete from promo_store.reference_versions');
  return {
    store: store.pool,
    settle: () => sleep(SETTLED_MS),
    get: (promise) => promise,
    applyReference: async () => {
      await store.apply(REFERENCE);
    },
    close: () => store.close(),
  };
});
