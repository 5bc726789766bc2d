/** History is kept and dropped by month. Decided events stay decided. */
import { ensureMonths } from '../../src/ledger/partition-state';
import {
  aBet,
  aDeposit,
  aRefund,
  aSettled,
  aWin,
  freshStore,
  type TestPartition,
  type TestStore,
  withClient,
} from '../support/ledger';

let store: TestStore;
let acme: TestPartition;
beforeEach(async () => {
  store = await freshStore({ own: true });
  acme = store.partition('acme');
});
afterEach(() => store.close());

const thisMonth = async () => `${await store.value(`select to_char(now() at time zone 'utc', 'YYYY_MM')`)}`;

/**
 * Drops an old month as the operations guide describes. The events of the tests are all of the current month.
 */
async function dropMonth(): Promise<void> {
  const month = await thisMonth();
  for (const parent of ['history', 'resends', 'unstored']) {
    await store.pool.query(`drop table promo_store.${parent}_${month}`);
  }
  await ensureMonths(store.pool);
}

const tables = () =>
  store.rows(`select relname from pg_class where relispartition and relkind = 'r' order by 1`);

test('this month and the next two have tables, and a second call creates none [D2]', async () => {
  const expected = await store.rows(
    `select parent || '_' || to_char(now() at time zone 'utc' + ahead * interval '1 month', 'YYYY_MM')
     from unnest(array['history', 'resends', 'unstored', 'faults']) parent, generate_series(0, 2) ahead order by 1`,
  );
  expect(await tables()).toEqual(expected);
  await ensureMonths(store.pool);
  expect(await tables()).toEqual(expected);
});

test('a new month is summarized after each 10,000 rows, and few of its rows are sampled [D2]', async () => {
  const [[name] = []] = await store.rows(
    `select 'resends_' || to_char(now() at time zone 'utc' + interval '3 months', 'YYYY_MM')`,
  );
  await store.pool.query('select promo_store.ensure_months(3)');
  const months = await store.rows(`select distinct option from pg_class, unnest(reloptions) option
    where relispartition and relkind = 'r' and option like '%threshold%'`);
  expect(months).toEqual([['autovacuum_vacuum_insert_threshold=10000']]);
  const sampled = await store.rows(
    `select distinct a.attstattarget from pg_attribute a
     where a.attnum > 0 and not a.attisdropped and (a.attrelid = to_regclass('promo_store.' || $1)
       or a.attrelid in (select x.indexrelid from pg_index x where x.indrelid = to_regclass('promo_store.' || $1) and x.indexprs is not null))`,
    [name],
  );
  expect(sampled).toEqual([['3']]);
});

test('a past month is vacuumed for its last rows, and after an erasure', async () => {
  await store.pool.query(`create table promo_store.history_2020_01 partition of promo_store.history
    for values from ('2020-01-01 00:00:00+00') to ('2020-02-01 00:00:00+00')`);
  const settings = () =>
    store.rows(
      `select relname = 'history_2020_01', count(*) from pg_class where relispartition and relkind = 'r'
       and 'autovacuum_vacuum_insert_threshold=0' = any(reloptions) group by 1`,
    );
  expect(await settings()).toEqual([]);
  // A starting worker does not wait for a vacuum.
  await withClient(store.url, async (vacuum) => {
    await vacuum.query('begin; lock table promo_store.history_2020_01 in share update exclusive mode');
    await ensureMonths(store.pool);
    expect(await settings()).toEqual([]);
  });
  await ensureMonths(store.pool);
  expect(await settings()).toEqual([['t', '1']]);
});

test('workers that start together in a new month all get its tables [D2]', async () => {
  const month = await thisMonth();
  for (let i = 0; i < 5; i++) {
    for (const parent of ['history', 'resends', 'unstored']) {
      await store.pool.query(`drop table promo_store.${parent}_${month}`);
    }
    const writers = Array.from({ length: 4 }, () => store.writer());
    await Promise.all(writers.map((writer) => ensureMonths(writer.pool)));
    await Promise.all(writers.map((writer) => writer.pool.query('select')));
  }
  expect(await acme.read(aBet())).toEqual(['accepted']);
});

test('months begin and end at midnight UTC, whatever the zone of the session [D2]', async () => {
  const worker = store.writer();
  const month = await thisMonth();
  await store.pool.query(`drop table promo_store.history_${month}`);
  await worker.pool.query(
    `set time zone 'Pacific/Kiritimati'; set datestyle = 'SQL, DMY'; select promo_store.ensure_months(); reset datestyle; set time zone 'UTC'`,
  );
  const [[bound] = []] = await store.rows(
    `select pg_get_expr(relpartbound, oid) from pg_class where relname = 'history_${month}'`,
  );
  const [year, number] = month.split('_').map(Number);
  const first = new Date(Date.UTC(year ?? 0, (number ?? 1) - 1)).toISOString().slice(0, 10);
  expect(bound).toContain(`FROM ('${first} 00:00:00+00')`);
});

test('no large table is analyzed by more than 900 rows, and no later month is', async () => {
  await dropMonth();
  await store.pool.query('select promo_store.ensure_months(14)');
  const targets = await store.rows(
    `select distinct coalesce(parent.relname, c.relname), attstattarget
     from pg_class c join pg_attribute a on attrelid = c.oid
     left join pg_inherits on inhrelid = c.oid left join pg_class parent on parent.oid = inhparent
     where c.relnamespace = 'promo_store'::regnamespace and c.relkind = 'r' and attnum > 0 and not attisdropped
     and (c.relname in ('event_keys', 'rounds') or inhparent is not null) order by 1`,
  );
  expect(targets).toEqual(
    ['event_keys', 'faults', 'history', 'resends', 'rounds', 'unstored'].map((name) => [name, '3']),
  );
});

test('after its month is dropped an event is still a duplicate, with its verdict, reason and content [K1] [K2]', async () => {
  const events = [
    aBet({ event_id: 'a' }),
    aBet({ event_id: 'b', amount: '0' }),
    aBet({ event_id: 'c', kind: 'jump' }),
    aDeposit({ event_id: 'd' }),
  ];
  await acme.read(...events);
  await dropMonth();

  expect(await store.rows('select * from promo.verdicts')).toEqual([]);
  expect(await store.partition('acme.second').read(...events, aBet({ event_id: 'a', amount: '1' }))).toEqual([
    'duplicate of accepted',
    'duplicate of skipped/zero_amount',
    'duplicate of rejected/op_unknown',
    'duplicate of accepted',
    'duplicate of accepted, differs',
  ]);
  expect(
    await store.rows(
      'select event_id, first_verdict, first_reason, content_differs from promo.deliveries order by source_offset',
    ),
  ).toEqual([
    ['a', 'accepted', null, 'f'],
    ['b', 'skipped', 'zero_amount', 'f'],
    ['c', 'rejected', 'op_unknown', 'f'],
    ['d', 'accepted', null, 'f'],
    ['a', 'accepted', null, 't'],
  ]);
});

test('after its month is dropped an event has no verdict row, but its result is still known [K1] [K2]', async () => {
  await acme.read(aBet({ event_id: 'a' }), aBet({ event_id: 'b', amount: '0' }));
  const verdicts = () =>
    store.rows(
      `select id, v.verdict, v.reason from unnest(array['a', 'b', 'c']) id, promo.verdict_of('acme', id) v order by id`,
    );
  const events = () =>
    store.rows(
      `select convert_from(event_key, 'utf8'), feed_id, operator_id, verdict, reason, source_topic, source_partition, source_offset
       from promo.events order by verdict_id`,
    );
  const decided = [
    ['a', 'acme', 'acme', 'accepted', null, 'acme', '0', '0'],
    ['b', 'acme', 'acme', 'skipped', 'zero_amount', 'acme', '0', '1'],
  ];
  expect(await verdicts()).toEqual([
    ['a', 'accepted', null],
    ['b', 'skipped', 'zero_amount'],
  ]);
  expect(await events()).toEqual(decided);

  await dropMonth();

  expect(await verdicts()).toEqual([]);
  expect(await events()).toEqual(decided);
  expect(
    await store.rows(
      `select verdict from promo.events where feed_id = 'acme' and event_key = promo_store.id_key('b')`,
    ),
  ).toEqual([['skipped']]);
});

test('after its month is dropped a redelivered record is still no duplicate [K3]', async () => {
  const bet = aBet();
  await acme.readAt(0, bet);
  await dropMonth();
  expect(await acme.readAt(0, bet)).toEqual(['accepted, again']);
});

test('after its month is dropped a refunded round stays refunded and at zero [L3] [R3]', async () => {
  await acme.read(aBet(), aSettled(), aRefund({ event_id: 'f' }));
  await dropMonth();

  expect(await acme.read(aBet(), aSettled(), aWin(), aRefund())).toEqual([
    'skipped/round_refunded',
    'skipped/round_refunded',
    'accepted',
    'accepted',
  ]);
  expect(await store.value('select coalesce(sum(amount_minor), 0) from promo.ledger')).toBe('0');
  expect(
    await store.rows(
      'select refunded, refunded_by, counted_bet, counted_settled, net_bet_minor, net_settled_minor from promo.rounds',
    ),
  ).toEqual([['t', 'f', '10.50', '10.50', '0', '0']]);
});

test('a refund of a round with dropped bets brings its remaining sum to zero [L3] [R2]', async () => {
  await acme.read(aBet(), aBet({ amount: '1' }));
  await dropMonth();
  await acme.read(aWin({ event_id: 'w', amount: '2' }));
  const rounds = () =>
    store.rows(
      'select refunded, settled, counted_bet, counted_win, net_bet_minor, net_win_minor from promo.rounds',
    );
  expect(await rounds()).toEqual([['f', 'f', '11.50', '2.00', '1150', '200']]);

  expect(await acme.read(aRefund({ event_id: 'f' }), aBet())).toEqual(['accepted', 'skipped/round_refunded']);

  expect(await rounds()).toEqual([['t', 'f', '11.50', '2.00', '0', '0']]);
  // The ledger shows the kept history: an entry and its reversal are dropped together.
  expect(await store.rows('select event_id, kind, amount_minor from promo.ledger order by entry_id')).toEqual(
    [
      ['w', 'win', '200'],
      ['f', 'win', '-200'],
    ],
  );
});

test('after its month is dropped a second settled still counts nothing, and sums are still compared [R6] [A1] [A2]', async () => {
  await acme.read(aBet({ amount: '3' }), aBet({ amount: '0.05' }), aSettled({ amount: '3.05' }));
  await dropMonth();
  expect(await store.rows('select anomaly from promo.anomalies')).toEqual([]);

  expect(await acme.read(aSettled({ amount: '3.05' }), aBet({ amount: '1' }))).toEqual([
    'accepted',
    'accepted',
  ]);

  expect(await store.rows('select counted from promo.verdicts order by verdict_id')).toEqual([['f'], ['t']]);
  expect(await store.rows('select anomaly from promo.anomalies order by 1')).toEqual([
    ['second_settled'],
    ['settled_mismatch'],
  ]);
});
