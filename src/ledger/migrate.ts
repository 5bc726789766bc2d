/**
 * Migrations: the SQL files of migrations/, run by knex, forward only.
 */
import { readdir, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Client } from 'pg';
import { clientConfig, END_WITH_CLIENT, KEEP_ALIVE, openClient, type StoreAccess } from '../postgres/pool';
import { DEADLOCK_STATE, LOCK_TIMEOUT_STATE } from './failures';
import { MigrationProblem, takeGuard } from './migrate-guard';

export { MigrationProblem } from './migrate-guard';

const DIRECTORY = join(__dirname, '..', '..', 'migrations');
const STORE = 'promo_store';
/**
 * Whoever comes behind a migration that waits for a lock waits with it: workers, too, which are undecided after LOCK_TIMEOUT_MS (connection.ts). So it
 * gives up before that, lets them pass, and is tried again.
 */
const MIGRATION_LOCK_TIMEOUT_MS = 2_000;
const BETWEEN_TRIES_MS = 3_000;
const TRIES_MS = 120_000;

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

export interface MigrateOptions {
  /** Name of the last migration that is to run, instead of the newest. */
  readonly upTo?: string;
  /** Told each time that a migration gives up waiting for a lock, and is going to be tried again. */
  readonly onWait?: (name: string) => void;
  /** So long a migration that meets locks is tried, instead of TRIES_MS. */
  readonly triesMs?: number;
  /** So long it waits for another migrator. */
  readonly guardTimeoutMs?: number;
}

/**
 * Brings a database to the newest version, or to `upTo`. Each migration is a transaction of its own.
 *
 * @returns the names of the migrations that ran
 * @throws Error where a migration fails, or somebody holds for too long what it has to lock
 */
export async function migrate(
  database: string | StoreAccess,
  { upTo, onWait = () => undefined, triesMs = TRIES_MS, guardTimeoutMs }: MigrateOptions = {},
): Promise<string[]> {
  // Loaded here, since the worker asks only what is pending.
  const { default: knex } = await import('knex');
  const client = await openClient(database, { application_name: 'promo-intake-migrate', ...KEEP_ALIVE });
  const runner = knex({
    client: 'pg',
    connection: { ...clientConfig(database), ...KEEP_ALIVE },
    pool: { min: 0, max: 1 },
    // It would print the whole migration, beside throwing what it says.
    log: { warn() {}, error() {} },
  });
  try {
    await checkEncoding(client);
    const guard = await takeGuard(database, { timeoutMs: guardTimeoutMs });
    try {
      const files = (await readMigrations()).filter(({ name }) => upTo === undefined || name <= upTo);
      const done = await doneIn(client);
      const pending = without(done, files);
      const newer = unknownAmong(done, await readMigrations());
      if (newer.length > 0 && pending.length > 0)
        throw new MigrationProblem(
          `the database has migrations of another version (${newer.join(', ')}), and lacks ${pending.join(', ')} of this one: run migrate of the newer version`,
        );
      const migrator = runner.migrate;
      const config = migrationConfig(files);
      // knex leaves its own lock behind when it is killed. Under the guard nobody else can hold it.
      await migrator.forceFreeMigrationsLock(config);
      // One at a time: `latest` would make one transaction of all of them, with the locks of all until the last.
      for (const name of pending)
        await onceFree(name, { onWait, triesMs }, async () => {
          await guard.check();
          await migrator.up(config);
        });
      await forgetErased(client);
      await client.query(`comment on table ${STORE}.migrations is 'Migrations that ran, kept by knex.'`);
      await client.query(
        `comment on table ${STORE}.migrations_lock is 'A lock that knex keeps; promo-intake relies on promo_store.migrate_guard.'`,
      );
      return pending;
    } finally {
      await guard.release();
    }
  } finally {
    await runner.destroy();
    await client.end();
  }
}

/**
 * Forgets the hashes of players that were erased before there were tags. Each is a transaction of its own: a run that is killed leaves the rest to
 * the next one.
 */
async function forgetErased(client: Client): Promise<void> {
  const { rows } = await client.query<{ found: boolean }>(
    `select to_regprocedure('${STORE}.forget_next_erased()') is not null as found`,
  );
  if (!rows[0]?.found) return;
  for (;;) {
    await client.query('begin; set local statement_timeout = 0');
    const { rows } = await client.query<{ erased: string | null }>(
      `select ${STORE}.forget_next_erased() as erased`,
    );
    await client.query('commit');
    if (rows[0]?.erased == null) return;
  }
}

/** Runs a migration, again and again while somebody holds what it has to lock. @throws Error beyond its time, and where it fails otherwise */
async function onceFree(
  name: string,
  { onWait, triesMs }: Required<Pick<MigrateOptions, 'onWait' | 'triesMs'>>,
  run: () => Promise<unknown>,
): Promise<void> {
  /** From the first lock on that it did not get: what it does before may take long. */
  let giveUpAt: number | undefined;
  for (;;) {
    try {
      await run();
      return;
    } catch (error) {
      if (!isLocked(error)) throw error;
      giveUpAt ??= Date.now() + triesMs;
      if (Date.now() > giveUpAt)
        throw new MigrationProblem(
          `${name} got no lock in ${triesMs / 1000} s, and changed nothing: see in pg_stat_activity what runs for so long, and run it again`,
          { cause: error },
        );
      onWait(name);
      await sleep(BETWEEN_TRIES_MS);
    }
  }
}

/** @throws where not every character of an event can be stored */
async function checkEncoding(client: Client): Promise<void> {
  const { rows } = await client.query<{ server_encoding: string }>('show server_encoding');
  const encoding = rows[0]?.server_encoding;
  if (encoding !== 'UTF8')
    throw new MigrationProblem(
      `the database is encoded in ${encoding}, which lacks characters that events may hold: use one that is made with ENCODING UTF8`,
    );
}

/** Whether it met others on its way to a lock, whom it waited for too long or who waited for it. */
function isLocked(error: unknown): boolean {
  return error instanceof Error && 'code' in error && LOCKED_STATES.has(error.code);
}

const LOCKED_STATES: ReadonlySet<unknown> = new Set([LOCK_TIMEOUT_STATE, DEADLOCK_STATE]);

/** Names of the migrations that a database still lacks. */
export async function pendingMigrations(database: string | StoreAccess): Promise<string[]> {
  const client = await openClient(database, { application_name: 'promo-intake-migrate' });
  try {
    return without(await doneIn(client), await readMigrations());
  } finally {
    await client.end();
  }
}

/** Names of the migrations that ran, and that this version does not have: a newer version ran them. */
export async function newerMigrations(database: string | StoreAccess): Promise<string[]> {
  const client = await openClient(database, { application_name: 'promo-intake-migrate' });
  try {
    return unknownAmong(await doneIn(client), await readMigrations());
  } finally {
    await client.end();
  }
}

function unknownAmong(done: ReadonlySet<string>, files: readonly SqlFile[]): string[] {
  const known = new Set(files.map(({ name }) => name));
  return [...done].filter((name) => !known.has(name)).sort();
}

/** Names of the migrations that ran. */
async function doneIn(client: Client): Promise<ReadonlySet<string>> {
  const { rows: tables } = await client.query<{ found: boolean }>(
    `select to_regclass('${STORE}.migrations') is not null as found`,
  );
  if (!tables[0]?.found) return new Set();
  const { rows } = await client.query<{ name: string }>(`select name from ${STORE}.migrations`);
  return new Set(rows.map(({ name }) => name));
}

function without(done: ReadonlySet<string>, files: readonly SqlFile[]): string[] {
  return files.map(({ name }) => name).filter((name) => !done.has(name));
}

/** The same error, which knex lets begin with the whole of the file. */
function withoutSql(error: unknown, { name, sql }: SqlFile): unknown {
  if (error instanceof Error && error.message.startsWith(sql.slice(0, 100)))
    error.message = `${name}: ${error.message.slice(error.message.lastIndexOf(' - ') + 3)}`;
  return error;
}

/** Whatever a role or a database is set to: an index of a large table takes minutes, and a month begins at midnight UTC. The last is of Postgres 17 and newer. */
const SETTINGS = `set local lock_timeout = ${MIGRATION_LOCK_TIMEOUT_MS}; set local statement_timeout = 0;
set local timezone = 'UTC'; set local datestyle = 'ISO';
select set_config(name, '0', true) from pg_settings where name = 'transaction_timeout';
${END_WITH_CLIENT}`;

function migrationConfig(files: readonly SqlFile[]) {
  return {
    schemaName: STORE,
    tableName: 'migrations',
    migrationSource: {
      getMigrations: async () => [...files],
      getMigrationName: (file: SqlFile) => file.name,
      getMigration: async (file: SqlFile) => ({
        up: async (transaction: { raw(sql: string): PromiseLike<unknown> }) => {
          await transaction.raw(SETTINGS);
          // knex would take a question mark for a parameter.
          if (file.sql.includes('?')) throw new Error(`${file.name} holds a question mark`);
          await transaction.raw(file.sql).then(undefined, (error: unknown) => {
            throw withoutSql(error, file);
          });
        },
        down: async () => {
          throw new Error('migrations only go forward');
        },
      }),
    },
  };
}
