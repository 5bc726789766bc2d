/**
 * The store's connections: a pool with a deadline on every wait, and errors that name the failing statement.
 */

import type { ConnectionOptions } from 'node:tls';
import { Client, type ClientConfig, Pool, type PoolClient } from 'pg';
import type { Logger } from 'pino';
import { StoreError } from './errors';
import { type PipelinedQuery, parametersOf, type Row, runWrites, sendQueries, type Write } from './pipeline';
import {
  BEGIN,
  SET,
  STATEMENT_TIMEOUT_MS,
  type Statement,
  type Store,
  type StoreConnection,
} from './transaction';

/**
 * The deadline for a connection, new or from the pool. A new connection takes up to six round trips before
 * its first statement, with TLS and a password. Over a line with a latency of two seconds, a shorter deadline
 * would let none succeed.
 */
export const CONNECT_TIMEOUT_MS = 15_000;

/**
 * The deadline for an answer of the store. A store that cannot even end its statement is considered lost.
 *
 * The store holds back the answers to the statements of one request until the last statement is done. Where
 * it waited for several locks in turn for longer than this deadline, the batch is decided again.
 */
const ANSWER_TIMEOUT_MS = STATEMENT_TIMEOUT_MS + 2_000;

/** The address of the store and our credentials. Files are read again for each connection. */
export interface StoreAccess {
  readonly databaseUrl: string;
  /** Absent: the password in the address, if it has one. */
  readonly password?: (() => string) | undefined;
  readonly tls?: ConnectionOptions | undefined;
}

export interface StoreOptions extends StoreAccess {
  readonly maxConnections: number;
  readonly applicationName: string;
}

/** The form that both pg and knex accept. */
export interface StoreConfig {
  readonly host?: string;
  readonly port?: number;
  readonly user?: string;
  readonly database?: string;
  readonly password?: string | (() => string);
  readonly ssl: ConnectionOptions | false;
  readonly connectionTimeoutMillis: number;
}

/**
 * The configuration of every connection to the store. The address is split here: a whole address would
 * override the password.
 */
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

/**
 * A copy that keeps the getters: they read files again. Otherwise knex would lose the key in its own copy,
 * since pg hides the key of the object that it receives.
 */
function copyOf(tls: ConnectionOptions): ConnectionOptions {
  return Object.defineProperties({}, Object.getOwnPropertyDescriptors(tls));
}

/**
 * For connections whose statements take minutes. Detects a lost peer, and keeps the network from dropping a
 * silent connection.
 */
export const KEEP_ALIVE = { keepAlive: true, keepAliveInitialDelayMillis: 30_000 };

/**
 * Has the store end a long statement of this transaction soon after its client is gone. Otherwise the
 * statement would keep its locks and its snapshot until it is done. A server on a system that cannot detect
 * this refuses the setting and runs without it.
 */
export const END_WITH_CLIENT = `do $$ begin perform set_config('client_connection_check_interval', '10s', true); exception when invalid_parameter_value then null; end $$`;

/**
 * How much later than the store's own deadline an answer may come. After that, the store is considered lost.
 */
export const ANSWER_GRACE_MS = 2_000;

/** Ends a client outside the pool. Does not wait for a store that does not answer. */
export async function endClient(client: Client): Promise<void> {
  await Promise.race([client.end(), new Promise((over) => setTimeout(over, ANSWER_GRACE_MS).unref())]);
}

/** Opens a client outside the pool. @throws the error of pg where the connection fails */
export async function openClient(
  database: string | StoreAccess,
  { application_name, ...options }: ClientConfig,
): Promise<Client> {
  const client = new Client({ application_name, ...clientConfig(database), ...options });
  // The current statement, or the next one, reports the end of a connection. Without a listener, the event
  // ends the process.
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
  // The pool emits an event when the store closes an idle connection. Without a listener, it would end the
  // process.
  pool.on('error', (error) => logger.warn({ error: error.message }, 'the store closed an idle connection'));
  // The same for a connection that a transaction holds. The current statement reports the end, but the event
  // still needs a listener.
  pool.on('connect', (client) => {
    client.on('error', (error) => logger.warn({ error: error.message }, 'the store closed a connection'));
  });
  return pool;
}

/** The store is far where a round trip takes this long. */
const FAR_MS = 4;
/**
 * The connections whose first round trip counts. The shortest decides: a busy worker reads an answer late.
 * After a failover to another place all connections are new.
 */
const MEASURED_CONNECTIONS = 3;

/** A connection that its holder has to release. */
export type PooledClient = PoolClient;

/** A pool of pg as a Store. */
export class PostgresPool extends Pool implements Store {
  /** Milliseconds of the first round trip of each of the newest connections. */
  private roundTrips: readonly number[] = [];
  /** Read once for each connection: behind a pooler, connections may belong to different servers. */
  private readonly before17 = new WeakMap<PoolClient, boolean>();

  get isFar(): boolean {
    return this.roundTrips.length > 0 && Math.min(...this.roundTrips) >= FAR_MS;
  }

  async acquire(): Promise<StoreConnection> {
    const client = await storeErrors('connect', () => this.connect());
    try {
      const isBefore17 = this.before17.get(client) ?? (await this.readServerVersion(client)) < 17_00_00;
      this.before17.set(client, isBefore17);
      return new PostgresConnection(client, isBefore17);
    } catch (error) {
      client.release(true);
      throw error;
    }
  }

  private async readServerVersion(client: PoolClient): Promise<number> {
    const began = performance.now();
    const { rows } = await storeErrors('server_version', () =>
      client.query<{ server_version_num: string }>('show server_version_num'),
    );
    this.roundTrips = [...this.roundTrips, performance.now() - began].slice(-MEASURED_CONNECTIONS);
    return Number(rows[0]?.server_version_num);
  }
}

class PostgresConnection implements StoreConnection {
  /** Queries that are sent as soon as the program waits. */
  private queries: PipelinedQuery[] = [];
  private isCorked = false;

  constructor(
    private readonly client: PoolClient,
    private readonly isBefore17: boolean,
  ) {}

  /** Holds back packets until the program waits: a packet costs both sides more than its content. */
  private cork(): void {
    if (this.isCorked) return;
    this.isCorked = true;
    const { stream } = this.client.connection;
    stream.cork();
    process.nextTick(() => {
      this.sendQueued();
      this.isCorked = false;
      stream.uncork();
    });
  }

  private sendQueued(): void {
    const { queries } = this;
    this.queries = [];
    if (queries.length > 0) sendQueries(this.client, queries, ANSWER_TIMEOUT_MS);
  }

  async begin(): Promise<void> {
    await Promise.all([this.query(BEGIN), this.query(SET)]);
  }

  query({ name, text, before17 }: Statement, values: readonly unknown[] = []): Promise<Row[]> {
    return new Promise((resolve, reject) => {
      const parameters = parametersOf(values);
      this.queries.push({
        name,
        text: (this.isBefore17 ? before17 : undefined) ?? text,
        parameters,
        resolve,
        reject,
      });
      this.cork();
    });
  }

  write(writes: readonly Write[]): Promise<void> {
    this.cork();
    this.sendQueued();
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
