/**
 * The store's connections: a pool with a deadline on every wait, and errors that name the statement that met them.
 */
import type { ConnectionOptions } from 'node:tls';
import { Client, type ClientConfig, Pool, type PoolClient } from 'pg';
import type { Logger } from 'pino';
import { StoreError } from './failures';
import { type Asked, ask, parametersOf, type Row, runWrites, type Write } from './requests';

/**
 * Getting a connection, new or from the pool. A new one takes up to six round trips, with TLS and a password, before its first statement: over
 * a line of two seconds none would come about in less.
 */
export const CONNECT_TIMEOUT_MS = 15_000;
/** A statement, as the store ends it. */
export const STATEMENT_TIMEOUT_MS = 8_000;
/** A wait for another writer's lock, as the store ends it: shorter than a statement, so that the log can tell the two apart. */
export const LOCK_TIMEOUT_MS = 5_000;
/** A transaction that waits for its worker, as the store ends it: a frozen worker must not hold locks. */
export const IDLE_TIMEOUT_MS = 15_000;
/**
 * An answer of the store, as we give it up: a store that cannot even end its statement is gone. The store keeps back what it answers to the
 * statements of one request until the last is done: where it waited for several locks in turn, for longer than this, the batch is decided anew.
 */
const ANSWER_TIMEOUT_MS = STATEMENT_TIMEOUT_MS + 2_000;

/** How the store is reached, and who we are to it. What is read from files is read anew for each connection. */
export interface StoreAccess {
  readonly databaseUrl: string;
  /** Absent: that of the address, if it holds one. */
  readonly password?: (() => string) | undefined;
  readonly tls?: ConnectionOptions | undefined;
}

export interface StoreOptions extends StoreAccess {
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

/** As both pg and knex take it. */
export interface StoreConfig {
  readonly host?: string;
  readonly port?: number;
  readonly user?: string;
  readonly database?: string;
  readonly password?: string | (() => string);
  readonly ssl: ConnectionOptions | false;
  readonly connectionTimeoutMillis: number;
}

/** What every connection to the store is made with. The address is taken apart here: as a whole it would outdo the password. */
export function clientConfig(database: string | StoreAccess): StoreConfig {
  const { databaseUrl, password, tls }: StoreAccess =
    typeof database === 'string' ? { databaseUrl: database } : database;
  const url = new URL(databaseUrl);
  const written = decodeURIComponent(url.password);
  const secret = password ?? (written === '' ? undefined : written);
  return {
    ...(url.hostname !== '' && { host: decodeURIComponent(url.hostname).replace(/^\[(.+)\]$/, '$1') }),
    ...(url.port !== '' && { port: Number(url.port) }),
    ...(url.username !== '' && { user: decodeURIComponent(url.username) }),
    ...(url.pathname.length > 1 && { database: decodeURIComponent(url.pathname.slice(1)) }),
    ...(secret !== undefined && { password: secret }),
    ssl: tls === undefined ? false : copyOf(tls),
    connectionTimeoutMillis: CONNECT_TIMEOUT_MS,
    ...Object.fromEntries(url.searchParams),
  };
}

/** A copy that keeps the getters, which read files anew. pg hides the key of the object that it is given, and knex would then leave it out of its own copy. */
function copyOf(tls: ConnectionOptions): ConnectionOptions {
  return Object.defineProperties({}, Object.getOwnPropertyDescriptors(tls));
}

/** For connections whose statements take minutes: a peer that is gone without a word is noticed, and so long a silence ends no connection on the way. */
export const KEEP_ALIVE = { keepAlive: true, keepAliveInitialDelayMillis: 30_000 };

/**
 * Has the store end a statement of this transaction that takes minutes soon after whoever asked for it is gone: else it would hold its locks and its
 * snapshot for as long as it takes. A server on a system that cannot tell refuses it, and goes without.
 */
export const END_WITH_CLIENT = `do $$ begin perform set_config('client_connection_check_interval', '10s', true); exception when invalid_parameter_value then null; end $$`;

/** An answer may be so much later than the store's own end of a statement: then the store is gone. */
export const ANSWER_GRACE_MS = 2_000;

/** Ends a connection of its own. Of a store that does not answer, the end is not waited for either. */
export async function endClient(client: Client): Promise<void> {
  await Promise.race([client.end(), new Promise((over) => setTimeout(over, ANSWER_GRACE_MS).unref())]);
}

/** A connection of its own, beside the pool. @throws what pg does where none comes about */
export async function openClient(
  database: string | StoreAccess,
  { application_name, ...options }: ClientConfig,
): Promise<Client> {
  const client = new Client({ application_name, ...clientConfig(database), ...options });
  // A connection that ends is reported by the statement under way, or by the next one; an event without a listener ends the process.
  client.on('error', () => undefined);
  await client.connect();
  return client;
}

export function makePool(options: StoreOptions, logger: Logger): PostgresPool {
  const pool = new PostgresPool({
    application_name: options.applicationName,
    ...clientConfig(options),
    max: options.maxConnections,
    query_timeout: ANSWER_TIMEOUT_MS,
    pipeline: true,
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

/** A connection of the store. What it is given it does one after the other, whether the answer to what was before has come or not. */
export interface StoreConnection extends Pick<Session, 'query' | 'write'> {
  /** Begins a transaction. @throws StoreError */
  begin(): Promise<void>;
  /** Gives it back, to be used again where it is known to be clean, and to be closed where it is not. */
  release(isClean: boolean): void;
}

/** A pool of pg that transactions can run in. */
export class PostgresPool extends Pool implements Store {
  /** Asked once of each connection: behind a pooler they may be of different servers. */
  private readonly before17 = new WeakMap<PoolClient, boolean>();

  async acquire(): Promise<StoreConnection> {
    const client = await storeErrors('connect', () => this.connect());
    try {
      const isBefore17 = this.before17.get(client) ?? (await this.askVersion(client)) < 17_00_00;
      this.before17.set(client, isBefore17);
      return new PostgresConnection(client, isBefore17);
    } catch (error) {
      client.release(true);
      throw error;
    }
  }

  private async askVersion(client: PoolClient): Promise<number> {
    const { rows } = await storeErrors('server_version', () =>
      client.query<{ server_version_num: string }>('show server_version_num'),
    );
    return Number(rows[0]?.server_version_num);
  }
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

export type { Row };

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
const SET = {
  name: 'settings',
  text: `select ${Object.entries(SETTINGS).map(([name, value]) => `set_config('${name}', '${value}', true)`)}`,
};

const BEGIN = { name: 'begin', text: 'begin isolation level read committed' };

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

class PostgresConnection implements StoreConnection {
  /** What is sent as soon as the program waits. */
  private asked: Asked[] = [];
  private isCorked = false;

  constructor(
    private readonly client: PoolClient,
    private readonly isBefore17: boolean,
  ) {}

  /** Keeps back what is sent until the program waits: a packet costs both sides more than what is in it. */
  private cork(): void {
    if (this.isCorked) return;
    this.isCorked = true;
    const { stream } = this.client.connection;
    stream.cork();
    process.nextTick(() => {
      this.sendAsked();
      this.isCorked = false;
      stream.uncork();
    });
  }

  private sendAsked(): void {
    const { asked } = this;
    this.asked = [];
    if (asked.length > 0) ask(this.client, asked, ANSWER_TIMEOUT_MS);
  }

  async begin(): Promise<void> {
    await Promise.all([this.query(BEGIN), this.query(SET)]);
  }

  query({ name, text, before17 }: Statement, values: readonly unknown[] = []): Promise<Row[]> {
    return new Promise((resolve, reject) => {
      const parameters = parametersOf(values);
      this.asked.push({
        ...{ name, text: (this.isBefore17 ? before17 : undefined) ?? text },
        ...{ parameters, resolve, reject },
      });
      this.cork();
    });
  }

  write(writes: readonly Write[]): Promise<void> {
    this.cork();
    this.sendAsked();
    return runWrites(this.client, writes, ANSWER_TIMEOUT_MS);
  }

  release(isClean: boolean): void {
    this.client.release(!isClean);
  }
}

async function storeErrors<T>(statement: string, work: () => Promise<T>): Promise<T> {
  try {
    return await work();
  } catch (error) {
    throw new StoreError(statement, error);
  }
}
