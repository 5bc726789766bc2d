/** Migrations: the SQL files in migrations/, run by knex, forward only. */
import { readdir, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Client } from 'pg';
import { clientConfig, END_WITH_CLIENT, KEEP_ALIVE, openClient, type StoreAccess } from '../postgres/pool';
import { BEGIN } from '../postgres/transaction';
import { DEADLOCK_STATE, LOCK_TIMEOUT_STATE } from './failures';
import { MigrationProblem, takeGuard } from './migrate-guard';

export { MigrationProblem } from './migrate-guard';

const DIRECTORY = join(__dirname, '..', '..', 'migrations');
const STORE = 'promo_store';
/**
 * The longest wait of a migration for a lock. Every session that needs the same lock queues behind it.
 * Workers are undecided after LOCK_TIMEOUT_MS (postgres/transaction.ts). So the migration stops waiting
 * earlier, lets them pass, and is tried again.
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
  /** The name of the last migration to run, instead of the newest. */
  readonly upTo?: string;
  /** Called each time that a migration stops waiting for a lock and will be tried again. */
  readonly onWait?: (name: string) => void;
  /** How long a blocked migration is tried, instead of TRIES_MS. */
  readonly triesMs?: number;
  /** The longest wait for another migrator. */
  readonly guardTimeoutMs?: number;
}

/**
 * Migrates a database to the newest version, or to `upTo`. Each migration is a transaction of its own.
 *
 * @returns the names of the migrations that ran
 * @throws Error where a migration fails, or another session holds a needed lock for too long
 */
export async function runMigrations(
  database: string | StoreAccess,
  { upTo, onWait = () => undefined, triesMs = TRIES_MS, guardTimeoutMs }: MigrateOptions = {},
): Promise<string[]> {
  // Loaded here, since the worker only reads which migrations are pending.
  const { default: knex } = await import('knex');
  const client = await openClient(database, { application_name: 'promo-intake-migrate', ...KEEP_ALIVE });
  const runner = knex({
    client: 'pg',
    connection: { ...clientConfig(database), ...KEEP_ALIVE },
    pool: { min: 0, max: 1 },
    // knex would print the whole migration, although it also throws the error.
    log: { warn() {}, error() {} },
  });
  try {
    await checkEncoding(client);
    const guard = await takeGuard(database, { timeoutMs: guardTimeoutMs });
    try {
      const files = (await readMigrations()).filter(({ name }) => upTo === undefined || name <= upTo);
      const done = await readApplied(client);
      const pending = without(done, files);
      const newer = unknownAmong(done, await readMigrations());
      if (newer.length > 0 && pending.length > 0)
        throw new MigrationProblem(
          `the database has migrations of another version (${newer.join(', ')}), and lacks ${pending.join(', ')} of this one: run migrate of the newer version`,
        );
      const migrator = runner.migrate;
      const config = migrationConfig(files);
      // knex leaves its own lock behind when it is killed. Under the guard, no other migrator can hold it.
      await migrator.forceFreeMigrationsLock(config);
      // One at a time: `latest` would run all of them in one transaction, and keep the locks of all until the
      // last.
      for (const name of pending)
        await retryWhileLocked(name, { onWait, triesMs }, async () => {
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
 * Deletes the hashes of players that were erased before tags existed. Each deletion is a transaction of its
 * own: a killed run leaves the rest to the next one.
 */
async function forgetErased(client: Client): Promise<void> {
  const { rows } = await client.query<{ found: boolean }>(
    `select to_regprocedure('${STORE}.forget_next_erased()') is not null as found`,
  );
  if (!rows[0]?.found) return;
  for (;;) {
    await client.query(`${BEGIN.text}; set local statement_timeout = 0`);
    const { rows } = await client.query<{ erased: string | null }>(
      `select ${STORE}.forget_next_erased() as erased`,
    );
    await client.query('commit');
    if (rows[0]?.erased == null) return;
  }
}

/**
 * Runs a migration, and repeats it while another session holds a lock that it needs.
 * @throws Error after `triesMs`, or where the migration fails otherwise
 */
async function retryWhileLocked(
  name: string,
  { onWait, triesMs }: Required<Pick<MigrateOptions, 'onWait' | 'triesMs'>>,
  run: () => Promise<unknown>,
): Promise<void> {
  /** Counts from the first lock that it did not get: the work before may take long. */
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
          `${name} got no lock in ${triesMs / 1000} s, and changed nothing: find the session that holds the lock in pg_stat_activity, and run migrate again`,
          { cause: error },
        );
      onWait(name);
      await sleep(BETWEEN_TRIES_MS);
    }
  }
}

/** @throws MigrationProblem where some character of an event cannot be stored */
async function checkEncoding(client: Client): Promise<void> {
  const { rows } = await client.query<{ server_encoding: string }>('show server_encoding');
  const encoding = rows[0]?.server_encoding;
  if (encoding !== 'UTF8')
    throw new MigrationProblem(
      `the database is encoded in ${encoding}, which lacks characters that events may contain: use a database created with ENCODING UTF8`,
    );
}

/** Whether the migration waited too long for a lock, or was ended to resolve a deadlock. */
function isLocked(error: unknown): boolean {
  return error instanceof Error && 'code' in error && LOCKED_STATES.has(error.code);
}

const LOCKED_STATES: ReadonlySet<unknown> = new Set([LOCK_TIMEOUT_STATE, DEADLOCK_STATE]);

/**
 * Names of the migrations that a database still lacks.
 *
 * @param schema `promo` for a role that may read the views alone
 */
export async function pendingMigrations(
  database: string | StoreAccess,
  schema: typeof STORE | 'promo' = STORE,
): Promise<string[]> {
  const client = await openClient(database, { application_name: 'promo-intake-migrate' });
  try {
    return without(await readApplied(client, schema), await readMigrations());
  } finally {
    await client.end();
  }
}

/** Names of the applied migrations that this version does not have: a newer version ran them. */
export async function newerMigrations(database: string | StoreAccess): Promise<string[]> {
  const client = await openClient(database, { application_name: 'promo-intake-migrate' });
  try {
    return unknownAmong(await readApplied(client), await readMigrations());
  } finally {
    await client.end();
  }
}

function unknownAmong(done: ReadonlySet<string>, files: readonly SqlFile[]): string[] {
  const known = new Set(files.map(({ name }) => name));
  return [...done].filter((name) => !known.has(name)).sort();
}

/** Names of the applied migrations. */
async function readApplied(client: Client, schema: string = STORE): Promise<ReadonlySet<string>> {
  const { rows: tables } = await client.query<{ found: boolean }>(
    `select to_regclass('${schema}.migrations') is not null as found`,
  );
  if (!tables[0]?.found) return new Set();
  const { rows } = await client.query<{ name: string }>(`select name from ${schema}.migrations`);
  return new Set(rows.map(({ name }) => name));
}

function without(done: ReadonlySet<string>, files: readonly SqlFile[]): string[] {
  return files.map(({ name }) => name).filter((name) => !done.has(name));
}

/** The same error without the text of the file, with which knex begins the message. */
function withoutSql(error: unknown, { name, sql }: SqlFile): unknown {
  if (error instanceof Error && error.message.startsWith(sql.slice(0, 100)))
    error.message = `${name}: ${error.message.slice(error.message.lastIndexOf(' - ') + 3)}`;
  return error;
}

/**
 * Overrides the settings of role and database. An index of a large table takes minutes, and a month begins at
 * midnight UTC. The setting `transaction_timeout` exists since Postgres 17.
 */
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
          // knex would treat a question mark as a parameter.
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
