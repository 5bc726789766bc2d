/**
 * Ids that a sender chooses in order to slow down the indexes of ids. Each costs as much as any id of its
 * length.
 */
import { randomBytes } from 'node:crypto';
import type { Client } from 'pg';
import { isLongRun } from '../../dev/long-run';
import { runMigrations } from '../../src/ledger/migrate';
import { aBet, freshStore, REFERENCE, rowsOf, TestStore, withClient } from '../support/ledger';
import { freshDatabase } from '../support/servers';

let store: TestStore;
beforeEach(async () => {
  store = await freshStore({ own: true });
});
afterEach(() => store.close());

jest.setTimeout(300_000);

const LONG = 60_000;
const REQUESTS = 6;
const IDS_IN_A_REQUEST = 16;

/**
 * Milliseconds of a request with events of these ids, and of the request with their duplicates. The least of
 * several counts, since a busy machine delays some of them.
 */
async function timeOf(topic: string, idOf: (n: number) => string, into = store): Promise<number> {
  const partition = into.partition(topic);
  let least = Number.POSITIVE_INFINITY;
  for (let request = 0; request < REQUESTS; request++) {
    const bets = Array.from({ length: IDS_IN_A_REQUEST }, (_, n) => {
      const id = idOf(request * IDS_IN_A_REQUEST + n);
      return aBet({ event_id: id, round_id: id });
    });
    const began = performance.now();
    expect(new Set(await partition.read(...bets))).toEqual(new Set(['accepted']));
    expect(new Set(await partition.read(...bets))).toEqual(new Set(['duplicate of accepted']));
    least = Math.min(least, performance.now() - began);
  }
  return least;
}

test('after ids a, aa, aaa ... neither requests with long ids nor their duplicates take longer than before [K5] [U1]', async () => {
  const acme = store.partition('acme.second');
  for (let length = 1; length < 6_000; length += 1_000) {
    const bets = Array.from({ length: 1_000 }, (_, n) => {
      const id = 'a'.repeat(length + n);
      return aBet({ event_id: id, round_id: id });
    });
    await acme.read(...bets);
    await acme.read(...bets);
  }
  const usual = await timeOf('acme', (n) => `${randomBytes(LONG / 2).toString('hex')}${n}`);
  const hostile = await timeOf('acme.apart', (n) => `${'a'.repeat(LONG)}${n}`);
  expect(hostile).toBeLessThan(5 * usual + 100);
});

/** Enough for an older version to take seconds for a request. Storing 6,000 of them takes it minutes. */
const CHAINED = 1_500;
/** Rounds and duplicates that an older version stored, with ids a, aa, aaa ... */
const CHAIN = `
insert into promo_store.operators (operator_id) values ('held');
insert into promo_store.feeds (operator_no, operator_id, feed_id) values (1, 'held', 'held');
insert into promo_store.connections (connection_id) values ('held-stream');
insert into promo_store.partitions (topic, partition, next_offset, records_read, duplicates) values ('held', 0, ${CHAINED}, ${CHAINED}, ${CHAINED});
insert into promo_store.rounds (round_no, feed_no, round_key, round_id)
select nextval('promo_store.batch_numbers'), 1, promo_store.id_key(repeat('a', n)), repeat('a', n) from generate_series(1, ${CHAINED}) n;
insert into promo_store.resends (received_at, source_offset, feed_no, connection_no, partition_no, first_outcome, content_differs, event_id)
select now(), n, 1, 1, 1, 0, false, repeat('a', n) from generate_series(1, ${CHAINED}) n`;
/** Rounds of one request, as the worker inserts them. */
const LONG_ROUNDS = `insert into promo_store.rounds (round_no, feed_no, round_key, round_id)
select nextval('promo_store.batch_numbers'), 1, promo_store.id_key('l' || n), repeat('a', ${LONG}) || n from generate_series(1, ${IDS_IN_A_REQUEST}) n`;

/** Milliseconds to insert the rounds of one request, which are rolled back. The least of several counts. */
async function timeOfRounds(client: Client): Promise<number> {
  let least = Number.POSITIVE_INFINITY;
  for (let time = 0; time < 3; time++) {
    await client.query('begin');
    const began = performance.now();
    await client.query(LONG_ROUNDS);
    least = Math.min(least, performance.now() - began);
    await client.query('rollback');
  }
  return least;
}

test('a migrated store takes long ids as fast as any, although an older version left a chain of ids in it [K5] [U1]', async () => {
  const { url, drop } = await freshDatabase();
  try {
    await runMigrations(url, { upTo: '0010_erasure_of_panics.sql' });
    const chained = await withClient(url, async (client) => {
      await client.query(CHAIN);
      return timeOfRounds(client);
    });
    await runMigrations(url);
    expect(await withClient(url, timeOfRounds)).toBeLessThan(chained / 4);
    const held = new TestStore(url, { own: true });
    try {
      await held.apply(REFERENCE);
      const usual = await timeOf('acme', (n) => `${randomBytes(LONG / 2).toString('hex')}${n}`, held);
      const hostile = await timeOf('acme.apart', (n) => `${'a'.repeat(LONG)}${n}`, held);
      expect(hostile).toBeLessThan(5 * usual + 100);
    } finally {
      await held.disconnect();
    }
  } finally {
    await drop();
  }
});

/** Ids in SQL, by a number n from 1 on. */
const SHAPES = {
  'a chain of prefixes up to the limit': `case when n <= 1000 then repeat('a', n) else repeat('a', 900) || lpad(n::text, 100, 'a') end`,
  'a chain of prefixes beyond the limit': `repeat('b', n)`,
  'a prefix of 900 bytes': `repeat('c', 900) || md5(n::text) || md5((n + 1)::text)`,
  'all but the last bytes': `repeat('d', 992) || lpad(to_hex(n), 8, '0')`,
  'a chain with 90 branches at each level': `repeat('e', n % 900) || chr(33 + n / 900 % 90)`,
  'all but the bytes after 60,000': `repeat('f', 60000) || n`,
} as const;
const USUAL = 'md5(n::text)';
const [ROWS, MORE] = [4_000, 1_000];
const [LONG_ROWS, MORE_LONG] = [600, 100];

/** Statements that insert rows with the ids from number $1 to number $2, and look one of them up. */
const TABLES = [
  [
    'rounds by their id',
    (id: string) => `insert into promo_store.rounds (round_no, feed_no, round_key, round_id)
      select nextval('promo_store.batch_numbers'), 1, int8send(nextval('promo_store.batch_numbers')), ${id} from generate_series($1::int, $2::int) n`,
    'select * from promo.rounds where round_id =',
  ],
  [
    'duplicates by the id of their event',
    (
      id: string,
    ) => `insert into promo_store.resends (received_at, source_offset, feed_no, connection_no, partition_no, first_outcome, content_differs, event_id)
      select now(), n, 1, 1, 1, 0, false, ${id} from generate_series($1::int, $2::int) n`,
    'select * from promo.deliveries where event_id =',
  ],
  [
    'refunds by the id of their event',
    (id: string) => `insert into promo_store.refunds (round_no, opened_at, refunded_at, refunded_by)
      select nextval('promo_store.batch_numbers'), now(), now(), ${id} from generate_series($1::int, $2::int) n`,
    'select from promo_store.refunds where promo.stored_id(refunded_by collate "default") collate "C" =',
  ],
] as const;

/** The execution time of a statement, as the store measures it. */
async function costOf(client: Client, statement: string, values: readonly unknown[] = []) {
  const plan = (await rowsOf(client, `explain (analyze, buffers, timing off) ${statement}`, values)).join(
    '\n',
  );
  const sum = [...plan.matchAll(/^Planning|shared(?: hit=(\d+))?(?: read=(\d+))?/gm)][0];
  return {
    plan,
    milliseconds: Number(/Execution Time: ([\d.]+)/.exec(plan)?.[1]),
    pages: Number(sum?.[1] ?? 0) + Number(sum?.[2] ?? 0),
  };
}

/** All indexes of ids are of one kind. So a usual run tries every shape on the first of them only. */
const shapesFor = (name: string) =>
  Object.entries(SHAPES).filter((_, place) => isLongRun || name === TABLES[0][0] || place === 1);

describe.each(TABLES)('%s', (name, insert, look) => {
  test.each(shapesFor(name))('are found and written as fast where their ids share %s [K5]', async (_, id) => {
    store.damaged = true;
    await withClient(store.url, async (client) => {
      const isLong = id.includes('60000');
      const [rows, more] = isLong ? [LONG_ROWS, MORE_LONG] : [ROWS, MORE];
      /** Milliseconds to insert rows beside the existing ones: the best of three. */
      const timeOfMore = async (ids: string, first: number) => {
        const times = [];
        for (let from = first; from < first + 3 * more; from += more)
          times.push((await costOf(client, insert(ids), [from, from + more - 1])).milliseconds);
        return Math.min(...times);
      };
      await client.query(insert(USUAL), [1, rows]);
      const usual = await timeOfMore(`repeat(md5(n::text), greatest(1, octet_length(${id}) / 32))`, rows + 1);
      await client.query(insert(id), [1, rows]);
      const hostile = await timeOfMore(id, rows + 1);
      expect({ hostile, isSlow: hostile > 6 * usual + 100 }).toEqual({ hostile, isSlow: false });

      await client.query(
        'analyze promo_store.rounds, promo_store.resends, promo_store.refunds; set enable_seqscan = off',
      );
      const [[wanted] = []] = await rowsOf(
        client,
        `select promo.stored_id(${id}) from (values (${rows})) v (n)`,
      );
      const found = await costOf(client, `${look} $1`, [wanted]);
      expect(found.plan).toMatch(/Index Cond: \(\(*"varchar"/);
      // The page of the table, one or two of the names, and a path through the index.
      expect(found.pages).toBeLessThan(40);
      expect((await rowsOf(client, `${look} $1`, [wanted])).length).toBe(1);
    });
  });
});

test('no index consists of hashes that a sender can compute: ids of one hash would form a chain [K5]', async () => {
  const hashed = await store.rows(
    `select indexname from pg_indexes where schemaname = 'promo_store' and indexdef like '% USING hash %'`,
  );
  expect(hashed).toEqual([]);
});
