/** Reference data in force: applied as a whole, never stale, and removed entries are no longer used. */
import type { OperatorEntry, ReferenceDocument } from '../../src/domain/reference';
import { undecidedCause } from '../../src/intake/undecided';
import { applyReference, makeReferences } from '../../src/ledger/reference-store';
import { removals } from '../../src/reference-file/reference-file';
import { aBet, aDeposit, asRead, freshStore, REFERENCE, type TestStore } from '../support/ledger';

let store: TestStore;
beforeEach(async () => {
  store = await freshStore();
});
afterEach(() => store.close());

const [ACME, BRAVO] = REFERENCE.operators;

/** The reference data with Acme changed. */
function withAcme(change: (acme: OperatorEntry) => Partial<OperatorEntry>): ReferenceDocument {
  if (ACME === undefined || BRAVO === undefined) throw new Error('no Acme');
  return { operators: [{ ...ACME, ...change(ACME) }, BRAVO] };
}

const closed = withAcme(() => ({ active: false }));
const versions = async () =>
  (await store.rows('select reference_version from promo.verdicts order by verdict_id')).flat();

test('each verdict has the version that decided it, and applying the same data creates none [C6] [C9]', async () => {
  const acme = store.partition('acme');
  await acme.read(aBet());
  expect(await store.apply({ ...REFERENCE })).toBe(1);
  await acme.read(aBet());
  expect(await store.apply(closed)).toBe(2);
  await acme.read(aBet());
  expect(await versions()).toEqual(['1', '1', '2']);
});

test('a worker with old data in memory uses the data that was applied between two of its batches [C9] [V8]', async () => {
  const workers = [store.writer().partition('acme', 0), store.writer().partition('acme', 1)];
  for (const worker of workers) expect(await worker.read(aBet())).toEqual(['accepted']);
  await store.apply(closed);
  for (const worker of workers) expect(await worker.read(aBet())).toEqual(['rejected/operator_inactive']);
  await store.apply(REFERENCE);
  for (const worker of workers) expect(await worker.read(aBet())).toEqual(['accepted']);
  expect(await versions()).toEqual(['1', '1', '2', '2', '3', '3']);
});

test('data with the number of a lost version is used, although a worker knows the number [C9]', async () => {
  const acme = store.writer().partition('acme', 0);
  await store.apply(closed);
  expect(await acme.read(aBet())).toEqual(['rejected/operator_inactive']);
  // Like a standby that takes over without having received the data, after which other data is applied.
  await store.rows('delete from promo_store.reference_versions where version = 2');
  expect(await store.apply(withAcme(() => ({ catalogue: [], active: true })))).toBe(1);
  expect(await store.apply(withAcme(() => ({ catalogue: [{ id: 'g1', active: true }] })))).toBe(2);
  expect(await acme.read(aBet())).toEqual(['skipped/game_unknown']);
});

test('a store that lost the data of a worker judges nothing by older data, until the data is applied again [C9] [V8]', async () => {
  const acme = store.writer().partition('acme', 0);
  await store.apply(withAcme(() => ({ catalogue: [{ id: 'g1', active: true }] })));
  expect(await acme.read(aBet())).toEqual(['skipped/game_unknown']);
  await store.rows('delete from promo_store.reference_versions where version = 2');
  const { answers, undecided } = await acme.attempt(1, [aBet()]);
  expect([answers, undecidedCause(undecided)]).toEqual([[], 'reference']);
  expect(undecided?.message).toMatch(
    /^the store has lost version 2 of the reference data, and now has 1: apply it again/,
  );
  // A worker that starts now knows nothing of it.
  expect(await store.writer().partition('acme', 1).read(aBet())).toEqual(['accepted']);
  await store.apply(withAcme(() => ({ catalogue: [{ id: 'g1', active: true }] })));
  expect(await acme.readAt(1, aBet())).toEqual(['skipped/game_unknown']);
});

test('data that is applied during a batch is used by the next batch, and not by half of this one [C6] [C9] [D2]', async () => {
  const events = Array.from({ length: 5 }, () => aBet());
  const seen: string[][] = [];
  // Between judging and the transaction, the batch is judged again. Inside the transaction, the batch began
  // before.
  for (const moment of ['before', 'inside'] as const) {
    let applied = false;
    const apply = async () => {
      if (!applied) await store.apply(moment === 'before' ? closed : REFERENCE);
      applied = true;
    };
    const worker = store.writer({
      wrap: (ledger) => ({
        ...ledger,
        decideBatch: async (batch) => {
          if (moment === 'before') await apply();
          return ledger.decideBatch({
            ...batch,
            beforeCommit: async () => {
              if (moment === 'inside') await apply();
            },
          });
        },
      }),
    });
    seen.push(
      await worker
        .partition('acme', seen.length)
        .read(...events.map((event) => ({ ...event, event_id: `${moment}-${event.event_id}` }))),
    );
  }
  expect(seen).toEqual([
    events.map(() => 'rejected/operator_inactive'),
    events.map(() => 'rejected/operator_inactive'),
  ]);
  expect(new Set(await versions())).toEqual(new Set(['2']));
  expect(await store.partition('acme').read(aBet())).toEqual(['accepted']);
});

test('neither applying waits for a worker, nor a worker for applying [C9]', async () => {
  const worker = store.writer({
    wrap: (ledger) => ({
      ...ledger,
      decideBatch: (batch) =>
        ledger.decideBatch({
          ...batch,
          beforeCommit: async () => {
            await store.apply(closed);
          },
        }),
    }),
  });
  expect(await worker.partition('acme').read(aBet())).toEqual(['accepted']);
  expect(await versions()).toEqual(['1']);
});

test('a batch stays undecided where data changes faster than it is judged [C9] [U4]', async () => {
  let active = false;
  const worker = store.writer({
    wrap: (ledger) => ({
      ...ledger,
      decideBatch: async (batch) => {
        await store.apply(withAcme(() => ({ active })));
        active = !active;
        return ledger.decideBatch(batch);
      },
    }),
  });
  const result = await worker.partition('acme').attempt(0, [aBet()]);
  expect(result.undecided?.name).toBe('StaleReference');
  expect(await versions()).toEqual([]);
});

test('before any data is applied nothing is decided [C6] [U1]', async () => {
  await store.pool.query('delete from promo_store.reference_versions');
  const result = await store.writer().partition('acme').attempt(0, [aBet(), null]);
  expect(result.undecided?.message).toMatch(/no reference data/);
  expect(result.answers).toEqual([]);
});

test('removed entries are no longer used, and decided events keep their names [C6]', async () => {
  const bet = aBet({ brand: 'second' });
  await store.partition('acme').read(bet);
  const before = await store.rows('select v::text from promo.verdicts v');
  await store.apply(
    withAcme(({ brands, connections }) => ({
      brands: brands.filter(({ id }) => id !== 'second'),
      connections: connections.filter(({ id }) => id !== 'acme-second'),
    })),
  );

  expect(await store.rows('select v::text from promo.verdicts v')).toEqual(before);
  expect(await store.partition('acme', 1).read(bet, aBet({ brand: 'second' }))).toEqual([
    'duplicate of accepted',
    'rejected/brand_unmapped',
  ]);
  expect(await store.partition('acme.second').read(aDeposit())).toEqual(['dead letter unclaimed']);

  // An entry that comes back is the same as before.
  await store.apply(REFERENCE);
  expect(await store.partition('acme', 2).read(bet, aBet({ brand: 'second' }))).toEqual([
    'duplicate of accepted',
    'accepted',
  ]);
  expect(await store.rows(`select count(*) from promo_store.brands where brand_id = 'second'`)).toEqual([
    ['1'],
  ]);
});

test('a redelivered event is answered as before, although its operator may no longer send it [C6] [K3]', async () => {
  const acme = store.partition('acme');
  const bet = aBet();
  await acme.readAt(0, bet);
  await store.apply(closed);
  expect(await acme.readAt(0, bet)).toEqual(['accepted, again']);
});

test('the removal of an operator or a connection needs approval, and without it nothing is stored [C7]', async () => {
  const without = { operators: REFERENCE.operators.slice(1) };
  const refused = await applyReference(
    store.pool,
    asRead(without),
    (changes) => removals(changes).length === 0,
  );
  expect(refused.version).toBe(1);
  expect(removals(refused.changes).map(({ what, id }) => `${what} ${id}`)).toEqual([
    'operator acme',
    ...['acme-apart', 'acme-hook', 'acme-second', 'acme-shared', 'acme-solo', 'acme-stream'].map(
      (id) => `connection acme/${id}`,
    ),
  ]);
  expect(await store.value('select max(version) from promo_store.reference_versions')).toBe('1');
  expect(await store.partition('acme').read(aBet())).toEqual(['accepted']);
});

test('two that apply at once run one after the other, and the second sees the changes of the first [C6]', async () => {
  const pool = store.writer({ maxConnections: 4 }).pool;
  const documents = [1, 2, 3, 4].map((n) => withAcme(() => ({ catalogue: [{ id: `g${n}`, active: true }] })));
  const applied = await Promise.all(
    documents.map((document) => applyReference(pool, asRead(document), () => true)),
  );
  expect(applied.map(({ version }) => version).sort()).toEqual([2, 3, 4, 5]);
  expect((await makeReferences(pool).current()).version).toBe(5);
});

test('data with its lists in another order is the same data [C6]', async () => {
  const turned = {
    operators: REFERENCE.operators
      .map(({ brands, connections, ...operator }) => ({
        ...operator,
        brands: brands.toReversed(),
        connections: connections.toReversed(),
      }))
      .toReversed(),
  };
  const { version, changes } = await applyReference(store.pool, asRead(turned), () => true);
  expect(changes).toEqual([]);
  // "Empty: nothing was stored" is the comment of Applied.changes.
  expect(version).toBe(1);
});

test('stored data that breaks a rule is refused, and events wait for it [C6] [C8] [U1]', async () => {
  await store.pool.query(
    `insert into promo_store.reference_versions (version, document) values (2, '{"operators": [{"id": "acme", "brands": 7}]}')`,
  );
  const result = await store.partition('acme').attempt(0, [aBet({ event_id: 'e' })]);
  expect(result.undecided).not.toBeNull();
  expect(result.answers).toEqual([]);
  expect(await store.value('select count(*) from promo_store.event_keys')).toBe('0');
});
