/**
 * The benchmark as a guest on Kafka and Postgres: connections with deadlines, and removal of everything that
 * the benchmark made.
 */
import type { Admin, Kafka } from 'kafkajs';
import { Client } from 'pg';
import { quietKafka } from '../servers/kafka-client';
import { removeFromKafka } from '../servers/topics';

const CONNECT_TIMEOUT_MS = 5_000;
const STATEMENT_TIMEOUT_MS = 60_000;
/** Longer than the session of any member that was killed. */
const REMOVAL_DEADLINE_MS = 45_000;

export function kafkaAt(brokers: string): Kafka {
  return quietKafka({
    clientId: 'promo-bench',
    brokers: brokers.split(','),
    connectionTimeout: CONNECT_TIMEOUT_MS,
    retry: { retries: 4, initialRetryTime: 100, maxRetryTime: 1_000 },
  });
}

export async function withAdmin<T>(brokers: string, work: (admin: Admin) => Promise<T>): Promise<T> {
  const admin = kafkaAt(brokers).admin();
  await admin.connect();
  try {
    return await work(admin);
  } finally {
    await admin.disconnect();
  }
}

/** @param statementMs deadline of a statement; statements that fill tables need more than others */
export async function withClient<T>(
  databaseUrl: string,
  work: (client: Client) => Promise<T>,
  statementMs = STATEMENT_TIMEOUT_MS,
): Promise<T> {
  const client = new Client({
    connectionString: databaseUrl,
    application_name: 'promo-bench',
    connectionTimeoutMillis: CONNECT_TIMEOUT_MS,
    query_timeout: statementMs,
  });
  client.on('error', () => {
    // The current or the next statement reports this error.
  });
  await client.connect();
  try {
    return await work(client);
  } finally {
    await client.end();
  }
}

/** Removes topics and consumer groups whose names begin with the prefix. */
export async function removeOwn(brokers: string, prefix: string): Promise<void> {
  await withAdmin(brokers, (admin) =>
    removeFromKafka(admin, REMOVAL_DEADLINE_MS, (name) => name.startsWith(prefix)),
  );
}

/** Changes settings of Postgres that take effect at its next start, beside its configuration file. */
export async function alterSystem(
  serverUrl: string,
  settings: Readonly<Record<string, string>>,
): Promise<void> {
  await withClient(serverUrl, async (client) => {
    await client.query('alter system reset all');
    await alter(client, 'system', settings);
  });
}

/** Changes settings of all later connections to a database. */
export async function alterDatabase(
  databaseUrl: string,
  settings: Readonly<Record<string, string>>,
): Promise<void> {
  const name = new URL(databaseUrl).pathname.slice(1);
  await withClient(databaseUrl, (client) =>
    alter(client, `database ${client.escapeIdentifier(name)}`, settings),
  );
}

/** @param what the object that is altered, in SQL */
async function alter(
  client: Client,
  what: string,
  settings: Readonly<Record<string, string>>,
): Promise<void> {
  for (const [name, value] of Object.entries(settings))
    await client.query(`alter ${what} set ${client.escapeIdentifier(name)} = ${client.escapeLiteral(value)}`);
}

/** @returns the address of the new database */
export async function makeDatabase(serverUrl: string, name: string): Promise<string> {
  await withClient(serverUrl, (client) => client.query(`create database ${client.escapeIdentifier(name)}`));
  const url = new URL(serverUrl);
  url.pathname = `/${name}`;
  return url.href;
}

export async function removeDatabase(serverUrl: string, name: string): Promise<void> {
  await withClient(serverUrl, (client) =>
    client.query(`drop database if exists ${client.escapeIdentifier(name)} with (force)`),
  );
}

export async function removeDatabases(serverUrl: string, prefix: string): Promise<void> {
  await withClient(serverUrl, async (client) => {
    const { rows } = await client.query<{ datname: string }>(
      'select datname from pg_database where starts_with(datname, $1)',
      [prefix],
    );
    for (const { datname } of rows)
      await client.query(`drop database if exists ${client.escapeIdentifier(datname)} with (force)`);
  });
}
