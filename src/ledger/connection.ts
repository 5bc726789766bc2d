/**
 * The store's connections: a pool with a deadline on every wait, and errors that name the statement that met them.
 */
import { once } from 'node:events';
import { Pool, type PoolClient, type QueryArrayResult } from 'pg';
import { from as copyFrom } from 'pg-copy-streams';
import type { Logger } from 'pino';
import type { CopyRows } from './binary';
import { StoreError } from './failures';

/** Getting a connection, new or from the pool. */
const CONNECT_TIMEOUT_MS = 5_000;
/** A statement, as the store ends it. */
export const STATEMENT_TIMEOUT_MS = 8_000;
/** A wait for another writer's lock, as the store ends it: shorter than a statement, so that the log can tell the two apart. */
export const LOCK_TIMEOUT_MS = 5_000;
/** A transaction that waits for its worker, as the store ends it: a frozen worker must not hold locks. */
export const IDLE_TIMEOUT_MS = 15_000;
/** An answer of the store, as we give it up: a store that cannot even end its statement is gone. */
const ANSWER_TIMEOUT_MS = STATEMENT_TIMEOUT_MS + 2_000;

export interface StoreOptions {
  readonly databaseUrl: string;
  readonly maxConnections: number;
  readonly applicationName: string;
}

/** A statement with its name: prepared once for each connection, and named in errors. */
export interface Statement {
  readonly name: string;
  readonly text: string;
}

export function makePool(options: StoreOptions, logger: Logger): Pool {
  const pool = new Pool({
    connectionString: options.databaseUrl,
    max: options.maxConnections,
    application_name: options.applicationName,
    connectionTimeoutMillis: CONNECT_TIMEOUT_MS,
    query_timeout: ANSWER_TIMEOUT_MS,
    keepAlive: true,
  });
  // An idle connection that the store closes is an event of the pool; without a listener it would end the process.
  pool.on('error', (error) => logger.warn({ error: error.message }, 'the store closed an idle connection'));
  // The same while a transaction holds it: the statement under way reports it, and the event must find a listener.
  pool.on('connect', (client) => {
    client.on('error', (error) => logger.warn({ error: error.message }, 'the store closed a connection'));
  });
  return pool;
}

/** A connection held for one transaction. */
export interface Session {
  /** Rows as arrays of text or null, in the order of the statement's columns. @throws StoreError */
  query(statement: Statement, values?: readonly unknown[]): Promise<Row[]>;
  /** One or several statements without parameters. @throws StoreError */
  run(name: string, text: string): Promise<void>;
  /** Rows into the columns that `text` names; they are not to be used afterwards. @throws StoreError */
  copy(statement: Statement, rows: CopyRows): Promise<void>;
}

export type Row = readonly (string | null)[];

/**
 * Runs `work` in one READ COMMITTED transaction: committed where it returns, rolled back where it throws.
 *
 * @throws StoreError, or what `work` throws
 */
export async function inTransaction<T>(pool: Pool, work: (session: Session) => Promise<T>): Promise<T> {
  const client = await storeErrors('connect', () => pool.connect());
  const session = makeSession(client);
  let healthy = false;
  try {
    await session.run('begin', BEGIN);
    const result = await work(session);
    await session.run('commit', 'commit');
    healthy = true;
    return result;
  } catch (error) {
    healthy = await rollback(session);
    throw error;
  } finally {
    // A connection that is not known to be clean is closed: it may still be busy with what was given up.
    client.release(!healthy);
  }
}

/**
 * Settings of the transaction, not of the session: a pooler in front of the store may hand the session to others.
 *
 * - Every statement is to use its index. The planner, which knows of a table that is growing only what it was when last analyzed, would read
 *   all of it; and it would weigh the thousands of keys of a batch again for each batch.
 * - Keys are read as hex digits (keys.ts), whatever a database or role is set to.
 */
const BEGIN = `begin isolation level read committed;
set local enable_seqscan = off;
set local bytea_output = hex;
set local plan_cache_mode = force_generic_plan;
set local statement_timeout = ${STATEMENT_TIMEOUT_MS};
set local lock_timeout = ${LOCK_TIMEOUT_MS};
set local idle_in_transaction_session_timeout = ${IDLE_TIMEOUT_MS}`;

async function rollback(session: Session): Promise<boolean> {
  try {
    await session.run('rollback', 'rollback');
    return true;
  } catch {
    // The connection is gone, and the transaction with it; the error that led here is the one to report.
    return false;
  }
}

function makeSession(client: PoolClient): Session {
  return {
    async query(statement, values = []) {
      const result: QueryArrayResult<(string | null)[]> = await storeErrors(statement.name, () =>
        client.query<(string | null)[]>({
          name: statement.name,
          text: statement.text,
          values: [...values],
          rowMode: 'array',
          types: TEXT_ONLY,
        }),
      );
      return result.rows;
    },
    async run(name, text) {
      await storeErrors(name, () => client.query(text));
    },
    async copy(statement, rows) {
      await storeErrors(statement.name, () => copyRows(client, statement.text, rows.end()));
      // Where it failed, the connection may still be reading them.
      rows.recycle();
    },
  };
}

/** Every column as the text that the store sent, so that no number is rounded on the way. */
const TEXT_ONLY = { getTypeParser: () => (value: string) => value };

/** Longest time of a timer. */
const NEVER_MS = 2 ** 31 - 1;

async function copyRows(client: PoolClient, text: string, rows: Buffer): Promise<void> {
  const stream = client.query(Object.assign(copyFrom(text), { query_timeout: NEVER_MS }));
  // Given up, the stream is left to itself: destroyed, or without a listener, it would end the process once the store answers after all.
  stream.on('error', () => undefined);
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<never>((_, reject) => {
    timer = setTimeout(
      () => reject(new Error(`no answer within ${ANSWER_TIMEOUT_MS} ms`)),
      ANSWER_TIMEOUT_MS,
    );
  });
  const finished = once(stream, 'finish');
  stream.end(rows);
  try {
    await Promise.race([finished, late]);
  } finally {
    clearTimeout(timer);
  }
}

async function storeErrors<T>(statement: string, work: () => Promise<T>): Promise<T> {
  try {
    return await work();
  } catch (error) {
    throw new StoreError(statement, error);
  }
}
