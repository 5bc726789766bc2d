/** Connections for tests: their events are decided, in feeds that nothing counts. */

import type { ReferenceDocument } from '../../src/domain/reference';
import { makeIntake } from '../../src/intake/intake';
import { feedOfConnection } from '../../src/ledger/attributions';
import { makeLedger } from '../../src/ledger/decide-batch';
import { erasePlayer } from '../../src/ledger/erasure';
import { makeReferences, TestMarkChanged } from '../../src/ledger/reference-store';
import { grantRoles } from '../../src/ledger/roles';
import { followVerdicts } from '../../src/ledger/verdict-tail';
import { makeLogger } from '../../src/telemetry/logger';
import {
  aBet,
  aLogin,
  anEnvelope,
  aRefund,
  brief,
  freshStore,
  type Json,
  REFERENCE,
  rowsOf,
  type TestStore,
  withClient,
} from '../support/ledger';
import { dropRoles, makeRole } from '../support/roles';

const [acme, ...others] = REFERENCE.operators;
if (acme === undefined) throw new Error('no operator');
const withConnections = (
  ...more: ReferenceDocument['operators'][number]['connections'][number][]
): ReferenceDocument => ({
  operators: [{ ...acme, connections: [...acme.connections, ...more] }, ...others],
});
const TEST_HOOK = { id: 'acme-test-hook', transport: 'webhook', test: true } as const;
const TEST_STREAM = { id: 'acme-test', transport: 'kafka', topic: 'acme.test', test: true } as const;
const REAL = withConnections();
const MARKED = withConnections(TEST_HOOK, TEST_STREAM);

let store: TestStore;
beforeEach(async () => {
  store = await freshStore({ reference: MARKED });
});
afterEach(() => store.close());

async function request(...events: Json[]): Promise<string[]> {
  const intake = makeIntake({
    ledger: makeLedger(store.pool),
    references: makeReferences(store.pool),
    logger: makeLogger('silent'),
    now: () => performance.now(),
  });
  const { answers, undecided } = await intake.decideRequest(
    { connectionId: TEST_HOOK.id },
    events.map((event, index) => anEnvelope(event, index)),
  );
  if (undecided !== null) throw undecided;
  return answers.map(brief);
}

/** Rows of events by feed, in each view of the schema promo but those for tests. */
async function shown(): Promise<Record<string, number>> {
  const views = await store.rows(
    `select c.relname from pg_class c where c.relnamespace = 'promo'::regnamespace and c.relkind = 'v' and c.relname not like 'test%' and c.relname <> 'connections'
     and exists (select from pg_attribute a where a.attrelid = c.oid and a.attname = 'feed_id') order by 1`,
  );
  expect(views.flat()).toEqual(
    expect.arrayContaining([
      'anomalies',
      'attributions',
      'deliveries',
      'events',
      'ledger',
      'rounds',
      'verdicts',
    ]),
  );
  const counts: Record<string, number> = {};
  for (const [view] of views)
    counts[String(view)] = Number(await store.value(`select count(*) from promo.${view}`));
  return counts;
}

test('decide by Kafka and by the webhook in one feed of their own, which only the test views show [C11]', async () => {
  const nothing = await shown();
  expect(new Set(Object.values(nothing))).toEqual(new Set([0]));
  const stream = store.partition('acme.test');
  expect(
    await stream.read(
      aBet({ event_id: 'bet' }),
      aBet({ event_id: 'other', player_ref: 'another' }),
      aLogin({ event_id: 'in', spec: 'x' }),
    ),
  ).toEqual(['accepted', expect.stringMatching(/^accepted/), 'rejected/malformed']);
  expect(
    await request(aBet({ event_id: 'bet' }), aRefund({ event_id: 'back' }), aBet({ event_id: 'late' })),
  ).toEqual(['duplicate of accepted', 'accepted', 'skipped/round_refunded']);
  await store.value(`select promo.attribute_round('acme', 'r-1', 'normal', 'acme//test')`);

  expect(await shown()).toEqual(nothing);
  expect(await store.value('select promo.newest_since(1)')).toBeNull();
  expect(await store.value('select coalesce(sum(amount_minor), 0) from promo.ledger')).toBe('0');
  expect(
    await store.rows(
      'select feed_id, event_id, verdict, reason, connection_id from promo.test_verdicts order by verdict_id',
    ),
  ).toEqual([
    ['acme//test', 'bet', 'accepted', null, 'acme-test'],
    ['acme//test', 'other', 'accepted', null, 'acme-test'],
    ['acme//test', 'in', 'rejected', 'malformed', 'acme-test'],
    ['acme//test', 'back', 'accepted', null, 'acme-test-hook'],
    ['acme//test', 'late', 'skipped', 'round_refunded', 'acme-test-hook'],
  ]);
  expect(await store.rows('select event_id, connection_id from promo.test_deliveries')).toEqual([
    ['bet', 'acme-test-hook'],
  ]);
});

test('an event_id or a round of a test neither uses up nor changes the real one [C11] [K1]', async () => {
  await store.partition('acme.test').read(aBet({ event_id: 'bet' }), aRefund({ event_id: 'refund' }));
  expect(await store.partition('acme').read(aBet({ event_id: 'bet' }))).toEqual(['accepted']);
  expect(await store.value('select sum(amount_minor) from promo.ledger')).toBe('1050');
  expect(await store.rows('select refunded from promo.rounds')).toEqual([['f']]);
});

test('tail follows tests alone, or real verdicts alone [C11] [T1]', async () => {
  const followed = async (isTest: boolean) => {
    const tail = await followVerdicts(store.pool, { isTest });
    return async () => {
      const ids: string[] = [];
      await tail.poll(async (found) => {
        ids.push(...found.map(({ event_id }) => event_id));
      });
      return ids;
    };
  };
  const [tests, real] = [await followed(true), await followed(false)];
  await store.partition('acme.test').read(aLogin({ event_id: 'tested' }));
  await store.partition('acme').read(aLogin({ event_id: 'real' }));
  expect([await tests(), await real()]).toEqual([['tested'], ['real']]);
});

test('tests do not push real verdicts out of the newest ones [C11]', async () => {
  await store.partition('acme').read(aLogin({ event_id: 'a' }), aLogin({ event_id: 'b' }));
  await store.partition('acme.test').read(...Array.from({ length: 300 }, () => aLogin()));
  expect(
    await store.value(
      'select count(*) from promo.verdicts where decided_at >= (select promo.newest_since(2))',
    ),
  ).toBe('2');
});

test('a reader sees the verdicts of tests without their players [C11] [B8]', async () => {
  await store.partition('acme.test').read(aLogin({ event_id: 'a' }));
  const reader = await makeRole(store.url, 'reader');
  await grantRoles(store.url, [{ role: 'reader', name: reader.name }]);
  await withClient(reader.url, async (client) => {
    expect(await rowsOf(client, 'select event_id, verdict from promo.test_verdicts')).toEqual([
      ['a', 'accepted'],
    ]);
    await expect(rowsOf(client, 'select player_ref from promo.test_verdicts')).rejects.toThrow(
      'permission denied',
    );
  });
  await dropRoles(store.url, [reader.name]);
});

test('the mark of a connection never changes, also where it was removed in between [C12]', async () => {
  const { test: _, ...unmarked } = TEST_HOOK;
  await expect(store.apply(withConnections(unmarked, TEST_STREAM))).rejects.toThrow(TestMarkChanged);
  await store.apply(REAL);
  await expect(store.apply(withConnections(unmarked))).rejects.toThrow(
    /acme-test-hook differs .* Give the connection another id/,
  );
  const nowTest = MARKED.operators.map((operator) => ({
    ...operator,
    connections: operator.connections.map((each) =>
      each.id === 'acme-hook' ? { ...each, test: true as const } : each,
    ),
  }));
  await expect(store.apply({ operators: nowTest })).rejects.toThrow(/acme-hook/);
  await store.apply(MARKED);
  await store.apply(withConnections(TEST_HOOK, TEST_STREAM, { ...unmarked, id: 'acme-new-hook' }));
});

test('an erasure of a player covers the events of tests [C11] [K6]', async () => {
  await store.partition('acme.test').read(aBet({ event_id: 'bet', player_ref: 'somebody' }));
  await erasePlayer(
    store.url,
    { requestedBy: 'test' },
    { operator: 'acme', player: 'somebody', batch: 100 },
    () => undefined,
  );
  expect(await store.rows('select player_ref from promo.test_verdicts')).toEqual([
    [expect.stringMatching(/^erased:/)],
  ]);
});

test.each([
  ['acme-hook', 'acme'],
  ['acme-apart', 'acme/apart'],
  [TEST_HOOK.id, 'acme//test'],
  ['bravo-stream', null],
])('an attribution for a round of %s goes into the feed %s [C3] [C11] [B3]', async (connection, feed) => {
  expect(await feedOfConnection(store.url, 'acme', connection)).toBe(feed);
});
