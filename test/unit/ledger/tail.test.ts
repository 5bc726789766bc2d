/** `tail` on a store that fails between two pages, or loses batches. */
import { MAX_BATCH_EVENTS } from '../../../src/ledger/statements/lock';
import { followVerdicts } from '../../../src/ledger/verdict-tail';
import type { Store } from '../../../src/postgres/transaction';

/** The verdicts of a store, by their ids, and the number of its last batch. */
class TailedStore implements Store {
  lastBatch = 0;
  verdicts: number[] = [];
  /** The reads of verdicts that succeed before one fails. */
  readsBeforeFailure = Number.POSITIVE_INFINITY;

  async acquire() {
    return {
      begin: async () => {},
      write: async () => {},
      release: () => {},
      query: async ({ name }: { readonly name: string }, values: readonly unknown[] = []) =>
        name === 'batches_in_flight' ? [[String(this.lastBatch), '3/7', 'f']] : this.read(values),
    };
  }

  decide(batch: number, count: number): void {
    this.lastBatch = batch;
    for (let place = 0; place < count; place++) this.verdicts.push(batch * MAX_BATCH_EVENTS + place);
  }

  private read([after, end]: readonly unknown[]): string[][] {
    if (this.readsBeforeFailure-- === 0) throw new Error('the store is away');
    return this.verdicts
      .filter((id) => id > Number(after) && id < Number(end))
      .slice(0, 2_000)
      .map((id) => [String(id), 'acme', 'acme', `e-${id}`]);
  }
}

async function following(store: Store) {
  const tail = await followVerdicts(store, {});
  const shown: string[] = [];
  return {
    shown,
    poll: () =>
      tail.poll(async (found) => {
        shown.push(...found.map(({ event_id }) => event_id));
      }),
  };
}

const idsOf = ({ verdicts }: TailedStore) => verdicts.map((id) => `e-${id}`);

test('a failure between two pages shows no verdict twice, and passes none over [T1]', async () => {
  const store = new TailedStore();
  const { poll, shown } = await following(store);
  for (const batch of [1, 2, 3, 4]) store.decide(batch, 1_500);
  store.readsBeforeFailure = 2;
  await expect(poll()).rejects.toThrow('the store is away');
  expect(shown).toHaveLength(4_000);
  await poll();
  await poll();
  expect(shown).toEqual(idsOf(store));
});

test('numbers that are given again are shown, also while an old transaction is in flight [T1]', async () => {
  const store = new TailedStore();
  const { poll, shown } = await following(store);
  for (const batch of [1, 2, 3]) store.decide(batch, 1);
  expect(await poll()).toBeNull();
  store.verdicts = [];
  store.lastBatch = 1;
  expect(await poll()).toBe(2);
  store.decide(2, 2);
  expect(await poll()).toBeNull();
  expect(shown.slice(3)).toEqual(idsOf(store));
});
