/**
 * Migrations run forward, twice, two at once, and on several databases of one server. Some are killed on the
 * way.
 */
import { readdirSync } from 'node:fs';
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import type { Client } from 'pg';
import { isLongRun } from '../../dev/long-run';
import { until } from '../../dev/servers/deadline';
import type { ReferenceDocument } from '../../src/domain/reference';
import { migrationNames, pendingMigrations, runMigrations } from '../../src/ledger/migrate';
import { END_WITH_CLIENT, openClient } from '../../src/postgres/pool';
import {
  aBet,
  aRefund,
  aSettled,
  damagesOf,
  MIGRATIONS,
  REFERENCE,
  rowsOf,
  TestStore,
  type TextRow,
  withClient,
} from '../support/ledger';
import { startProgram } from '../support/program';
import { databaseUrl, type FreshDatabase, freshDatabase, ownServers } from '../support/servers';

const EACH_OF_OLDER = 12;
const NEWEST = 3;

const databases: FreshDatabase[] = [];
async function database(options = ''): Promise<string> {
  const made = await freshDatabase(databaseUrl(), options);
  databases.push(made);
  return made.url;
}
afterEach(async () => {
  for (const made of databases.splice(0)) await made.drop();
});

/**
 * Every object that a migration creates, as text: schemas, tables, columns, constraints, indexes, views,
 * functions, privileges, comments.
 */
const SHAPE = `
with ours as (select oid, nspname, nspacl from pg_namespace where nspname in ('promo', 'promo_store'))
select 'schema', nspname, '', concat_ws(' ', nspacl, obj_description(oid, 'pg_namespace')) from ours
union all select 'relation', c.oid::regclass::text, relkind::text, concat_ws(' ', reloptions, relacl, obj_description(c.oid, 'pg_class'))
from pg_class c join ours on ours.oid = relnamespace where relkind in ('r', 'p', 'v', 'S')
union all select 'column', attrelid::regclass::text, attname::text,
  concat_ws(' ', format_type(atttypid, atttypmod), attnotnull, attacl, col_description(attrelid, attnum))
from pg_attribute join pg_class c on c.oid = attrelid join ours on ours.oid = relnamespace where relkind in ('r', 'p', 'v') and attnum > 0
union all select 'constraint', conrelid::regclass::text, conname::text, pg_get_constraintdef(k.oid)
from pg_constraint k join ours on ours.oid = connamespace
union all select 'index', indexrelid::regclass::text, '', pg_get_indexdef(indexrelid)
from pg_index join pg_class c on c.oid = indexrelid join ours on ours.oid = relnamespace
union all select 'view', viewname::text, '', definition from pg_views join ours on nspname = schemaname
union all select 'function', p.oid::regprocedure::text, '', concat_ws(' ', pg_get_functiondef(p.oid), proacl, obj_description(p.oid, 'pg_proc'))
from pg_proc p join ours on ours.oid = pronamespace
union all select 'currency', code, '', currency_no || ' ' || scale from promo_store.currencies
order by 1, 2, 3`;

const shapeOf = (url: string): Promise<TextRow[]> => withClient(url, (client) => rowsOf(client, SHAPE));

/** That of this version in an empty database. */
let shape: readonly TextRow[];
beforeAll(async () => {
  const fresh = await freshDatabase();
  await runMigrations(fresh.url);
  shape = await shapeOf(fresh.url);
  await fresh.drop();
});

/** The reference data that decided the events of HELD. */
const HELD_OPERATOR: ReferenceDocument['operators'][number] = {
  id: 'held',
  active: true,
  connections: [{ id: 'held-stream', transport: 'kafka', topic: 'held' }],
  brands: [{ id: 'main', active: true, games: { deny: [] }, minBet: {} }],
  catalogue: [],
};

/**
 * Rows that a worker of the first version left. Rounds: a refunded one, and one of two currencies. Events: a
 * login, a rejected event, a duplicate, a record without a key, a dead letter.
 */
const HELD = `
select nextval('promo_store.batch_numbers');
insert into promo_store.operators (operator_id) values ('held');
insert into promo_store.feeds (operator_no, operator_id, feed_id) values (1, 'held', 'held');
insert into promo_store.connections (connection_id) values ('held-stream');
insert into promo_store.brands (operator_no, brand_id) values (1, 'main');
insert into promo_store.reference_versions (version, document) values (1, '{"operators": []}');
insert into promo_store.partitions (topic, partition, next_offset, records_read, accepted, rejected, duplicates, dead_letters, without_key)
values ('held', 0, 11, 11, 7, 1, 1, 1, 1);
insert into promo_store.rounds (round_no, feed_no, round_key, round_id, brand_no, currency_no, settled, refunded_by, refunded_at,
  bet_minor, win_minor, settled_minor, other_sums)
select 8192 + place, 1, promo_store.id_key(id), id, 1, 101, settled, refunded_by, case when refunded_by is not null then now() end,
  bet, win, settled_minor, others::jsonb
from (values
  (0, 'held-refunded', true, 'held-refund', 1050, 0, 1050, null),
  (1, 'held-stands', false, null, 300, 500, 0, '{"USD": {"bet": "200", "win": "0", "settled": "0", "belowMinBet": "0"}}')
) as v (place, id, settled, refunded_by, bet, win, settled_minor, others);
create temporary table held_events as
select 8192 + place as verdict_id, place as source_offset, v.* from (values
  (0, 'held-bet', 1, 8192, 0, true, 1050, 101),
  (1, 'held-settled', 3, 8192, 0, true, 1050, 101),
  (2, 'held-refund', 4, 8192, 0, false, 1050, 101),
  (3, 'held-win', 2, 8193, 0, true, 500, 101),
  (4, 'held-second-bet', 1, 8193, 0, true, 300, 101),
  (5, 'held-bet-in-usd', 1, 8193, 0, true, 200, 100),
  (6, 'held-login', 7, null, 0, true, null, null),
  (7, 'held-rejected', 1, 8193, 5, false, null, 101)
) as v (place, event_id, kind, round_no, outcome, counted, amount_minor, currency_no);
insert into promo_store.event_keys (verdict_id, content_hash, source_offset, feed_no, partition_no, outcome, event_key)
select verdict_id, 1, source_offset, 1, 1, outcome, promo_store.id_key(event_id) from held_events;
insert into promo_store.history (verdict_id, decided_at, occurred_at, amount_minor, round_no, source_offset, feed_no, connection_no,
  partition_no, brand_no, reference_version, outcome, kind, currency_no, counted, event_id, player_ref)
select verdict_id, now(), now(), amount_minor, round_no, source_offset, 1, 1, 1, 1, 1, outcome, kind, currency_no, counted, event_id, 'p-1'
from held_events;
insert into promo_store.resends (received_at, source_offset, feed_no, connection_no, partition_no, first_outcome, content_differs, event_id)
values (now(), 8, 1, 1, 1, 0, true, 'held-bet');
insert into promo_store.unstored (received_at, source_offset, value_hash, partition_no, connection_no, dead_letter)
values (now(), 9, 1, 1, 1, null), (now(), 10, 1, 1, null, 1);
drop table held_events`;

/** Queries for all rows of tables and views, by their current columns. 0051 changes rollup_players. */
const QUERIES = `
select format('select array[%s]::text from %s order by 1', string_agg(format('%I::text', attname), ', ' order by attnum), attrelid::regclass)
from pg_attribute join pg_class c on c.oid = attrelid
where relnamespace in ('promo'::regnamespace, 'promo_store'::regnamespace) and relkind in ('r', 'p', 'v') and not relispartition
  and relname not like 'migrations%' and relname not in ('currencies', 'rollup_players') and attnum > 0 and not attisdropped
group by attrelid`;

/** A migration may add a currency, and changes none. */
const CURRENCIES = 'select currency_no, code, scale, unit from promo_store.currencies';

/** 0032 creates the months of a table; 0033, 0039 and 0042 a fold each. Other rows stay as they are. */
const ADDED_ROWS = ['{faults,', '{pseudonyms,0,', '{promotions,0,', '{rollups,0,'];

const contentsOf = async (client: Client, queries: readonly TextRow[]): Promise<[string, TextRow[]][]> => {
  const contents: [string, TextRow[]][] = [];
  for (const [query] of queries) {
    const rows = await rowsOf(client, `${query}`);
    contents.push([`${query}`, rows.filter(([row]) => !ADDED_ROWS.some((start) => row?.startsWith(start)))]);
  }
  return contents;
};

/** Decides some events and reads them back. */
async function expectItWorks(url: string): Promise<void> {
  const store = new TestStore(url, { own: true });
  try {
    await store.apply({ operators: [...REFERENCE.operators, HELD_OPERATOR] });
    expect(await store.partition('acme').read(aBet(), aRefund(), aBet())).toEqual([
      'accepted',
      'accepted',
      'skipped/round_refunded',
    ]);
    expect(await store.value(`select sum(amount_minor) from promo.ledger where feed_id = 'acme'`)).toBe('0');
  } finally {
    await store.disconnect();
  }
}

const HELD_ENTRIES = [
  ['held-bet', '1050', 'EUR'],
  ['held-refund', '-1050', 'EUR'],
  ['held-settled', '1050', 'EUR'],
  ['held-refund', '-1050', 'EUR'],
  ['held-win', '500', 'EUR'],
  ['held-second-bet', '300', 'EUR'],
  ['held-bet-in-usd', '200', 'USD'],
  ['held-login', '0', null],
];

/** Reads the held records again, and continues after them. */
async function expectItIsKnown(url: string): Promise<void> {
  const store = new TestStore(url, { own: true });
  try {
    const held = store.partition('held');
    expect(
      await held.readAt(0, aBet({ event_id: 'held-bet' }), aSettled({ event_id: 'held-settled' })),
    ).toEqual(['accepted, again', 'accepted, again']);
    expect(
      await held.readAt(
        11,
        aBet({ event_id: 'held-rejected' }),
        aBet({ round_id: 'held-refunded' }),
        aRefund({ round_id: 'held-stands' }),
      ),
    ).toEqual(['duplicate of rejected/bad_amount, differs', 'skipped/round_refunded', 'accepted']);
    expect(await store.value(`select sum(amount_minor) from promo.ledger where feed_id = 'held'`)).toBe('0');
    expect(await damagesOf(store.pool)).toEqual([]);
  } finally {
    await store.disconnect();
  }
}

test('an empty database is migrated to this version, and a second run changes nothing [D1]', async () => {
  const url = await database();
  expect(await pendingMigrations(url)).toEqual(await migrationNames());

  expect(await runMigrations(url)).toEqual(await migrationNames());
  const shape = await shapeOf(url);
  expect(await runMigrations(url)).toEqual([]);

  expect(await shapeOf(url)).toEqual(shape);
  expect(await pendingMigrations(url)).toEqual([]);
  await expectItWorks(url);
});

describe('an earlier version is migrated to the same shape, with its rows', () => {
  const names = readdirSync(MIGRATIONS)
    .map((file) => file.replace(/\.sql$/, ''))
    .sort();
  /** It has no rows, and goes on from version to version: each test copies it. */
  let older: FreshDatabase;
  beforeAll(async () => {
    expect(await migrationNames()).toEqual(names.map((name) => `${name}.sql`));
    older = await freshDatabase();
  });
  afterAll(() => older.drop());

  // Rows of a version pass every later migration. So a usual run begins at the newest and some others.
  const begun = names.filter(
    (_, place) => isLongRun || place % EACH_OF_OLDER === 0 || place >= names.length - NEWEST,
  );
  test.each(begun)('%s [D1]', async (name) => {
    const later = names.slice(names.indexOf(name) + 1).map((each) => `${each}.sql`);
    await runMigrations(older.url, { upTo: `${name}.sql` });
    const url = await database(`template ${new URL(older.url).pathname.slice(1)}`);
    expect(await pendingMigrations(url)).toEqual(later);
    const { queries, before, currencies } = await withClient(url, async (client) => {
      await client.query(HELD);
      const queries = await rowsOf(client, QUERIES);
      const currencies = await rowsOf(client, CURRENCIES);
      return { queries, before: await contentsOf(client, queries), currencies };
    });

    expect(await runMigrations(url)).toEqual(later);

    expect(await shapeOf(url)).toEqual(shape);
    await withClient(url, async (client) => {
      expect(await contentsOf(client, queries)).toEqual(before);
      expect(await rowsOf(client, CURRENCIES)).toEqual(expect.arrayContaining(currencies));
      expect(
        await rowsOf(client, 'select event_id, amount_minor, currency from promo.ledger order by entry_id'),
      ).toEqual(HELD_ENTRIES);
      expect(await damagesOf(client)).toEqual([]);
    });
    await expectItWorks(url);
    await expectItIsKnown(url);
  });
});

test('months begin at midnight UTC, whatever time zone and date style the database has [D2]', async () => {
  // Up to Postgres 17, the abbreviation of one zone may be parsed as that of another: CST of Shanghai is
  // parsed as Chicago's.
  const servers = await ownServers({ need: ['postgres'], postgresVersion: '15' });
  try {
    const { url, drop } = await freshDatabase(servers.databaseUrl);
    const name = new URL(url).pathname.slice(1);
    await withClient(url, (client) =>
      client.query(
        `alter database ${name} set timezone = 'Asia/Shanghai'; alter database ${name} set datestyle = 'SQL, DMY'`,
      ),
    );
    await runMigrations(url);
    const bounds = await withClient(url, async (client) => {
      await client.query(`set timezone = 'UTC'; set datestyle = 'ISO'`);
      return rowsOf(
        client,
        `select distinct pg_get_expr(relpartbound, oid) from pg_class
         where relnamespace = 'promo_store'::regnamespace and relispartition and relkind = 'r'`,
      );
    });
    const midnight = String.raw`'\d{4}-\d\d-01 00:00:00\+00'`;
    const expected = expect.stringMatching(`^FOR VALUES FROM \\(${midnight}\\) TO \\(${midnight}\\)$`);
    expect(bounds.flat()).toEqual([expected, expected, expected]);
    await drop();
  } finally {
    await servers.stop();
  }
});

/**
 * Statements by which a migration lets its indexes be built before it, without a lock. The statements of one
 * month become those of the current month.
 */
async function statementsBefore(name: string): Promise<string[]> {
  const text = await readFile(join(MIGRATIONS, name), 'utf8');
  const month = new Date().toISOString().slice(0, 7).replace('-', '_');
  const [, ...statements] = text
    .replaceAll(/\n-- {5}/g, ' ')
    .replaceAll(/_2\d{3}_\d\d\b/g, `_${month}`)
    .split('\n--   create index concurrently ');
  return statements.map((statement) => `create index concurrently ${statement.split('\n')[0]}`);
}

test.each([
  ['0006_rounds_by_bloom.sql', '0005_decided_up_to.sql', 2],
  ['0007_rounds_by_time.sql', '0006_rounds_by_bloom.sql', 1],
  ['0009_ids_in_order.sql', '0008_stored_ids.sql', 2],
  ['0011_bounded_ids.sql', '0010_erasure_of_panics.sql', 2],
  ['0016_locks_of_our_own.sql', '0015_ledger_by_refunds.sql', 1],
  ['0057_blocks_filled_again.sql', '0056_answers_about_attributions.sql', 1],
])('%s uses the indexes that its comment lets be built before it [D1]', async (name, upTo, count) => {
  const url = await database();
  await runMigrations(url, { upTo });
  const statements = await statementsBefore(name);
  expect(statements).toHaveLength(count);
  const made = await withClient(url, async (client) => {
    const idsOf = async () => (await rowsOf(client, 'select indexrelid from pg_index')).flat();
    const before = await idsOf();
    for (const statement of statements) await client.query(statement);
    return (await idsOf()).filter((id) => !before.includes(id));
  });
  expect(made).toHaveLength(count);

  // A later migration may replace them.
  await runMigrations(url, { upTo: name });

  const kept = await withClient(url, (client) =>
    rowsOf(client, 'select from pg_index where indexrelid = any($1::oid[])', [made]),
  );
  expect(kept).toHaveLength(count);
  await runMigrations(url);
  expect(await shapeOf(url)).toEqual(shape);
});

test('each is a transaction of its own, which releases its locks before the next [D1]', async () => {
  const url = await database();
  await runMigrations(url);
  const transactions = await withClient(url, (client) =>
    rowsOf(client, 'select count(distinct xmin::text) from promo_store.migrations'),
  );
  expect(transactions).toEqual([[String((await migrationNames()).length)]]);
});

test('long ids of an older version are shortened before an index keeps their order, beside an open transaction [K5]', async () => {
  const url = await database();
  await runMigrations(url, { upTo: '0007_rounds_by_time.sql' });
  const sizes = `select pg_relation_size(reltoastrelid)::int > 0 from pg_class
    where oid in ('promo_store.rounds'::regclass, (select tableoid from promo_store.resends limit 1))`;
  await withClient(url, async (client) => {
    await client.query(HELD);
    await client.query(`update promo_store.rounds set round_id = repeat('x', 200000) || round_id where refunded_by is null;
      update promo_store.resends set event_id = repeat('z', 200000)`);
    expect(await rowsOf(client, sizes)).toEqual([['t'], ['t']]);
  });
  // While a transaction of the server is older than the change, an index also takes rows in their old state.
  await withClient(databaseUrl(), async (other) => {
    await other.query('begin');
    await other.query('select pg_current_xact_id()');
    await runMigrations(url);
  });
  await withClient(url, async (client) => {
    expect(await rowsOf(client, sizes)).toEqual([['f'], ['f']]);
    const longest = `select (select max(length(round_id)) from promo_store.rounds), (select max(length(event_id)) from promo_store.resends),
      (select array_agg(distinct relpersistence) from pg_class where relnamespace = 'promo_store'::regnamespace)`;
    expect(await rowsOf(client, longest)).toEqual([['1075', '1075', '{p}']]);
  });
});

test('0051_short_keys_of_players.sql keeps the sums of players, and their numbers lead to the counts [L5]', async () => {
  const url = await database();
  await runMigrations(url, { upTo: '0050_players_by_currency.sql' });
  const SUMS =
    'select day, operator_id, brand, kind, currency, player_ref, entries, amount_minor from promo.player_ledger_daily order by 1, 2, 3, 4, 5, 6';
  const COUNTS =
    'select generation, day, operator_no, brand_no, kind, players from promo_store.rollup_player_counts order by 1, 2, 3, 4, 5';
  await withClient(url, async (client) => {
    await client.query(HELD);
    await client.query(`update promo_store.folds set generation = 2 where fold = 'rollups';
      insert into promo_store.rollup_players (generation, day, operator_no, brand_no, kind, currency_no, entries, amount_minor, player_ref)
      select generation, date '2026-11-01' + day, 1, brand_no, kind, case kind when 7 then 0 else 100 + player % 2 end, 1, generation * 1000 + player, 'p-' || player
      from generate_series(1, 2) generation, generate_series(0, 2) day, generate_series(0, 1) brand_no, unnest(array[1, 7]) kind, generate_series(1, 5) player;
      insert into promo_store.rollup_player_counts (generation, day, operator_no, brand_no, kind, players)
      select generation, day, operator_no, brand_no, kind, count(*) from promo_store.rollup_players group by 1, 2, 3, 4, 5
      union all select 2, '2026-10-01', 1, 0, 1, 7`);
    const before = await rowsOf(client, SUMS);
    const counts = await rowsOf(client, COUNTS);
    expect(before).toHaveLength(60);

    await runMigrations(url);

    expect(await rowsOf(client, SUMS)).toEqual(before);
    expect(await rowsOf(client, COUNTS)).toEqual(counts);
    expect(
      await rowsOf(
        client,
        `select count(distinct player_day_no), min(sums), max(sums) from (select player_day_no, count(*) as sums from promo_store.rollup_players group by 1) s`,
      ),
    ).toEqual([['24', '5', '5']]);
  });
});

test('0009_ids_in_order.sql waits for a batch that has locked its rounds, and the batch continues [U4]', async () => {
  const url = await database();
  await runMigrations(url, { upTo: '0008_stored_ids.sql' });
  await withClient(url, async (batch) => {
    await batch.query(HELD);
    await batch.query('begin');
    await batch.query('select from promo_store.rounds for update');
    const migrated = runMigrations(url);
    const waiting = `select count(*)::int > 0 from pg_locks where not granted and database = (select oid from pg_database where datname = current_database())`;
    await withClient(url, (other) =>
      until('the migration waits', 60_000, async () => (await rowsOf(other, waiting))[0]?.[0] === 't'),
    );
    await batch.query('update promo_store.rounds set settled = true');
    await batch.query('insert into promo_store.resends select * from promo_store.resends limit 1');
    await batch.query('commit');
    expect(await migrated).toContain('0009_ids_in_order.sql');
  });
});

test('a database that lacks characters is refused, and stays empty', async () => {
  const made = await freshDatabase(databaseUrl(), `encoding 'LATIN1' locale 'C' template template0`);
  databases.push(made);
  await expect(runMigrations(made.url)).rejects.toThrow('encoded in LATIN1');
  expect(
    await withClient(made.url, (client) => rowsOf(client, `select to_regnamespace('promo_store')`)),
  ).toEqual([[null]]);
});

test('two at once run one after the other, on one database and on several of one server [D1]', async () => {
  const [one, other] = [await database(), await database()];
  const ran = await Promise.all([
    runMigrations(one),
    runMigrations(other),
    runMigrations(one),
    runMigrations(other),
    runMigrations(one),
  ]);
  expect(ran.flat().sort()).toEqual([...(await migrationNames()), ...(await migrationNames())].sort());
  expect(await shapeOf(one)).toEqual(await shapeOf(other));
  await expectItWorks(one);
  await expectItWorks(other);
});

describe('a lock that another session holds for long, like a query of hours', () => {
  /** 0005 changes promo_store.partitions, which every batch locks. */
  const untilPartitions = '0004_time_ranges.sql';

  test('is awaited without blocking workers, and taken when it is free', async () => {
    const url = await database();
    await runMigrations(url, { upTo: untilPartitions });
    await withClient(url, async (holder) => {
      await holder.query('begin');
      await holder.query('select from promo_store.partitions');
      const waits: string[] = [];
      const migrating = runMigrations(url, { onWait: (name) => waits.push(name) });
      await until('it has given up once', 60_000, async () => waits.length === 1);
      // No session queues behind the migration now.
      await withClient(url, async (client) => {
        // A worker would wait for five seconds.
        await client.query(`set lock_timeout = '4s'`);
        await client.query('begin; lock promo_store.partitions in row exclusive mode; commit');
      });
      await holder.query('commit');
      const names = await migrationNames();
      expect(await migrating).toEqual(names.filter((name) => name > untilPartitions));
      expect(new Set(waits)).toEqual(new Set(['0005_decided_up_to.sql']));
    });
    expect(await pendingMigrations(url)).toEqual([]);
    await expectItWorks(url);
  });

  test('is reported at the end, and nothing is changed', async () => {
    const url = await database();
    await runMigrations(url, { upTo: untilPartitions });
    const shape = await shapeOf(url);
    await withClient(url, async (holder) => {
      await holder.query('begin');
      await holder.query('select from promo_store.partitions');
      await expect(runMigrations(url, { triesMs: 1_000 })).rejects.toThrow(
        '0005_decided_up_to.sql got no lock in 1 s, and changed nothing: find the session that holds the lock in pg_stat_activity',
      );
      await holder.query('commit');
    });
    expect(await shapeOf(url)).toEqual(shape);
    await runMigrations(url);
    await expectItWorks(url);
  });
});

test('one that fails is reported by its name and the error of the store, without its text', async () => {
  const url = await database();
  await withClient(url, (client) =>
    client.query('create schema promo_store; create table promo_store.history ()'),
  );
  await expect(runMigrations(url)).rejects.toThrow(/^0001_intake\.sql: relation "history" already exists$/);
});

test('a statement of minutes ends soon after its client is gone', async () => {
  const url = await database();
  const marked = 'select pg_sleep(300) as asked_by_somebody_who_is_gone';
  const running = () =>
    withClient(url, (client) =>
      rowsOf(client, `select count(*) from pg_stat_activity where state = 'active' and query = $1`, [marked]),
    );
  const client = await openClient(url, { application_name: 'promo-test-gone' });
  await client.query('begin');
  await client.query(END_WITH_CLIENT);
  const asked = client.query(marked).then(
    () => 'answered',
    () => 'gone',
  );
  await until('it runs', 60_000, async () => (await running())[0]?.[0] === '1');
  // Without a closing message, like a killed process.
  client.connection.stream.destroy();
  expect(await asked).toBe('gone');
  await until('the statement is ended', 60_000, async () => (await running())[0]?.[0] === '0');
});

/**
 * Relations of the first migration: one of the first tables, one in the middle and the last. One of a later
 * migration, and an index of the last.
 */
const RELATIONS = ['operators', 'history', 'rounds', 'operations', 'resends_order'];

/**
 * Interrupts a migration in the middle, while it waits for a session that creates a table of the same name.
 */
async function inTheMiddle(
  url: string,
  relation: string,
  work: (holder: Client) => Promise<void>,
): Promise<void> {
  await withClient(url, async (holder) => {
    await holder.query('create schema if not exists promo_store');
    await holder.query('begin');
    await holder.query(`create table promo_store.${relation} ()`);
    await work(holder);
    await holder.query('rollback');
  });
}

const untilItWaits = (holder: Client): Promise<void> =>
  until('the migration waits', 60_000, async () => {
    const waiting =
      'select from pg_locks where not granted and pg_backend_pid() = any(pg_blocking_pids(pid))';
    return (await holder.query(waiting)).rowCount === 1;
  });

test('one that is killed in the middle does not block the next [D1] [U1]', async () => {
  const whole = await database();
  await runMigrations(whole);
  const shape = await shapeOf(whole);
  for (const relation of RELATIONS) {
    const url = await database();
    await inTheMiddle(url, relation, async (holder) => {
      const program = startProgram(join(__dirname, '../support/migrate-program.ts'), { DATABASE_URL: url });
      try {
        await untilItWaits(holder);
      } finally {
        expect(await program.kill()).toEqual({ code: null, signal: 'SIGKILL' });
      }
    });

    await runMigrations(url);
    expect(await shapeOf(url)).toEqual(shape);
    expect(await pendingMigrations(url)).toEqual([]);
  }
});

test('one whose connections the server ends in the middle does not block the next [D1] [U1]', async () => {
  const url = await database();
  for (const relation of RELATIONS) {
    await inTheMiddle(url, relation, async (holder) => {
      const failed = expect(runMigrations(url)).rejects.toThrow(/terminat|connection error/);
      await untilItWaits(holder);
      await holder.query(
        `select pg_terminate_backend(pid, 1000) from pg_stat_activity where datname = current_database() and pid <> pg_backend_pid()`,
      );
      await failed;
    });
  }
  await runMigrations(url);
  await expectItWorks(url);
});
