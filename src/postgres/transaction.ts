/** Transactions: the settings and deadlines of one, and what it does on the connection that it holds. */
import { StoreError } from './errors';
import type { Row, Write } from './pipeline';

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

/** A statement, as the store ends it. */
export const STATEMENT_TIMEOUT_MS = 8_000;

/** A wait for another writer's lock, as the store ends it: shorter than a statement, so that the log can tell the two apart. */
export const LOCK_TIMEOUT_MS = 5_000;

/** A transaction that waits for its worker, as the store ends it: a frozen worker must not hold locks. */
export const IDLE_TIMEOUT_MS = 15_000;

/** Where transactions run: a pool of connections to Postgres, or the simulator's model of one. */
export interface Store {
  /** A connection for one transaction. @throws StoreError */
  acquire(): Promise<StoreConnection>;
}

/** A connection of the store. What it is given it does one after the other, whether the answer to what was before has come or not. */
export interface StoreConnection extends Pick<Session, 'query' | 'write'> {
  /** Begins a transaction. @throws StoreError */
  begin(): Promise<void>;
  /** Gives it back, to be used again where it is known to be clean, and to be closed where it is not. */
  release(isClean: boolean): void;
}

/**
 * What a transaction does on the connection that it holds. What is asked for in one step of the program, without waiting in between, takes
 * one round trip together. Where one of it fails, so does all behind it: the first error is the one that tells.
 */
export interface Session {
  /** Rows as arrays of text or null, in the order of the statement's columns. @throws StoreError */
  query(statement: Statement, values?: readonly unknown[]): Promise<Row[]>;
  /** All of them in one round trip. @throws StoreError */
  write(writes: readonly Write[]): Promise<void>;
  /** The same, and commits: the last thing to do. @throws StoreError */
  writeAndCommit(writes: readonly Write[]): Promise<void>;
}

/**
 * Runs `work` in one READ COMMITTED transaction: committed where it returns, rolled back where it throws. It begins in the same round trip as
 * what `work` asks first.
 *
 * @throws StoreError, or what `work` throws
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
    // A store that has not answered will hardly answer to this: the connection is given up at once.
    isClean = !isUnanswered(error) && !isOfSession(error) && (await transaction.rollback());
    throw error;
  } finally {
    // A connection that is not known to be clean is closed: it may still be busy with what was given up.
    connection.release(isClean);
  }
}

/**
 * A server, or a session, that cannot do what another one can: a standby, to which an address led during a failover, or one that has forgotten our statements, or keeps plans that
 * do not fit any more. Used again and again, its connection would never be idle for long enough to be closed.
 * https://www.postgresql.org/docs/current/errcodes-appendix.html
 */
const OF_SESSION: ReadonlySet<string | undefined> = new Set([
  '25006', // read-only transaction
  '26000', // no such prepared statement
  '42P05', // such a prepared statement is there already
  '0A000', // a cached plan must not change its result
]);

function isOfSession(error: unknown): boolean {
  return error instanceof StoreError && OF_SESSION.has(error.sqlState);
}

function isUnanswered(error: unknown): boolean {
  return error instanceof StoreError && error.sqlState === undefined;
}

/**
 * Settings of the transaction, not of the session: a pooler in front of the store may hand the session to others.
 *
 * - Every statement is to use its index. The planner, which knows of a table that is growing only what it was when last analyzed, would read
 *   all of it; and it would weigh the thousands of keys of a batch again for each batch.
 * - For the same reason rows are joined by hash or merge: a nested loop is fast for as many rows as the planner believes in, and a plan lives
 *   on in its session while the table grows. Where only a nested loop can do it, its cost, which is prohibitive then, is not to call for JIT.
 * - Keys are read as hex digits (keys.ts), whatever a database or role is set to.
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

export const BEGIN = { name: 'begin', text: 'begin isolation level read committed' };

const COMMIT = { name: 'commit', text: 'commit' };

const ROLLBACK = { name: 'rollback', text: 'rollback' };

class Transaction implements Session {
  private isCommitted = false;
  private begun: Promise<void> = Promise.resolve();
  /** What failed first: whatever the transaction was given after it failed because of it. */
  private failure: unknown;
  /** Settled once the answer to what was given last has been taken in. */
  private last: Promise<unknown> = Promise.resolve();

  constructor(private readonly connection: StoreConnection) {}

  begin(): void {
    this.begun = this.inOrder(this.connection.begin());
    // What is asked behind it fails with it, and is waited for.
    this.begun.catch(() => {});
  }

  query(statement: Statement, values: readonly unknown[] = []): Promise<Row[]> {
    return this.inOrder(this.connection.query(statement, values));
  }

  async write(writes: readonly Write[]): Promise<void> {
    if (writes.length === 0) return;
    // Where the store does not begin, writes would run by themselves.
    await this.begun;
    await this.inOrder(this.connection.write(writes));
  }

  /** Answers that come in one packet may be taken in in any order. */
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
