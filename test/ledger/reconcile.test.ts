/** Reconciliation on a real Postgres: look-ups by id and by place, against a small model. */
import fc from 'fast-check';
import { makeReferences } from '../../src/ledger/reference-store';
import { anId, placeOf, type ReconcileEntry, readEntry, unidentified } from '../../src/reconciliation/entry';
import { makeReconciler, type Scope, scopeOf } from '../../src/reconciliation/reconciler';
import type { Standing } from '../../src/reconciliation/standing';
import { Totals } from '../../src/reconciliation/totals';
import { aBet, aLogin, freshStore, type Json, type TestStore } from '../support/ledger';

jest.setTimeout(300_000);

async function withStore(work: (store: TestStore) => Promise<void>): Promise<void> {
  const store = await freshStore();
  try {
    await work(store);
  } finally {
    await store.close();
  }
}

async function scopeIn(store: TestStore, connectionId: string): Promise<Scope> {
  const scope = scopeOf(await makeReferences(store.pool).current(), connectionId);
  if (scope === undefined) throw new Error(`no connection ${connectionId}`);
  return scope;
}

async function reconcile(
  store: TestStore,
  connectionId: string,
  entries: (scope: Scope) => readonly ReconcileEntry[],
): Promise<Standing[]> {
  const scope = await scopeIn(store, connectionId);
  return makeReconciler(store.pool, Date.now).reconcile(scope, entries(scope));
}

const eventOf = (event: Json, { connection }: Scope) =>
  readEntry(Buffer.from(JSON.stringify(event)), connection);
const inShort = ({ state, reason, action, contentDiffers }: Standing) =>
  `${state}${reason === null ? '' : `/${reason}`}${contentDiffers ? ', differs' : ''}: ${action}`;

/** An event of the model. Its id, player and amount are from small sets, so that ids and contents meet. */
const anEvent = fc.record({
  id: fc.integer({ min: 0, max: 12 }),
  player: fc.constantFrom('p-1', 'p-2'),
  amount: fc.constantFrom('0.05', '1', '1.00', '2.50', '1,5'),
});
type ModelEvent = typeof anEvent extends fc.Arbitrary<infer T> ? T : never;

const ID_FORMS: readonly ((run: number, id: number) => string)[] = [
  (run, id) => `${run}-${id}`,
  (run, id) => `00000000-0000-4000-8000-${String(run * 100 + id).padStart(12, '0')}`,
  (run, id) => `an id of more than sixteen bytes ${run} ${id}`,
];
const idOf = (run: number, id: number) => ID_FORMS[id % ID_FORMS.length]?.(run, id) ?? '';
const jsonOf = (run: number, { id, player, amount }: ModelEvent) =>
  aBet({ event_id: idOf(run, id), round_id: `r-${run}-${id}`, player_ref: player, amount });
const outcomeOf = ({ amount }: ModelEvent) => {
  if (amount === '1,5') return 'rejected/bad_amount';
  return amount === '0.05' ? 'skipped/below_min_bet' : 'accepted';
};
const contentOf = ({ player, amount }: ModelEvent) => `${player} ${amount === '1.00' ? '1' : amount}`;

/** The model: the first event of an id decides, and later ones change nothing. */
function expected(first: ModelEvent | undefined, asked: ModelEvent): string {
  if (first === undefined)
    return `never_received: ${outcomeOf(asked).startsWith('rejected') ? 'correct' : 'resend'}`;
  const outcome = outcomeOf(first);
  if (contentOf(first) !== contentOf(asked)) return `${outcome}, differs: correct`;
  return `${outcome}: ${outcome.startsWith('rejected') ? 'correct' : 'none'}`;
}

test('any file agrees with any store as a small model predicts', () =>
  withStore(async (store) => {
    const [own, foreign] = [store.partition('acme'), store.partition('bravo')];
    let run = 0;
    await fc.assert(
      fc.asyncProperty(
        fc.array(anEvent, { maxLength: 12 }),
        fc.array(anEvent, { maxLength: 6 }),
        fc.array(anEvent, { maxLength: 15 }),
        async (decided, ofOther, file) => {
          run++;
          if (decided.length > 0) await own.read(...decided.map((event) => jsonOf(run, event)));
          if (ofOther.length > 0) await foreign.read(...ofOther.map((event) => jsonOf(run, event)));
          const firsts = new Map<number, ModelEvent>();
          for (const event of decided) if (!firsts.has(event.id)) firsts.set(event.id, event);
          const scope = await scopeIn(store, 'acme-second');
          const entries = file.map((event) => eventOf(jsonOf(run, event), scope));
          const standings = await makeReconciler(store.pool, Date.now).reconcile(scope, entries);
          expect(standings.map(inShort)).toEqual(file.map((event) => expected(firsts.get(event.id), event)));
          const totals = new Totals();
          for (const [index, standing] of standings.entries())
            totals.add(entries[index] ?? unidentified(null, []), standing);
          const { states, actions } = totals.report();
          expect(states.sent).toBe(file.length);
          expect(Object.values(actions).reduce((sum, count) => sum + count, 0)).toBe(file.length);
        },
      ),
      { numRuns: 40 },
    );
  }));

test('an entry without an id is found by the place of its record', () =>
  withStore(async (store) => {
    await store
      .partition('acme')
      .read(
        aLogin({ event_id: 'first' }),
        aLogin({ event_id: undefined }),
        aLogin({ event_id: 'first', player_ref: 'another' }),
      );
    await store.partition('bravo').read(aLogin({ event_id: undefined }));
    const at = (offset: number, topic = 'acme') => unidentified(placeOf(topic, 0, String(offset)), []);
    const standings = await reconcile(store, 'acme-stream', () => [
      ...[at(1), at(2), at(3), at(0, 'bravo'), at(0, 'nowhere'), unidentified(null, [])],
      anId('unknown', placeOf('acme', 0, 7)),
    ]);
    expect(standings.map(inShort)).toEqual([
      'rejected/no_idempotency_key: correct',
      'accepted, differs: correct',
      'undecided: wait',
      ...['unidentified: correct', 'unidentified: correct', 'unidentified: correct'],
      'undecided: wait',
    ]);
    expect(standings.map(({ eventId }) => eventId).slice(0, 2)).toEqual([null, 'first']);
  }));

test('a record that waits in a cluster that was left does not wait for ever', () =>
  withStore(async (store) => {
    await store.partition('acme').read(aLogin({ event_id: 'first' }), aLogin({ event_id: 'second' }));
    await store.pool.query(
      `insert into promo_store.partitions (topic, partition, cluster_id, next_offset, updated_at) values ('acme', 0, 'left', 1, now() - interval '1 hour')`,
    );
    const at = (offset: number) => anId(`unknown ${offset}`, placeOf('acme', 0, offset));
    const standings = await reconcile(store, 'acme-stream', () => [at(1), at(2)]);
    expect(standings.map(inShort)).toEqual(['never_received: resend', 'undecided: wait']);
    store.damaged = true;
  }));

test('a dead letter is shown to its own connection, and an unclaimed one on a shared topic to none', () =>
  withStore(async (store) => {
    await store.partition('shared').attempt(0, [aLogin({ event_id: 'nobody' })]);
    expect(await store.balance('shared')).toMatchObject({ dead_letters: 1 });
    const entry = () => [anId('nobody', placeOf('shared', 0, 0))];
    for (const connection of ['acme-shared', 'bravo-shared'])
      expect((await reconcile(store, connection, entry)).map(inShort)).toEqual(['never_received: resend']);
  }));
