/** The store of wallet calls on a real Postgres. The model of the simulation runs the same scripts. */
import pino from 'pino';
import { makeCallStore } from '../../src/wallet/call-store';
import { asRole } from '../support/as-role';
import { describeCallStoreContract } from '../support/call-store-contract';
import { freshStore } from '../support/ledger';
import { jump } from '../support/wallet-calls';

jest.setTimeout(300_000);

describe('the store of wallet calls [X1] [X3]', () => {
  describeCallStoreContract(async () => {
    const store = await freshStore();
    return {
      store: makeCallStore(asRole(store.pool, 'wallet'), pino({ level: 'silent' })),
      pass: (seconds) => jump(store.pool, seconds),
      close: () => store.close(),
    };
  });
});
