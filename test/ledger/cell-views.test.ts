/** One set of views over two cells: what analysts read, and which conditions the cells receive. */
import { randomBytes } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import type { Client } from 'pg';
import { moveOperator } from '../../src/ledger/move-operator';
import { type Grantee, grantRoles } from '../../src/ledger/roles';
import { aBet, freshStore, REFERENCE, rowsOf, type TestStore, withClient } from '../support/ledger';
import { databaseUrl, type FreshDatabase, freshDatabase } from '../support/servers';

const SQL = readFileSync(join(__dirname, '../../docs/operations/cells.sql'), 'utf8');
/** Roles belong to the whole server, so their names are of this run. */
const suffix = randomBytes(6).toString('hex');
const READER = `cells_reader_${suffix}`;
const ANALYST = `cells_analyst_${suffix}`;

let a: TestStore;
let b: TestStore;
let reports: FreshDatabase;

beforeAll(async () => {
  await withClient(databaseUrl(), (client) =>
    client.query(`create role ${READER} login password 'of-a-reader'; create role ${ANALYST}`),
  );
  const only = (id: string) => ({ operators: REFERENCE.operators.filter((operator) => operator.id === id) });
  a = await freshStore({ own: true, reference: only('acme') });
  b = await freshStore({ own: true, reference: only('bravo') });
  reports = await freshDatabase();
  const first = await a.value(`select promo.number_cell('a', 0, 4)`);
  await b.rows(`select promo.number_cell('b', 1, 4, $1)`, [first]);
  await a
    .partition('acme')
    .read(aBet({ event_id: 'e-1', amount: '1.00' }), aBet({ event_id: 'e-2', amount: '2.00' }));
  await b.partition('bravo').read(aBet({ event_id: 'e-1', amount: '5.00' }));
  const grantees: Grantee[] = [{ role: 'reader', name: READER }];
  await Promise.all([a, b].map((store) => grantRoles(store.url, grantees)));
  await inReports(async (client) => {
    await client.query(SQL);
    for (const [cell, store] of Object.entries({ a, b })) await addCell(client, cell, store);
    await client.query(`call promo.make_views('${ANALYST}')`);
  });
});
afterAll(async () => {
  await reports.drop();
  await Promise.all([a.close(), b.close()]);
  await withClient(databaseUrl(), (client) => client.query(`drop role ${READER}; drop role ${ANALYST}`));
});

const inReports = <T>(work: (client: Client) => Promise<T>) => withClient(reports.url, work);
const read = (text: string) => inReports((client) => rowsOf(client, text));

async function addCell(client: Client, cell: string, store: TestStore): Promise<void> {
  const url = new URL(store.url);
  await client.query(
    `call promo.add_cell('${cell}', '${url.hostname}', ${url.port}, '${url.pathname.slice(1)}', '${READER}', 'of-a-reader')`,
  );
}

/** The queries that the cells receive, by the plan. */
async function sentToCells(query: string): Promise<string[]> {
  const lines = await read(`explain (verbose) ${query}`);
  return lines.flat().flatMap((line) => /Remote SQL: (.*)/.exec(line ?? '')?.[1] ?? []);
}

test.each(['verdicts_hourly', 'ledger_daily', 'rollup_coverage'])(
  'the view %s of the rollups is there for both cells',
  async (view) => {
    const sent = await sentToCells(`select * from promo.${view}`);
    expect(sent.filter((query) => query.includes(`FROM promo.${view}`))).toHaveLength(2);
  },
);

test.each([
  ...[
    'facts',
    'faults',
    'records_without_verdict',
    'round_details',
    'months',
    'erasures',
    'reasons',
    'connections',
  ],
  ...[
    'players_daily',
    'player_ledger_daily',
    'promotions',
    'promotion_progress',
    'completions',
    'promotion_coverage',
  ],
])('the view %s is there for both cells, and its reader reads every column', async (view) => {
  const sent = await sentToCells(`select * from promo.${view}`);
  expect(sent.filter((query) => query.includes(`FROM promo.${view}`))).toHaveLength(2);
  await read(`select * from promo.${view}`);
});

test.each([
  ...['verdicts', 'ledger', 'attributions', 'facts', 'round_details', 'player_ledger_daily'],
  ...['promotion_progress', 'completions'],
])('the view %s with pseudonyms is there for both cells, and names no player', async (view) => {
  const sent = await sentToCells(`select * from promo_reader.${view}`);
  expect(sent.filter((query) => query.includes(`FROM promo_reader.${view}`))).toHaveLength(2);
  const columns = await read(
    `select column_name from information_schema.columns where table_schema = 'promo_reader' and table_name = '${view}'`,
  );
  expect(columns.flat()).toEqual(expect.arrayContaining(['cell', expect.stringMatching(/player_id$/)]));
  expect(columns.flat()).not.toContain('player_ref');
  await inReports(async (client) => {
    await client.query(`set role ${ANALYST}`);
    await client.query(`select * from promo_reader.${view}`);
  });
});

test('a cell is gone from all views once its server is dropped', async () => {
  await inReports(async (client) => {
    await client.query('drop server cell_b cascade');
    await client.query(`call promo.make_views('${ANALYST}')`);
  });
  for (const view of ['promo.facts', 'promo_reader.facts'])
    expect(await read(`select distinct cell from ${view}`)).toEqual([['a']]);
  await inReports(async (client) => {
    await addCell(client, 'b', b);
    await client.query(`call promo.make_views('${ANALYST}')`);
  });
});

test('the facts and the reasons are those of both cells', async () => {
  expect(await read('select cell, event_id, net_amount from promo.facts order by cell, event_id')).toEqual([
    ['a', 'e-1', '1.00'],
    ['a', 'e-2', '2.00'],
    ['b', 'e-1', '5.00'],
  ]);
  expect(await read('select count(*), count(distinct cell) from promo.reasons')).toEqual([
    [expect.stringMatching(/^[1-9]\d*$/), '2'],
  ]);
});

test('the ledger of all operators, from both cells', async () => {
  expect(
    await read('select cell, feed_id, event_id, amount from promo.ledger order by feed_id, event_id'),
  ).toEqual([
    ['a', 'acme', 'e-1', '1.00'],
    ['a', 'acme', 'e-2', '2.00'],
    ['b', 'bravo', 'e-1', '5.00'],
  ]);
  expect(await read('select cell, records_read from promo.partitions order by cell')).toEqual([
    ['a', '2'],
    ['b', '1'],
  ]);
});

test.each(['verdicts', 'ledger'])(
  'feed and time of a query of promo.%s are conditions in both cells',
  async (view) => {
    const time = view === 'ledger' ? 'entered_at' : 'decided_at';
    const sent = await sentToCells(
      `select event_id, amount from promo.${view} where feed_id = 'acme' and ${time} >= (select now() - interval '1 day') and ${time} < timestamptz '2100-01-01'`,
    );
    expect(sent).toHaveLength(2);
    for (const query of sent) {
      expect(query).toContain(`((feed_id = 'acme'))`);
      expect(query).toContain(`((${time} >= $1::timestamp with time zone))`);
      expect(query).toContain(`((${time} < '2100-01-01`);
    }
  },
);

test('a time without a subselect stays behind, so the page asks for one', async () => {
  const [query] = await sentToCells(
    `select event_id from promo.verdicts where feed_id = 'acme' and decided_at >= now() - interval '1 day'`,
  );
  expect(query).toContain(`((feed_id = 'acme'))`);
  expect(query).not.toContain('decided_at >=');
});

test('one cell is asked where the query names it, and one key goes to the cells', async () => {
  const sent = await sentToCells(
    `select verdict, reason from promo.events where cell = 'b' and feed_id = 'bravo' and event_key = promo_store.id_key('e-1')`,
  );
  expect(sent).toHaveLength(1);
  expect(sent[0]).toContain('FROM promo.events WHERE');
  expect(sent[0]).toMatch(/event_key = E?'\\+x652d31'/);
  const found = `select cell, verdict from promo.events where feed_id = 'bravo' and event_key = promo_store.id_key('e-1')`;
  expect(await read(found)).toEqual([['b', 'accepted']]);
});

test('an analyst reads the views, and neither players nor the cells behind them', async () => {
  await inReports(async (client) => {
    await client.query(`set role ${ANALYST}`);
    expect(await rowsOf(client, 'select count(*) from promo.verdicts')).toEqual([['3']]);
    await expect(client.query('select player_ref from promo.verdicts')).rejects.toThrow(/does not exist/);
    await expect(client.query('select * from cell_a.verdicts')).rejects.toThrow(/permission denied/);
    await expect(client.query('select * from pg_user_mapping')).rejects.toThrow(/permission denied/);
  });
});

test('a moved operator is in the views once, with the same entries', async () => {
  const entries = `select entry_id, feed_id, event_id, amount from promo.ledger order by entry_id`;
  const before = await read(entries);
  await a.apply({ operators: [] });
  await moveOperator({ operator: 'acme', from: a.url, to: b.url, requestedBy: 'test' });
  await b.apply({ operators: REFERENCE.operators });
  expect(await read(entries)).toEqual(before);
  expect(await read('select distinct cell from promo.verdicts')).toEqual([['b']]);
});
