/** Real servers for tests: databases and topics of their own, or servers of their own. */

import { execFileSync } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { chownSync, renameSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import type { Admin, Kafka } from 'kafkajs';
import { Client } from 'pg';
import { ADDRESS_VARIABLES, type Servers, type StartOptions, startServers } from '../../dev/servers';
import { until } from '../../dev/servers/deadline';
import { quietKafka } from '../../dev/servers/guest';
import { deleteTopics, makeTopics as madeTopics, type TopicPlan } from '../../dev/servers/topics';

const DATABASE_PREFIX = 'promo_test_';
const CONNECT_DEADLINE_MS = 60_000;
/**
 * To drop a database, Postgres waits for a checkpoint and for each backend. A backend does not answer while a
 * test withholds the rows of its COPY, or its password (authentication_timeout: 60 s).
 */
const STATEMENT_DEADLINE_MS = 100_000;

function addressFrom(variable: string): string {
  const address = process.env[variable];
  if (!address) {
    throw new Error(
      `${variable} is not set: this project of jest.config.js has no globalSetup that starts servers`,
    );
  }
  return address;
}

export const databaseUrl = (): string => addressFrom(ADDRESS_VARIABLES.postgres);
export const kafkaBrokers = (): string[] => addressFrom(ADDRESS_VARIABLES.kafka).split(',');
export const schemaRegistryUrl = (): string => addressFrom(ADDRESS_VARIABLES.registry);

/** Runs one statement on a connection of its own. */
async function execute(url: string, statement: string): Promise<void> {
  const client = new Client({
    connectionString: url,
    connectionTimeoutMillis: CONNECT_DEADLINE_MS,
    query_timeout: STATEMENT_DEADLINE_MS,
  });
  client.on('error', () => {
    // The present statement reports the error.
  });
  await client.connect();
  try {
    await client.query(statement);
  } finally {
    await client.end();
  }
}

export interface FreshDatabase {
  url: string;
  /** Drops the database, and ends all connections that it still has. */
  drop(): Promise<void>;
}

/** An empty database of its own, on the server of `serverUrl` (default: the run's). */
export async function freshDatabase(serverUrl: string = databaseUrl(), options = ''): Promise<FreshDatabase> {
  const name = `${DATABASE_PREFIX}${randomBytes(8).toString('hex')}`;
  const url = new URL(serverUrl);
  url.pathname = `/${name}`;
  await execute(serverUrl, `CREATE DATABASE ${name} ${options}`);
  return { url: url.href, drop: () => dropDatabase(url.href, serverUrl) };
}

/** Drops a database that `freshDatabase` made, and no other. */
export async function dropDatabase(url: string, serverUrl: string = databaseUrl()): Promise<void> {
  const name = new URL(url).pathname.slice(1);
  if (!new RegExp(`^${DATABASE_PREFIX}[0-9a-f]+$`).test(name)) {
    throw new Error(`Refused: the database ${name} was not made by freshDatabase`);
  }
  await execute(serverUrl, `DROP DATABASE IF EXISTS ${name} WITH (FORCE)`);
}

export const kafkaClient = (brokers: string[] = kafkaBrokers()): Kafka =>
  quietKafka({ clientId: 'promo-intake-test', brokers });

export async function withAdmin<T>(work: (admin: Admin) => Promise<T>, brokers?: string[]): Promise<T> {
  const admin = kafkaClient(brokers).admin();
  await admin.connect();
  try {
    return await work(admin);
  } finally {
    await admin.disconnect();
  }
}

export interface TopicOptions extends TopicPlan {
  /** Default: the run's. */
  readonly brokers?: string[];
}

/** Topics of this file on the run's Kafka. A test's own servers take their topics with them. */
const ownTopics: string[] = [];
// The programs that tests start use this file too, without Jest.
if ('afterAll' in globalThis) {
  afterAll(async () => {
    if (ownTopics.length === 0) return;
    await withAdmin((admin) => deleteTopics(admin, ownTopics));
  });
}

/**
 * Makes a topic of its own, whose partitions can be used at once, and returns its name. It is deleted at the
 * end of the test file.
 */
export async function freshTopic(
  prefix: string,
  { brokers, ...plan }: TopicOptions = { partitions: 1 },
): Promise<string> {
  const topic = `${prefix}.${randomBytes(6).toString('hex')}`;
  await makeTopics({ [topic]: plan }, brokers);
  if (brokers === undefined) ownTopics.push(topic);
  return topic;
}

/** Makes topics with these names, whose partitions can be used at once. */
export async function makeTopics(
  plans: Readonly<Record<string, TopicPlan>>,
  brokers?: string[],
): Promise<void> {
  await withAdmin((admin) => madeTopics(admin, plans), brokers);
}

/**
 * Servers that a test starts for itself, to disturb them. The addresses of the run's own servers are ignored.
 */
export function ownServers(options: StartOptions): Promise<Servers> {
  const environment = { ...process.env, ...options.environment };
  for (const variable of Object.values(ADDRESS_VARIABLES)) {
    delete environment[variable];
  }
  return startServers({ ...options, environment });
}

/** Runs work beside a Postgres of its own, whose data a test can copy while it is stopped. */
export async function withOwnPostgres(
  work: (postgres: NonNullable<Servers['postgres']>, databaseUrl: string) => Promise<void>,
  options: Pick<StartOptions, 'postgresExtras'> = {},
): Promise<void> {
  const environment = { ...process.env, STACK: 'processes' };
  const servers = await ownServers({ ...options, need: ['postgres'], environment });
  try {
    const { postgres, databaseUrl } = servers;
    if (postgres === undefined) throw new Error('no Postgres was started');
    await work(postgres, databaseUrl);
  } finally {
    await servers.stop();
  }
}

/**
 * Restarts an own Postgres as a replica, on the same data. `pg_promote()` ends that.
 *
 * @param value the first value of a query
 * @returns once the replica answers; `promoted` resolves after its promotion
 */
export async function restartAsReplica(
  postgres: NonNullable<Servers['postgres']>,
  value: (sql: string) => Promise<string | null | undefined>,
  withinMs: number,
): Promise<{ readonly promoted: Promise<void> }> {
  const data = (await value('show data_directory')) ?? '';
  await postgres.stop();
  const signal = join(data, 'standby.signal');
  writeFileSync(signal, '');
  const owner = statSync(data);
  chownSync(signal, owner.uid, owner.gid);
  const promoted = postgres.start();
  promoted.catch(() => {});
  await until('the replica answers', withinMs, () =>
    value('select pg_is_in_recovery()').then(
      (answer) => answer === 't',
      () => false,
    ),
  );
  return { promoted };
}

/**
 * Copies the data of an own Postgres, as a standby has it that lacks all later commits.
 *
 * @param value the first value of a query
 * @returns lets the standby take over: the later commits are lost
 */
export async function keepStandby(
  postgres: NonNullable<Servers['postgres']>,
  value: (sql: string) => Promise<string | null | undefined>,
  withinMs: number,
): Promise<() => Promise<void>> {
  const data = (await value('show data_directory')) ?? '';
  const behind = `${data}.behind`;
  const start = async () => {
    await postgres.start();
    await until('the server is back', withinMs, () =>
      value('select 1').then(
        () => true,
        () => false,
      ),
    );
  };
  await postgres.stop();
  execFileSync('cp', ['-a', data, behind]);
  await start();
  return async () => {
    await postgres.stop();
    rmSync(data, { recursive: true });
    renameSync(behind, data);
    await start();
    const { promoted } = await restartAsReplica(postgres, value, withinMs);
    await value('select pg_promote()');
    await promoted;
  };
}
