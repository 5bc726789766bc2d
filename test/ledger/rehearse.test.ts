/** A rehearsal of a batch: the decisions of the store, without a trace and without a lock. */
import { makeRehearse } from '../../src/intake/rehearsal';
import { makeReferences } from '../../src/ledger/reference-store';
import { makeRehearseBatch } from '../../src/ledger/rehearse';
import type { Store } from '../../src/postgres/transaction';
import {
  aBet,
  aLogin,
  anEnvelope,
  aRefund,
  brief,
  freshStore,
  type Json,
  REFERENCE,
  type TestStore,
  withClient,
} from '../support/ledger';

let store: TestStore;
beforeEach(async () => {
  store = await freshStore();
});
afterEach(() => store.close());

function rehearser(of: Store = store.pool) {
  const rehearse = makeRehearse({
    rehearseBatch: makeRehearseBatch(of),
    references: makeReferences(store.pool),
  });
  return async (...events: Json[]) => {
    const { answers, undecided } = await rehearse(
      { connectionId: 'acme-hook' },
      events.map((event, index) => anEnvelope(event, index)),
    );
    if (undecided !== null) throw undecided;
    return answers.map(brief);
  };
}

test('it sees decided events and rounds of both transports, and the events before in its request [W9]', async () => {
  await store.partition('acme').read(aBet({ event_id: 'bet' }), aRefund({ event_id: 'refund' }));
  const rehearse = rehearser();
  const request = [
    aBet({ event_id: 'bet' }),
    aBet({ event_id: 'late' }),
    aLogin({ event_id: 'in' }),
    aLogin({ event_id: 'in' }),
  ];
  const expected = [
    'duplicate of accepted',
    'skipped/round_refunded',
    'accepted',
    expect.stringMatching(/^duplicate of accepted/),
  ];

  expect(await rehearse(...request)).toEqual(expected);
  expect(await rehearse(...request)).toEqual(expected);
});

test('a rehearsal takes no lock that a decision could wait for, and no number of a batch [W10]', async () => {
  const partition = store.partition('acme');
  await partition.read(aBet({ event_id: 'opened' }));
  const before = await store.value('select last_value from promo_store.batch_numbers');
  let locks: unknown[] = [];
  let meanwhile: readonly string[] = [];
  // Everything is read: the transaction is at the end of its work.
  const paused: Store = {
    async acquire() {
      const connection = await store.pool.acquire();
      return {
        begin: () => connection.begin(),
        query: (statement, values) => connection.query(statement, values),
        async write(writes) {
          locks = await withClient(store.url, async (client) => {
            const { rows } = await client.query(
              `select l.locktype, l.mode, l.relation::regclass::text from pg_locks l join pg_stat_activity a using (pid)
               where a.datname = current_database() and a.state = 'idle in transaction' and l.mode <> 'AccessShareLock' and l.locktype <> 'virtualxid'`,
            );
            return rows;
          });
          meanwhile = await partition.read(aBet({ event_id: 'real' }), aRefund({ event_id: 'refund' }));
          await connection.write(writes);
        },
        release: (isClean) => connection.release(isClean),
      };
    },
  };

  expect(
    await rehearser(paused)(aBet({ event_id: 'rehearsed' }), aRefund({ event_id: 'rehearsed-refund' })),
  ).toEqual(['accepted', 'accepted']);

  expect(locks).toEqual([]);
  expect(meanwhile).toEqual(['accepted', 'accepted']);
  expect(Number(await store.value('select last_value from promo_store.batch_numbers')) - Number(before)).toBe(
    1,
  );
});

test('it uses the reference data that was applied just before [W9] [C9]', async () => {
  const rehearse = rehearser();
  expect(await rehearse(aLogin())).toEqual(['accepted']);
  await store.apply({
    operators: REFERENCE.operators.map((operator) => ({
      ...operator,
      brands: operator.brands.map((brand) => ({ ...brand, active: false })),
    })),
  });
  expect(await rehearse(aLogin())).toEqual(['rejected/operator_inactive']);
});
