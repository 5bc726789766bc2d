/** A store of its own with months of verdicts of the operator `acme`. */
import { type FilledStore, fillStore } from '../../dev/bench/filled-store';
import { freshStore, type TestStore, withClient } from './ledger';

const USUAL = { games: 50, roundsPerRefund: 40, rejected: 0.03, eventsPerDuplicate: 200, block: 300_000 };

/** @param withinMs the deadline of the fill */
export async function filledStore(
  fill: Omit<FilledStore, keyof typeof USUAL>,
  withinMs: number,
): Promise<TestStore> {
  const store = await freshStore({ own: true });
  await store.partition('acme').read({ event_id: '' });
  await withClient(
    store.url,
    (client) =>
      withClient(store.url, (beside) => fillStore(client, 'acme', { ...USUAL, ...fill }, [beside]), withinMs),
    withinMs,
  );
  return store;
}
