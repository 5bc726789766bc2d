/**
 * The queries of the console as the role of a reader, for two operators with equal ids. A page runs each, and
 * a person pastes it.
 */
import { eventLink } from '../../src/console/layout';
import { BadParameter, readParameters } from '../../src/console/parameters';
import { QUERIES } from '../../src/console/queries';
import { makePageReader, ReaderIsBusy } from '../../src/console/reader';
import { asPasted, boundValues, defineQuery, OperatorScope, type Query } from '../../src/console/scope';
import { makePool, type PostgresPool } from '../../src/postgres/pool';
import { makeLogger } from '../../src/telemetry/logger';
import {
  type ConsoleWorld,
  HOSTILE_IDS,
  MARK_OF_ACME,
  MARK_OF_BRAVO,
  openConsoleWorld,
  PROMOTION,
  PSEUDONYM,
} from '../support/console';
import { aBet, aRefund, rowsOf, withClient } from '../support/ledger';

let world: ConsoleWorld;
let pool: PostgresPool;
let slow = 0;
beforeAll(async () => {
  world = await openConsoleWorld();
  const options = { databaseUrl: world.readerUrl, maxConnections: 4, applicationName: 'promo-test-console' };
  pool = makePool(options, makeLogger('silent'));
});
afterAll(async () => {
  await pool?.end();
  await world?.close();
});

const OPERATORS = [
  { operator: 'acme', own: MARK_OF_ACME, other: MARK_OF_BRAVO, otherAmount: '2000.02' },
  { operator: 'bravo', own: MARK_OF_BRAVO, other: MARK_OF_ACME, otherAmount: '10.01' },
] as const;
const ALL = Object.entries<Query>(QUERIES);

function open(metrics = { consoleSlowQueries: { inc: () => slow++ } }) {
  return makePageReader(pool, () => performance.now(), metrics);
}

const NOW = { since: '2026-01-01T00:00:00Z', until: '2100-01-01T00:00:00Z' };

/** Values of the parameters of any query. */
function valuesFor(query: Query, id: string, feed = ''): Record<string, string> {
  const [since, until] = [-3_600_000, 60_000].map((ms) => new Date(Date.now() + ms).toISOString());
  const all: Record<string, string | undefined> = {
    since,
    until,
    step: '60 seconds',
    feed,
    event: id,
    round: id,
    promotion: PROMOTION,
    player: PSEUDONYM,
  };
  return Object.fromEntries(Object.keys(query.params).map((name) => [name, all[name] ?? '']));
}

describe.each(OPERATORS)('$operator', ({ operator, own, other, otherAmount }) => {
  const scope = new OperatorScope(operator);
  const ids = [
    'e-1',
    'e-5',
    'e-6',
    'r-1',
    'r-2',
    `e-${own}`,
    `e-${other}`,
    `round-${own}`,
    `round-${other}`,
    ...HOSTILE_IDS,
  ];

  test.each(ALL)('%s gives rows of the operator alone, and has some', async (_, query) => {
    let found = 0;
    for (const id of ids)
      for (const feed of ['', 'apart', 'bravo', '/test']) {
        const { rows } = await open()(scope, (reader) => reader.read(query, valuesFor(query, id, feed)));
        found += rows.length;
        expect(JSON.stringify(rows)).not.toContain(other);
        expect(JSON.stringify(rows)).not.toContain(otherAmount);
      }
    expect(found).toBeGreaterThan(0);
  });

  test.each(ALL)('%s gives the same rows when it is pasted', async (_, query) => {
    await withClient(world.readerUrl, async (client) => {
      await client.query("set timezone to 'UTC'");
      for (const id of ids) {
        const values = valuesFor(query, id);
        const { rows } = await open()(scope, (reader) => reader.read(query, values));
        const printed = await rowsOf(client, asPasted(query.text, boundValues(scope, query, values)));
        expect(printed).toEqual(rows.map((row) => query.columns.map((column) => row[column])));
      }
    });
  });
});

test.each(ALL)(
  '%s reads a source of the operator in each of its sources, and nothing else',
  (_, { text }) => {
    const views = text.match(/\b(from|join) promo(_store|_reader)?\.\w+/g) ?? [];
    expect(views.length).toBeGreaterThan(0);
    expect(
      text.match(/\bfrom promo(_reader)?\.\w+( where operator_id = \$1|\(\$1(, \$\d::\w+)+\))\n/g),
    ).toHaveLength(views.length);
    expect(text).toMatch(/\nlimit \d+$/);
  },
);

test.each([
  ['a view', 'select 1 from promo.verdicts'],
  ['a table', 'select 1 from PROMO_STORE.history'],
  ['a table of the system', 'select 1 from pg_class'],
  ['a second statement', 'select 1 from verdicts; select 2'],
  ['the parameter of the scope', 'select $1 from verdicts'],
  ['an unknown parameter', 'select :operator from verdicts'],
])('a query that names %s is refused before it runs', (_, text) => {
  const from = ['verdicts'] as const;
  expect(() => defineQuery({ title: 'x', from, params: {}, columns: ['a'], limit: 1, text })).toThrow(
    /the query "x"/,
  );
});

test('a query cannot read a feed by its whole name', () => {
  const params = { feed: 'text' } as const;
  const text = 'select 1 from verdicts where feed_id = :feed';
  expect(() =>
    defineQuery({ title: 'x', from: ['verdicts'], params, columns: ['a'], limit: 1, text }),
  ).toThrow(/a feed that may be of another operator/);
});

test('an object that looks like a scope opens no page', async () => {
  const forged = Object.assign(Object.create(null), { operator: 'acme' });
  await expect(open()(forged, (reader) => reader.read(QUERIES.anomalies, NOW))).rejects.toThrow(
    'without a scope',
  );
});

test('a query beyond its time ends, is counted, and leaves the connection in use', async () => {
  const endless = {
    ...QUERIES.anomalies,
    text: `${QUERIES.anomalies.text.replace('limit', 'offset (select 0 from pg_sleep(6)) limit')}`,
  };
  const before = slow;
  const scope = new OperatorScope('acme');
  const found = await open()(scope, (reader) => reader.read(endless, NOW));
  expect([found.isTooSlow, found.rows]).toEqual([true, []]);
  expect(slow).toBe(before + 1);
  expect(pool.totalCount).toBeLessThanOrEqual(4);
  expect((await open()(scope, (reader) => reader.read(QUERIES.anomalies, NOW))).isTooSlow).toBe(false);
});

test('a page can change nothing, whatever its role may do', async () => {
  const owner = makePool(
    { databaseUrl: world.store.url, maxConnections: 1, applicationName: 'promo-test-console' },
    makeLogger('silent'),
  );
  const writing = {
    ...QUERIES.anomalies,
    params: {},
    text: "delete from promo_store.connections where connection_id <> $1 returning 'a', 'b', 'c', 'd'",
  };
  try {
    const page = makePageReader(owner, () => performance.now(), { consoleSlowQueries: { inc: () => 0 } });
    await expect(page(new OperatorScope('acme'), (reader) => reader.read(writing, {}))).rejects.toMatchObject(
      { sqlState: '25006' },
    );
  } finally {
    await owner.end();
  }
});

test('one operator has two places, and another one finds the others free', async () => {
  const page = open();
  let end = () => {};
  const ended = new Promise<void>((resolve) => {
    end = resolve;
  });
  const scope = new OperatorScope('acme');
  const held = [1, 2].map(() => page(scope, () => ended));
  const third = expect(page(scope, async () => 'read')).rejects.toThrow(ReaderIsBusy);
  await expect(page(new OperatorScope('bravo'), async () => 'read')).resolves.toBe('read');
  await third;
  end();
  await Promise.all(held);
  await expect(page(scope, async () => 'read')).resolves.toBe('read');
});

test('a page shows no id in full that is longer than 1,000 bytes, so that no operator uses up its memory', async () => {
  const long = (letter: string) => letter.repeat(2_000_000);
  const ids = { round_id: 'r-long', game: { id: long('g') } };
  await world.store
    .partition('acme', 4)
    .read(
      aBet({ ...ids, event_id: long('e') }),
      aBet({ ...ids, event_id: long('d'), brand: 'unknown' }),
      aRefund({ ...ids, event_id: long('f') }),
    );
  const scope = new OperatorScope('acme');
  let shortened = 0;
  for (const [, query] of ALL) {
    const { rows } = await open()(scope, (reader) => reader.read(query, valuesFor(query, 'r-long')));
    const texts = rows.flatMap((row) => Object.values(row)).map((text) => text ?? '');
    expect(texts.filter(({ length }) => length > 1_000)).toEqual([]);
    shortened += texts.filter((text) => / sha256:/.test(text)).length;
  }
  // The events of the round, its refund, and the samples of the overview.
  expect(shortened).toBeGreaterThan(4);
  expect(
    String(eventLink(scope, { feed_id: 'acme', event_id: `${'e'.repeat(200)}... sha256:${'0'.repeat(64)}` })),
  ).not.toContain('href');
});

test('a parameter that no page has, or that names another operator, is refused', () => {
  for (const search of [
    'operator=bravo',
    'range=8d',
    'range=1h&range=1h',
    'until=now',
    `feed=${'x'.repeat(4_001)}`,
    'id=%00',
  ])
    expect(() =>
      readParameters(new URLSearchParams(search), ['range', 'until', 'feed', 'id'], Date.now()),
    ).toThrow(BadParameter);
});
