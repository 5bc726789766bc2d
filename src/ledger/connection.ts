/**
 * The store's connections: a pool with a deadline on every wait, and errors that name the statement that met them.
 */
import { Pool, type PoolClient, type QueryArrayResult } from 'pg';
import type { Logger } from 'pino';
import { StoreError } from './failures';
import { runWrites, type Write } from './writing';

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
  /**
   * What runs in its place before Postgres 17, for a text that looks for an array of keys in the last column of an index. The planner of
   * those versions may rather read all that has the columns before it.
   */
  readonly before17?: string;
}

export function makePool(options: StoreOptions, logger: Logger): PostgresPool {
  const pool = new PostgresPool({
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

/** Where transactions run: a pool of connections to Postgres, or the simulator's model of one. */
export interface Store {
  /** A connection for one transaction. @throws StoreError */
  acquire(): Promise<StoreConnection>;
}

/** A connection of the store. What it is given next waits for the answer to what it was given before. */
export interface StoreConnection extends Pick<Session, 'query' | 'write'> {
  /** Begins a transaction by a statement, in one round trip, and returns the statement's rows. @throws StoreError */
  begin(opening: Statement): Promise<Row[]>;
  /** Gives it back, to be used again where it is known to be clean, and to be closed where it is not. */
  release(isClean: boolean): void;
}

/** A pool of pg that transactions can run in. */
export class PostgresPool extends Pool implements Store {
  async acquire(): Promise<StoreConnection> {
    return new PostgresConnection(await storeErrors('connect', () => this.connect()));
  }
}

/** What a transaction does on the connection that it holds. */
export interface Session {
  /** Rows as arrays of text or null, in the order of the statement's columns. @throws StoreError */
  query(statement: Statement, values?: readonly unknown[]): Promise<Row[]>;
  /** All of them in one round trip. @throws StoreError */
  write(writes: readonly Write[]): Promise<void>;
  /** The same, and commits: the last thing to do. @throws StoreError */
  writeAndCommit(writes: readonly Write[]): Promise<void>;
}

export type Row = readonly (string | null)[];

/**
 * Runs `work` in one READ COMMITTED transaction: committed where it returns, rolled back where it throws.
 *
 * @param opening a statement without parameters that begins it, in the same round trip; `work` is given its rows
 * @throws StoreError, or what `work` throws
 */
export async function inTransaction<T>(
  store: Store,
  work: (session: Session, opened: Row[]) => Promise<T>,
  opening: Statement = NOTHING,
): Promise<T> {
  const connection = await store.acquire();
  const transaction = new Transaction(connection);
  let isClean = false;
  try {
    const result = await work(transaction, await connection.begin(opening));
    await transaction.commit();
    isClean = true;
    return result;
  } catch (error) {
    // pg sends nothing before it has the last answer, and sets no deadline for what it has not sent: a store that is silent would never be given up.
    isClean = !isUnanswered(error) && (await transaction.rollback());
    throw error;
  } finally {
    // A connection that is not known to be clean is closed: it may still be busy with what was given up.
    connection.release(isClean);
  }
}

function isUnanswered(error: unknown): boolean {
  return error instanceof StoreError && error.sqlState === undefined;
}

const NOTHING: Statement = { name: 'begin', text: 'select' };

/**
 * Settings of the transaction, not of the session: a pooler in front of the store may hand the session to others.
 *
 * - Every statement is to use its index. The planner, which knows of a table that is growing only what it was when last analyzed, would read
 *   all of it; and it would weigh the thousands of keys of a batch again for each batch.
 * - For the same reason rows are joined by hash or merge: a nested loop is fast for as many rows as the planner believes in, and a plan lives
 *   on in its session while the table grows. Where only a nested loop can do it, its cost, which is prohibitive then, is not to call for JIT.
 * - Keys are read as hex digits (keys.ts), whatever a database or role is set to.
 */
const BEGIN = `begin isolation level read committed;
set local enable_seqscan = off;
set local enable_nestloop = off;
set local jit = off;
set local bytea_output = hex;
set local plan_cache_mode = force_generic_plan;
set local statement_timeout = ${STATEMENT_TIMEOUT_MS};
set local lock_timeout = ${LOCK_TIMEOUT_MS};
set local idle_in_transaction_session_timeout = ${IDLE_TIMEOUT_MS}`;

const COMMIT = { name: 'commit', text: 'commit' };
const ROLLBACK = { name: 'rollback', text: 'rollback' };

class Transaction implements Session {
  private isCommitted = false;

  constructor(private readonly connection: StoreConnection) {}

  query(statement: Statement, values: readonly unknown[] = []): Promise<Row[]> {
    return this.connection.query(statement, values);
  }

  async write(writes: readonly Write[]): Promise<void> {
    if (writes.length > 0) await this.connection.write(writes);
  }

  async writeAndCommit(writes: readonly Write[]): Promise<void> {
    await this.write([...writes, COMMIT]);
    this.isCommitted = true;
  }

  async commit(): Promise<void> {
    if (!this.isCommitted) await this.writeAndCommit([]);
  }

  /** @returns whether the connection is clean */
  async rollback(): Promise<boolean> {
    try {
      await this.write([ROLLBACK]);
      return true;
    } catch {
      // The connection is gone, and the transaction with it; the error that led here is the one to report.
      return false;
    }
  }
}

/** Whether the store behind a connection is older than 17: asked with the connection's first transaction, in its round trip. */
const before17 = new WeakMap<PoolClient, boolean>();
const VERSION = 'show server_version_num';

class PostgresConnection implements StoreConnection {
  constructor(private readonly client: PoolClient) {}

  async begin({ name, text }: Statement): Promise<Row[]> {
    const isAsked = !before17.has(this.client);
    const message = [BEGIN, ...(isAsked ? [VERSION] : []), text].join(';\n');
    const answer: unknown = await storeErrors(name, () =>
      this.client.query({ text: message, rowMode: 'array', types: TEXT_ONLY }),
    );
    // One for each of the statements.
    const results: QueryArrayResult<(string | null)[]>[] = Array.isArray(answer) ? answer : [];
    if (isAsked) before17.set(this.client, Number(results.at(-2)?.rows[0]?.[0]) < 17_00_00);
    return results.at(-1)?.rows ?? [];
  }

  async query(statement: Statement, values: readonly unknown[] = []): Promise<Row[]> {
    const result: QueryArrayResult<(string | null)[]> = await storeErrors(statement.name, () =>
      this.client.query<(string | null)[]>({
        name: statement.name,
        text: (before17.get(this.client) ? statement.before17 : undefined) ?? statement.text,
        values: [...values],
        rowMode: 'array',
        types: TEXT_ONLY,
      }),
    );
    return result.rows;
  }

  write(writes: readonly Write[]): Promise<void> {
    return runWrites(this.client, writes, ANSWER_TIMEOUT_MS);
  }

  release(isClean: boolean): void {
    this.client.release(!isClean);
  }
}

/** Every column as the text that the store sent, so that no number is rounded on the way. */
const TEXT_ONLY = { getTypeParser: () => (value: string) => value };

async function storeErrors<T>(statement: string, work: () => Promise<T>): Promise<T> {
  try {
    return await work();
  } catch (error) {
    throw new StoreError(statement, error);
  }
}
