/**
 * The guard that lets only one migrator run at a time. It locks a table that only the owner of the store can
 * lock, in a transaction that stays open until the migrator's end. An advisory lock is not enough: any role
 * that can connect could hold it and stop all migrations.
 */
import { setTimeout as sleep } from 'node:timers/promises';
import type { Client } from 'pg';
import { KEEP_ALIVE, openClient, type StoreAccess } from '../postgres/pool';
import { BEGIN } from '../postgres/transaction';
import { LOCK_TIMEOUT_STATE } from './failures';

const GUARD = 'promo_store.migrate_guard';
/** Migrators of versions before 0016 take this advisory lock instead, for as long as they are connected. */
const OLD_LOCK = 4_915_023_771;
/** The longest wait for another migrator. */
const GUARD_TIMEOUT_MS = 60_000;
const BETWEEN_LOOKS_MS = 500;
/** Other migrators may create the same schema and table at the same moment, each of them once. */
const MOST_TRIES = 5;

/** Unique violation, duplicate table, duplicate schema: another migrator was creating the object. */
const MADE_BY_ANOTHER: ReadonlySet<unknown> = new Set(['23505', '42P07', '42P06']);

/** Why a migration did not run, in words for the operator who runs it. */
export class MigrationProblem extends Error {
  override readonly name = 'MigrationProblem';
}

export interface MigrateGuard {
  /**
   * Confirms that no other migrator can have begun.
   * @throws MigrationProblem where the guard is lost, or the error of pg
   */
  check(): Promise<void>;
  release(): Promise<void>;
}

export interface GuardOptions {
  /** The longest wait for another migrator, instead of GUARD_TIMEOUT_MS. */
  readonly timeoutMs?: number | undefined;
}

/**
 * Creates the schema and the guard where they are missing.
 *
 * @param client is in no transaction
 */
async function makeGuard(client: Client): Promise<void> {
  for (let tries = 1; ; tries++) {
    try {
      const { rows } = await client.query<{ is_there: boolean }>(
        `select to_regclass('${GUARD}') is not null as is_there`,
      );
      if (rows[0]?.is_there) return;
      // One transaction: a comment on a table that another migrator has created and locked would wait for
      // that migrator.
      await client.query(`create schema if not exists promo_store; create table ${GUARD} ();
        comment on table ${GUARD} is 'A table without rows. A migrator locks it, so that no other one runs beside it.'`);
    } catch (error) {
      if (!MADE_BY_ANOTHER.has(stateOf(error)) || tries === MOST_TRIES) throw error;
    }
  }
}

/**
 * Set for one transaction, since poolers pass on a connection with the settings of a session.
 * `transaction_timeout` exists since Postgres 17.
 */
const settings = (lockTimeoutMs: number) => `set local lock_timeout = ${lockTimeoutMs};
set local statement_timeout = 0; set local idle_in_transaction_session_timeout = 0;
select set_config(name, '0', true) from pg_settings where name = 'transaction_timeout'`;

const HOLDS_GUARD = `select from pg_locks
where pid = pg_backend_pid() and relation = to_regclass('${GUARD}') and mode = 'ShareUpdateExclusiveLock' and granted`;
const LOST_GUARD =
  'the connection that excludes other migrators ended: connect to Postgres itself, or through a pooler that keeps idle transactions, and run migrate again';

/** Waits for the guard. @throws MigrationProblem where another migrator takes too long */
export async function takeGuard(
  database: string | StoreAccess,
  { timeoutMs = GUARD_TIMEOUT_MS }: GuardOptions = {},
): Promise<MigrateGuard> {
  const client = await openClient(database, { application_name: 'promo-intake-migrate', ...KEEP_ALIVE });
  const giveUpAt = Date.now() + timeoutMs;
  try {
    await makeGuard(client);
    await client.query(`${BEGIN.text}; ${settings(timeoutMs)}`);
    await client.query(`lock table ${GUARD} in share update exclusive mode`).catch((error: unknown) => {
      if (stateOf(error) === LOCK_TIMEOUT_STATE) throw otherMigrator(timeoutMs, error);
      throw error;
    });
    await excludeOldMigrators(client, giveUpAt, timeoutMs);
  } catch (error) {
    await client.end();
    throw error;
  }
  return {
    async check() {
      const holds = await client.query(HOLDS_GUARD).then(
        ({ rowCount }) => rowCount === 1,
        (cause: unknown) => {
          throw new MigrationProblem(LOST_GUARD, { cause });
        },
      );
      if (!holds) throw new MigrationProblem(LOST_GUARD);
    },
    async release() {
      await client.end();
    },
  };
}

/** Sessions that hold the old lock with the rights of the owner: only these can be migrators. */
const OLD_MIGRATORS = `select from pg_locks l join pg_stat_activity a on a.pid = l.pid
where l.locktype = 'advisory' and l.database = (select oid from pg_database where datname = current_database())
  and l.classid = ($1::bigint >> 32)::oid and l.objid = ($1::bigint & 4294967295)::oid and l.objsubid = 1 and l.granted
  and l.pid <> pg_backend_pid()
  and pg_has_role(a.usesysid, (select nspowner from pg_namespace where nspname = 'promo_store'), 'member')`;

/**
 * Takes the lock of older migrators, or waits for one of them. Where a role without the owner's rights holds
 * the lock, no older migrator can run either.
 */
async function excludeOldMigrators(client: Client, giveUpAt: number, timeoutMs: number): Promise<void> {
  for (;;) {
    const { rows } = await client.query<{ is_taken: boolean }>(
      'select pg_try_advisory_xact_lock($1) as is_taken',
      [OLD_LOCK],
    );
    if (rows[0]?.is_taken) return;
    const { rowCount } = await client.query(OLD_MIGRATORS, [OLD_LOCK]);
    if (rowCount === 0) return;
    if (Date.now() > giveUpAt) throw otherMigrator(timeoutMs);
    await sleep(BETWEEN_LOOKS_MS);
  }
}

function otherMigrator(timeoutMs: number, cause?: unknown): MigrationProblem {
  return new MigrationProblem(
    `another migrator has run for more than ${timeoutMs / 1000} s: pg_stat_activity shows it as promo-intake-migrate. Wait until it ends, and run migrate again`,
    { cause },
  );
}

function stateOf(error: unknown): unknown {
  return error instanceof Error && 'code' in error ? error.code : undefined;
}
