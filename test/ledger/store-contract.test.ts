/**
 * The behaviour of Postgres on which the ledger relies. test/simulation/store-contract.test.ts runs the same
 * scripts against the simulator's model.
 */
import { setTimeout as sleep } from 'node:timers/promises';
import { until } from '../../dev/servers/deadline';
import { freshStore, REFERENCE } from '../support/ledger';
import { describeStoreContract } from '../support/store-contract';

jest.setTimeout(300_000);

/** Longer than a statement takes that does not wait. */
const SETTLED_MS = 300;

const RUNNING = `select count(*) from pg_stat_activity where datname = current_database() and pid <> pg_backend_pid()
  and backend_type = 'client backend' and state = 'active' and wait_event_type is distinct from 'Lock'`;

describeStoreContract(async () => {
  const store = await freshStore({ maxConnections: 6 });
  // The scripts write single rows, not whole decisions.
  store.damaged = true;
  await store.rows('delete from promo_store.reference_versions');
  return {
    store: store.pool,
    async settle() {
      await sleep(SETTLED_MS);
      await until(
        'all running statements wait for a lock',
        60_000,
        async () => (await store.value(RUNNING)) === '0',
      );
    },
    get: (promise) => promise,
    applyReference: async () => {
      await store.apply(REFERENCE);
    },
    close: () => store.close(),
  };
});
