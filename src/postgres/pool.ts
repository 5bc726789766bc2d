/**
 * The store's connections: a pool with a deadline on every wait, and errors that name the statement that met them.
 */

import type { ConnectionOptions } from 'node:tls';
import { Client, type ClientConfig, Pool, type PoolClient } from 'pg';
import type { Logger } from 'pino';
import { StoreError } from './errors';
import { type Asked, ask, parametersOf, type Row, runWrites, type Write } from './pipeline';
import {
  BEGIN,
  SET,
  STATEMENT_TIMEOUT_MS,
  type Statement,
  type Store,
  type StoreConnection,
} from './transaction';

/**
 * Getting a connection, new or from the pool. A new one takes up to six round trips, with TLS and a password, before its first statement: over
 * a line of two seconds none would come about in less.
 */
export const CONNECT_TIMEOUT_MS = 15_000;

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
