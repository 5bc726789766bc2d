/** Transactions: their settings and deadlines, and the statements on the connection that they hold. */
import { DifferentServers, StoreError } from './errors';
import type { Row, Write } from './pipeline';

/** A statement with its name. It is prepared once for each connection; errors carry the name. */
export interface Statement {
  readonly name: string;
  readonly text: string;
  /**
   * The text that runs instead before Postgres 17, for statements that look up an array of keys. The keys are
   * in the last column of an index. Older planners may read all rows that match the columns before it.
   */
  readonly before17?: string;
}

/** The deadline of a statement; the store enforces it. */
export const STATEMENT_TIMEOUT_MS = 8_000;

/**
 * The deadline of a wait for another writer's lock; the store enforces it. It is shorter than a statement's,
 * so that the log can distinguish the two.
 */
export const LOCK_TIMEOUT_MS = 5_000;

/**
 * The deadline of a transaction that waits for its worker; the store enforces it. A frozen worker must not
 * hold locks.
 */
export const IDLE_TIMEOUT_MS = 15_000;

/** The place where transactions run: a pool of connections to Postgres, or the simulator's model of one. */
export interface Store {
  /** Returns a connection for one transaction. @throws StoreError */
  acquire(): Promise<StoreConnection>;
  /**
   * Whether a round trip takes so long that saving one is worth work and memory. It may change while the
   * program runs.
   */
  readonly isFar?: boolean;
}

/**
 * A connection of the store. It runs statements one after the other, even where earlier answers are
 * outstanding.
 */
export interface StoreConnection extends Pick<Session, 'query' | 'write'> {
  /** Begins a transaction. @throws StoreError */
  begin(): Promise<void>;
  /** Returns the connection. A clean connection is used again; any other is closed. */
  release(isClean: boolean): void;
}

/**
 * The operations of a transaction on the connection that it holds.
 *
 * Operations that are started without an await in between take one round trip together. Where one of them
 * fails, all later ones fail too: the first error names the cause.
 */
export interface Session {
  /** Rows as arrays of text or null, in the order of the statement's columns. @throws StoreError */
  query(statement: Statement, values?: readonly unknown[]): Promise<Row[]>;
  /** Runs all writes in one round trip. @throws StoreError */
  write(writes: readonly Write[]): Promise<void>;
  /** Runs all writes and commits. No operation may follow. @throws StoreError */
  writeAndCommit(writes: readonly Write[]): Promise<void>;
}

/** The part of a session that reads. */
export type Reader = Pick<Session, 'query'>;

/**
 * Runs `work` in one READ COMMITTED transaction: commits where `work` returns, rolls back where it throws.
 * The transaction begins in the same round trip as the first statements of `work`.
 *
 * @throws StoreError, or the error that `work` throws
 */
export async function inTransaction<T>(store: Store, work: (session: Session) => Promise<T>): Promise<T> {
  const connection = await store.acquire();
  const transaction = new Transaction(connection);
  let isClean = false;
  try {
    transaction.begin();
    const result = await work(transaction);
    await transaction.commit();
    isClean = true;
    return result;
  } catch (error) {
    transaction.fail();
    // A store that did not answer will hardly answer a rollback: abandon the connection at once.
    isClean = !isUnanswered(error) && !isOfSession(error) && (await transaction.rollback());
    throw error;
  } finally {
    // Close a connection that is not known to be clean: it may still be busy with an abandoned statement.
    connection.release(isClean);
  }
}

/**
 * Errors that a different server or session may not give. The server may be a standby that an address led to
 * during a failover. The session may have lost our statements, or keep plans that no longer fit.
 *
 * The connection must be closed: while it is in use, it is never idle for long enough to be closed by itself.
 * https://www.postgresql.org/docs/current/errcodes-appendix.html
 */
const OF_SESSION: ReadonlySet<string | undefined> = new Set([
  '25006', // read-only transaction
  '26000', // no such prepared statement
  '42P05', // such a prepared statement is there already
  '0A000', // a cached plan must not change its result
]);

function isOfSession(error: unknown): boolean {
  return error instanceof DifferentServers || (error instanceof StoreError && OF_SESSION.has(error.sqlState));
}

function isUnanswered(error: unknown): boolean {
  return error instanceof StoreError && error.sqlState === undefined;
}

/**
 * Settings of the transaction, not of the session: a pooler in front of the store may assign the session to
 * others.
 *
 * - Every statement must use its index. The planner knows a growing table only as of its last analyze, and
 *   would read all of it. The planner would also plan the thousands of keys of each batch again.
 * - For the same reason, rows are joined by hash or merge. A nested loop is fast only for the number of rows
 *   that the planner expects, and a plan outlives that number in its session.
 * - JIT is off: where only a nested loop is possible, its prohibitive cost would trigger JIT.
 * - Keys are read as hex digits (id-key.ts), whatever a database or role is set to.
 */
const SETTINGS = {
  enable_seqscan: 'off',
  enable_nestloop: 'off',
  jit: 'off',
  bytea_output: 'hex',
  plan_cache_mode: 'force_generic_plan',
  statement_timeout: STATEMENT_TIMEOUT_MS,
  lock_timeout: LOCK_TIMEOUT_MS,
  idle_in_transaction_session_timeout: IDLE_TIMEOUT_MS,
};

export const SET = {
  name: 'settings',
  text: `select ${Object.entries(SETTINGS).map(([name, value]) => `set_config('${name}', '${value}', true)`)}`,
};

/** Names its level: an administrator may have given the role another default, such as `serializable`. */
export const BEGIN = { name: 'begin', text: 'begin isolation level read committed' };

const COMMIT = { name: 'commit', text: 'commit' };

const ROLLBACK = { name: 'rollback', text: 'rollback' };

class Transaction implements Session {
  private state: 'open' | 'committed' | 'failed' = 'open';
  private begun: Promise<void> = Promise.resolve();
  /** The first error. It is the cause of every later failure of the transaction. */
  private failure: unknown;
  /** Settles once the answer to the latest operation is processed. */
  private last: Promise<unknown> = Promise.resolve();

  constructor(private readonly connection: StoreConnection) {}

  begin(): void {
    this.begun = this.inOrder(this.connection.begin());
    // Statements that were sent behind it fail with it, and are awaited.
    this.begun.catch(() => {});
  }

  /** Sends nothing more. Work that went on beside a failure would run outside of the transaction. */
  fail(): void {
    this.state = 'failed';
  }

  query(statement: Statement, values: readonly unknown[] = []): Promise<Row[]> {
    if (this.state === 'failed') return Promise.reject(new Error(`${statement.name} after a failure`));
    return this.inOrder(this.connection.query(statement, values));
  }

  async write(writes: readonly Write[]): Promise<void> {
    if (writes.length === 0) return;
    // Without a transaction, each write would commit by itself.
    await this.begun;
    if (this.state === 'failed') throw new Error('a write after a failure');
    await this.inOrder(this.connection.write(writes));
  }

  /**
   * Rejects with the transaction's first error: answers that arrive in one packet may be processed in any
   * order.
   */
  private inOrder<T>(answer: Promise<T>): Promise<T> {
    const { last } = this;
    const inTurn = answer.catch(async (error: unknown) => {
      await last;
      this.failure ??= error;
      throw this.failure;
    });
    this.last = inTurn.catch(() => {});
    return inTurn;
  }

  async writeAndCommit(writes: readonly Write[]): Promise<void> {
    await this.write([...writes, COMMIT]);
    this.state = 'committed';
  }

  async commit(): Promise<void> {
    if (this.state !== 'committed') await this.writeAndCommit([]);
  }

  /** @returns whether the connection is clean */
  async rollback(): Promise<boolean> {
    try {
      await this.begun;
      await this.inOrder(this.connection.write([ROLLBACK]));
      return true;
    } catch {
      // The connection is lost, and the transaction with it. The error that led here is the one to report.
      return false;
    }
  }
}
