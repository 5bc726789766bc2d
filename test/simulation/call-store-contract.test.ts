/** The model of the store of wallet calls behaves as the real one: the same scripts. */
import { describeCallStoreContract } from '../support/call-store-contract';
import { CallStoreModel, callStoreOver } from './wallet-store';

describeCallStoreContract(async () => {
  let now = Date.UTC(2026, 10, 27);
  return {
    store: callStoreOver(new CallStoreModel(() => now), async (_, run) => run()),
    async pass(seconds) {
      now += seconds * 1_000;
    },
    close: async () => undefined,
  };
});
