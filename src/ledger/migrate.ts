/**
 * Migrations: the SQL files of migrations/, run by knex, forward only.
 */
import { readdir, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { Client } from 'pg';
import { clientConfig, type StoreAccess } from './connection';

const DIRECTORY = join(__dirname, '..', '..', 'migrations');
const STORE = 'promo_store';
/** One number for all of our migrators: two of one database wait for one another. */
const ADVISORY_LOCK = 4_915_023_771;
const LOCK_TIMEOUT_MS = 60_000;

interface SqlFile {
  readonly name: string;
  readonly sql: string;
}

async function readMigrations(): Promise<SqlFile[]> {
  const names = (await readdir(DIRECTORY)).filter((name) => /^\d{4}_[a-z0-9_]+\.sql$/.test(name)).sort();
  return Promise.all(
    names.map(async (name) => ({ name, sql: await readFile(join(DIRECTORY, name), 'utf8') })),
  );
}

/** Names of all migrations, in order. */
export async function migrationNames(): Promise<string[]> {
  return (await readMigrations()).map(({ name }) => name);
}

/**
 * Brings a database to the newest version, or to `upTo`. Each migration is a transaction of its own.
 *
 * @returns the names of the migrations that ran
 */
export async function migrate(database: string | StoreAccess, upTo?: string): Promise<string[]> {
  // Loaded here, since the worker asks only what is pending.
  const { default: knex } = await import('knex');
  const guard = await connect(database);
  const runner = knex({ client: 'pg', connection: clientConfig(database), pool: { min: 0, max: 1 } });
  try {
    await guard.query(`set lock_timeout = ${LOCK_TIMEOUT_MS}`);
    await guard.query('select pg_advisory_lock($1)', [ADVISORY_LOCK]);
    await guard.query(`create schema if not exists ${STORE}`); // where knex keeps its own tables
    const migrator = runner.migrate;
    const config = migrationConfig(
      (await readMigrations()).filter(({ name }) => upTo === undefined || name <= upTo),
    );
    // knex leaves its own lock behind when it is killed. Under the advisory lock nobody else can hold it.
    await migrator.forceFreeMigrationsLock(config);
    const [, ran]: [number, unknown[]] = await migrator.latest(config);
    await guard.query(`comment on table ${STORE}.migrations is 'Migrations that ran, kept by knex.'`);
    await guard.query(
      `comment on table ${STORE}.migrations_lock is 'A lock that knex keeps; promo-intake relies on an advisory lock.'`,
    );
    return ran.map(String);
  } finally {
    await runner.destroy();
    await guard.end();
  }
}

/** Names of the migrations that a database still lacks. */
export async function pendingMigrations(database: string | StoreAccess): Promise<string[]> {
  const client = await connect(database);
  try {
    const { rows: tables } = await client.query<{ found: boolean }>(
      `select to_regclass('${STORE}.migrations') is not null as found`,
    );
    if (!tables[0]?.found) return migrationNames();
    const { rows } = await client.query<{ name: string }>(`select name from ${STORE}.migrations`);
    const done = new Set(rows.map(({ name }) => name));
    return (await migrationNames()).filter((name) => !done.has(name));
  } finally {
    await client.end();
  }
}

/** @param database an address that says all, or how to connect */
async function connect(database: string | StoreAccess): Promise<Client> {
  const client = new Client({
    application_name: 'promo-intake-migrate',
    ...clientConfig(database),
  });
  // A connection that ends is reported by the statement under way, or by the next one; an event without a listener ends the process.
  client.on('error', () => undefined);
  await client.connect();
  return client;
}

function migrationConfig(files: readonly SqlFile[]) {
  return {
    schemaName: STORE,
    tableName: 'migrations',
    migrationSource: {
      getMigrations: async () => [...files],
      getMigrationName: (file: SqlFile) => file.name,
      getMigration: async (file: SqlFile) => ({
        up: async (transaction: { raw(sql: string): PromiseLike<unknown> }) => {
          // knex would take a question mark for a parameter.
          if (file.sql.includes('?')) throw new Error(`${file.name} holds a question mark`);
          await transaction.raw(file.sql);
        },
        down: async () => {
          throw new Error('migrations only go forward');
        },
      }),
    },
  };
}
