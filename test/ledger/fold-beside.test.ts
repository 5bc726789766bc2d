/**
 * Slices by two connections, one of which is lost. A slice that fails stores nothing, and the next one counts
 * the same (docs/rules.md, P16, L5).
 */
import { inRun } from '../../dev/long-run';
import { makeRandom } from '../../dev/random';
import { until } from '../../dev/servers/deadline';
import type { Fold } from '../../src/fold/fold';
import type { Statement, Store } from '../../src/postgres/transaction';
import { creditRound } from '../support/attributions';
import { aPromotionFold, aRollupFold, foldAll } from '../support/folds';
import { freshStore, type TestStore } from '../support/ledger';
import { eventBytes, FLOWS, feedOf } from '../support/promotion-feeds';
import { applyDefinitions } from '../support/promotion-progress';
import { definitionsOf } from '../support/promotions';

/** A usual run loses a connection at each fourth message. */
const STEP = inRun({ usual: 4, long: 1, variable: 'BESIDE_STEP' });
const WITHIN_MS = 20_000;
jest.setTimeout(300_000);

let store: TestStore;
beforeEach(async () => {
  store = await freshStore();
});
afterEach(() => store.close());

const BACKEND: Statement = { name: 'test_backend', text: 'select pg_backend_pid()' };

/** Connections of the store, one of which Postgres ends before one of its messages. */
class CutStore implements Store {
  /** The messages since `watch`. */
  messages: string[] = [];
  private cutAt = Number.POSITIVE_INFINITY;
  /** Connections in use. */
  used = 0;

  constructor(private readonly store: Store) {}

  watch(cutAt = Number.POSITIVE_INFINITY): void {
    this.messages = [];
    this.cutAt = cutAt;
  }

  async acquire() {
    const connection = await this.store.acquire();
    const [[backend] = []] = await connection.query(BACKEND);
    this.used++;
    const passing = async <T>(name: string, send: () => Promise<T>): Promise<T> => {
      if (this.messages.push(name) - 1 === this.cutAt) await endBackend(backend ?? '');
      return send();
    };
    return {
      begin: () => connection.begin(),
      query: (statement: Statement, values?: readonly unknown[]) =>
        passing(statement.name, () => connection.query(statement, values)),
      write: (writes: Parameters<typeof connection.write>[0]) =>
        passing(writes.at(-1)?.name ?? '', () => connection.write(writes)),
      release: (isClean: boolean) => {
        this.used--;
        connection.release(isClean);
      },
    };
  }
}

const endBackend = (backend: string) => store.value('select pg_terminate_backend($1, 5000)', [backend]);

async function readFeed(seed: number): Promise<void> {
  const { events, credits } = feedOf(makeRandom(seed));
  const acme = store.partition('acme');
  for (let from = 0; from < events.length; from += 40)
    await acme.read(...events.slice(from, from + 40).map(eventBytes));
  for (const credit of credits) await creditRound(store, credit);
}

/** A fold, and the query of its result. */
interface Subject {
  readonly fold: 'promotions' | 'rollups';
  readonly make: (first: Store, second: Store) => Fold;
  readonly shown: string;
}

const SUBJECTS: readonly Subject[] = [
  {
    fold: 'promotions',
    make: (first, second) => aPromotionFold(first, 20, undefined, second),
    shown: `select window_no, player_ref, items, currencies, amounts, score, scored_no from promo_store.promotion_progress
where generation = (select generation from promo_store.folds where fold = 'promotions')
  and (score <> 0 or exists (select from unnest(amounts) amount where amount <> 0)) order by 1, 2`,
  },
  {
    fold: 'rollups',
    make: (first, second) => aRollupFold(first, {}, second),
    shown: 'select * from promo.ledger_daily order by ledger_daily::text',
  },
];
const CURSORS =
  'select generation, state, after from promo_store.fold_generations where fold = $1 order by generation';

test.each(SUBJECTS)(
  '$fold: a connection that is lost at any message of a slice by two leaves nothing, and the next slice counts all [P16] [L5]',
  async ({ fold: name, make, shown }) => {
    const promotions = definitionsOf(...Object.values<string>(FLOWS));
    await applyDefinitions(store.pool, promotions);
    await readFeed(7);
    const before = make(store.pool, store.pool);
    await foldAll(before);
    await before.release();
    const counted = await store.rows(shown);
    expect(counted.length).toBeGreaterThan(10);
    const lost = { first: 0, second: 0 };
    for (const which of ['first', 'second'] as const) {
      const stores = { first: new CutStore(store.pool), second: new CutStore(store.pool) };
      let isStored = false;
      for (let point = 0; !isStored; point += STEP) {
        const fold = make(stores.first, stores.second);
        await fold.rebuild('test');
        const cursors = await store.rows(CURSORS, [name]);
        stores.first.watch(which === 'first' ? point : undefined);
        stores.second.watch(which === 'second' ? point : undefined);
        isStored = await fold.step().then(
          () => true,
          () => false,
        );
        if (!isStored) lost[which]++;
        const where = `${which} ${point} of ${stores[which].messages}`;
        if (!isStored) expect([where, await store.rows(CURSORS, [name])]).toEqual([where, cursors]);
        // Where the first connection is lost, the second one may read for a moment longer.
        await until(
          `no connection is in use: ${where}`,
          WITHIN_MS,
          () => stores.first.used + stores.second.used === 0,
        );
        for (const each of Object.values(stores)) each.watch();
        await fold.release();
      }
      const after = make(stores.first, stores.second);
      await foldAll(after);
      await after.release();
      expect(await store.rows(shown)).toEqual(counted);
    }
    expect(Math.min(lost.first, lost.second)).toBeGreaterThan(0);
  },
);
