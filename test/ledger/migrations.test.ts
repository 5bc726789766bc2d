/** Migrations: forward, twice, two at once, killed in the middle, several databases on one server. */
import { join } from 'node:path';
import type { Client } from 'pg';
import { until } from '../../dev/servers/deadline';
import { migrate, migrationNames, pendingMigrations } from '../../src/ledger/migrate';
import { aBet, aRefund, REFERENCE, rowsOf, TestStore, type TextRow, withClient } from '../support/ledger';
import { startProgram } from '../support/program';
import { type FreshDatabase, freshDatabase } from '../support/servers';

jest.setTimeout(120_000);

const databases: FreshDatabase[] = [];
async function database(): Promise<string> {
  const made = await freshDatabase();
  databases.push(made);
  return made.url;
}
afterEach(async () => {
  for (const made of databases.splice(0)) await made.drop();
});

/** Everything that a migration makes, as text: tables, columns, indexes, views, functions, comments. */
const SHAPE = `
select 'column', attrelid::regclass::text, attname::text, format_type(atttypid, atttypmod) || ' ' || attnotnull || ' ' || coalesce(col_description(attrelid, attnum), '')
from pg_attribute join pg_class c on c.oid = attrelid
where relnamespace in ('promo'::regnamespace, 'promo_store'::regnamespace) and relkind in ('r', 'p', 'v') and attnum > 0
union all select 'index', indexrelid::regclass::text, '', pg_get_indexdef(indexrelid) from pg_index join pg_class c on c.oid = indexrelid
where relnamespace = 'promo_store'::regnamespace
union all select 'view', viewname::text, '', definition from pg_views where schemaname = 'promo'
union all select 'function', proname::text, '', prosrc from pg_proc where pronamespace = 'promo_store'::regnamespace
union all select 'currency', code, '', currency_no || ' ' || scale from promo_store.currencies
order by 1, 2, 3`;

const shapeOf = (url: string): Promise<TextRow[]> => withClient(url, (client) => rowsOf(client, SHAPE));

/** Decides something and reads it back. */
async function expectItWorks(url: string): Promise<void> {
  const store = new TestStore(url, { own: true });
  try {
    await store.apply(REFERENCE);
    expect(await store.partition('acme').read(aBet(), aRefund(), aBet())).toEqual([
      'accepted',
      'accepted',
      'skipped/round_refunded',
    ]);
    expect(await store.value('select sum(amount_minor) from promo.ledger')).toBe('0');
  } finally {
    await store.disconnect();
  }
}

test('an empty database is brought to this version, and once more changes nothing [D1]', async () => {
  const url = await database();
  expect(await pendingMigrations(url)).toEqual(await migrationNames());

  expect(await migrate(url)).toEqual(await migrationNames());
  const shape = await shapeOf(url);
  expect(await migrate(url)).toEqual([]);

  expect(await shapeOf(url)).toEqual(shape);
  expect(await pendingMigrations(url)).toEqual([]);
  await expectItWorks(url);
});

test('every earlier version is brought to the same shape, with what it holds [D1]', async () => {
  const names = await migrationNames();
  const fresh = await database();
  await migrate(fresh);
  const shape = await shapeOf(fresh);
  for (const [index, name] of names.entries()) {
    const url = await database();
    expect(await migrate(url, name)).toEqual(names.slice(0, index + 1));
    expect(await pendingMigrations(url)).toEqual(names.slice(index + 1));
    expect(await migrate(url)).toEqual(names.slice(index + 1));
    expect(await shapeOf(url)).toEqual(shape);
    await expectItWorks(url);
  }
});

test('two at once are one after the other, on one database and on several of one server [D1]', async () => {
  const [one, other] = [await database(), await database()];
  const ran = await Promise.all([migrate(one), migrate(other), migrate(one), migrate(other), migrate(one)]);
  expect(ran.flat().sort()).toEqual([...(await migrationNames()), ...(await migrationNames())].sort());
  expect(await shapeOf(one)).toEqual(await shapeOf(other));
  await expectItWorks(one);
  await expectItWorks(other);
});

/** Of the first migration one of the first tables, one of the middle and the last; and one of the last migration. */
const TABLES = ['operators', 'history', 'rounds', 'operations'];

/** Does something to a migration in the middle: it waits for somebody who is making the same table. */
async function inTheMiddle(
  url: string,
  table: string,
  work: (holder: Client) => Promise<void>,
): Promise<void> {
  await withClient(url, async (holder) => {
    await holder.query('create schema if not exists promo_store');
    await holder.query('begin');
    await holder.query(`create table promo_store.${table} ()`);
    await work(holder);
    await holder.query('rollback');
  });
}

const untilItWaits = (holder: Client): Promise<void> =>
  until('the migration waits', 20_000, async () => {
    const waiting =
      'select from pg_locks where not granted and pg_backend_pid() = any(pg_blocking_pids(pid))';
    return (await holder.query(waiting)).rowCount === 1;
  });

test('one that is killed in the middle leaves nothing in the way of the next [D1] [U1]', async () => {
  const whole = await database();
  await migrate(whole);
  const shape = await shapeOf(whole);
  for (const table of TABLES) {
    const url = await database();
    await inTheMiddle(url, table, async (holder) => {
      const program = startProgram(join(__dirname, 'migrate-program.ts'), { DATABASE_URL: url });
      try {
        await untilItWaits(holder);
      } finally {
        expect(await program.kill()).toEqual({ code: null, signal: 'SIGKILL' });
      }
    });

    await migrate(url);
    expect(await shapeOf(url)).toEqual(shape);
    expect(await pendingMigrations(url)).toEqual([]);
  }
});

test('one whose connections the server ends in the middle leaves nothing in the way of the next [D1] [U1]', async () => {
  const url = await database();
  // knex writes the whole migration there.
  const told = jest.spyOn(console, 'log').mockImplementation();
  for (const table of TABLES) {
    await inTheMiddle(url, table, async (holder) => {
      const failed = expect(migrate(url)).rejects.toThrow(/terminat|connection error/);
      await untilItWaits(holder);
      await holder.query(
        `select pg_terminate_backend(pid, 1000) from pg_stat_activity where datname = current_database() and pid <> pg_backend_pid()`,
      );
      await failed;
    });
  }
  told.mockRestore();
  await migrate(url);
  await expectItWorks(url);
});
