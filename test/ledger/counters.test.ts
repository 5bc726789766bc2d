/** The balance of a partition: each record that was read is counted by its result. */
import { aBet, aDeposit, aRefund, aSettled, freshStore, type TestStore } from '../support/ledger';

let store: TestStore;
beforeEach(async () => {
  store = await freshStore();
});
afterEach(() => store.close());

const unbalanced = () =>
  store.rows(
    `select * from promo.partitions where records_read <> verdicts + duplicate_deliveries + redeliveries + dead_letters + events_without_key
     or verdicts <> accepted + rejected + skipped`,
  );

test('each record read is counted once by its result, in the transaction that decided it [D3]', async () => {
  const acme = store.partition('acme');
  const bet = aBet();
  const records = [
    bet,
    bet,
    aSettled({ amount: '0' }),
    aBet({ kind: 'jump' }),
    null,
    Buffer.from('7'),
    aRefund(),
  ];
  await acme.readAt(0, ...records);
  expect(await store.balance('acme')).toEqual({
    records_read: 7,
    accepted: 2,
    skipped: 1,
    rejected: 1,
    duplicate_deliveries: 1,
    events_without_key: 2,
  });

  await acme.readAt(3, ...records.slice(3), aDeposit());
  expect(await store.balance('acme')).toEqual({
    records_read: 12,
    accepted: 3,
    skipped: 1,
    rejected: 1,
    duplicate_deliveries: 1,
    events_without_key: 2,
    redeliveries: 4,
  });
  expect(await unbalanced()).toEqual([]);
});

test('partitions and topics have separate counters, and next_offset never decreases [D2] [D3]', async () => {
  await store.partition('acme', 0).readAt(10, aBet(), aBet());
  await store.partition('acme', 1).readAt(3, aBet());
  await store.partition('acme.second', 0).readAt(0, aBet(), null);
  await store.partition('acme', 0).readAt(2, aBet());

  expect(
    await store.rows(
      'select topic, partition, next_offset, records_read, verdicts from promo.partitions order by 1, 2',
    ),
  ).toEqual([
    ['acme', '0', '12', '3', '3'],
    ['acme', '1', '4', '1', '1'],
    ['acme.second', '0', '2', '2', '1'],
  ]);
});

test('offsets beyond 32 bits are kept [K3]', async () => {
  const acme = store.partition('acme');
  const offset = 2 ** 40 + 12_345;
  const bet = aBet();
  await acme.readAt(offset, bet, bet, null);

  expect(await acme.readAt(offset, bet, bet, null)).toEqual([
    'accepted, again',
    'duplicate of accepted, again',
    'without key, again',
  ]);
  expect(
    await store.rows(
      'select source_offset from promo.verdicts union all select source_offset from promo.deliveries',
    ),
  ).toEqual([['1099511640121'], ['1099511640122']]);
});

test('undecided events are not counted [U1] [D3]', async () => {
  const acme = store.partition('acme');
  await acme.read(aBet());
  await store.pool.query('alter table promo_store.history rename to away');
  expect((await acme.attempt(1, [aBet(), null])).undecided).not.toBeNull();
  await store.pool.query('alter table promo_store.away rename to history');

  expect(await store.balance('acme')).toEqual({ records_read: 1, accepted: 1 });
  expect(await store.value('select next_offset from promo.partitions')).toBe('1');
});
