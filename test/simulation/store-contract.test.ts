/**
 * Runs the scripts of the store contract on the model of the store. test/ledger/store-contract.test.ts runs
 * them on Postgres.
 */
import { makeRandom } from '../../dev/random';
import { describeStoreContract } from '../support/store-contract';
import { Actor, Scheduler } from './scheduler';
import { ModelPool } from './store-client';
import { StoreModel } from './store-model';

describe.each([1, 2, 3, 4, 5])('with seed %d', (seed) => {
  describeStoreContract(async () => {
    const scheduler = new Scheduler(makeRandom(seed), false);
    const store = new StoreModel(scheduler, makeRandom(seed + 100), () => undefined);
    const network = {
      scheduler,
      store,
      isStoreAway: false,
      connections: new Set<never>(),
      faults: { at: () => null, took: () => undefined, lasts: () => undefined },
      onDefect: (error: unknown) => {
        throw error;
      },
    };
    return {
      store: new ModelPool(network, new Actor('test'), 5),
      async settle() {
        await new Promise((resolve) => setImmediate(resolve));
        while (scheduler.isBusy) await scheduler.step();
      },
      async get(promise) {
        const state = { isOver: false };
        const over = promise.finally(() => {
          state.isOver = true;
        });
        over.catch(() => undefined);
        await new Promise((resolve) => setImmediate(resolve));
        while (!state.isOver) {
          if (!(await scheduler.step())) throw new Error('nothing can happen any more');
        }
        return over;
      },
      async applyReference() {
        store.references.push({ since: ++store.committed, appliedAt: '1', document: '{}' });
      },
      close: async () => undefined,
    };
  });
});
