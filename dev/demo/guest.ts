/**
 * The demo as a guest on servers with given addresses: topics, a group and a database of its own, and their
 * removal.
 */
import type { Admin, Kafka } from 'kafkajs';
import { Client } from 'pg';
import { quietKafka } from '../servers/kafka-client';
import { makeTopics, removeFromKafka } from '../servers/topics';
import { type Log, messageOf } from '../servers/types';
import { isLeftover, type OwnNames } from './names';

const CONNECT_TIMEOUT_MS = 5_000;
const STATEMENT_TIMEOUT_MS = 30_000;
/** Longer than the session of a worker, which is 10 s. */
const REMOVAL_DEADLINE_MS = 20_000;
export const PARTITIONS = 4;

/** A client with few retries: a wrong address shall be reported within seconds. */
export function kafkaAt(brokers: string): Kafka {
  return quietKafka({
    clientId: 'promo-demo',
    brokers: brokers.split(',').map((broker) => broker.trim()),
    connectionTimeout: CONNECT_TIMEOUT_MS,
    retry: { retries: 4, initialRetryTime: 100, maxRetryTime: 1_000 },
  });
}

async function withAdmin<T>(brokers: string, work: (admin: Admin) => Promise<T>): Promise<T> {
  const admin = kafkaAt(brokers).admin();
  try {
    await admin.connect();
  } catch (error) {
    throw new Error(`Kafka at ${brokers} does not answer: ${messageOf(error)}. Is KAFKA_BROKERS right?`);
  }
  try {
    return await work(admin);
  } finally {
    await admin.disconnect();
  }
}

export async function makeOwnTopics(brokers: string, topics: readonly string[]): Promise<void> {
  const plans = Object.fromEntries(topics.map((topic) => [topic, { partitions: PARTITIONS }]));
  await withAdmin(brokers, (admin) => makeTopics(admin, plans));
}

export async function removeOwnTopics(brokers: string, { group, topicPrefix }: OwnNames): Promise<void> {
  const isOwn = (name: string): boolean => name === group || name.startsWith(topicPrefix);
  // Together with the group of a killed demo that could not be removed yet when this demo started.
  const isOurs = (name: string): boolean => isOwn(name) || isLeftover(name);
  await withAdmin(brokers, (admin) => removeFromKafka(admin, REMOVAL_DEADLINE_MS, isOurs, isOwn));
}

export async function connect(databaseUrl: string): Promise<Client> {
  const client = new Client({
    connectionString: databaseUrl,
    application_name: 'promo-demo',
    connectionTimeoutMillis: CONNECT_TIMEOUT_MS,
    query_timeout: STATEMENT_TIMEOUT_MS,
  });
  client.on('error', () => {
    // The current or the next statement reports this error.
  });
  try {
    await client.connect();
  } catch (error) {
    // Not the whole address: it may hold a password.
    throw new Error(
      `Postgres at ${hostOf(databaseUrl)} does not answer: ${messageOf(error)}. Is DATABASE_URL right?`,
    );
  }
  return client;
}

export async function withDatabase<T>(databaseUrl: string, work: (client: Client) => Promise<T>): Promise<T> {
  const client = await connect(databaseUrl);
  try {
    return await work(client);
  } finally {
    await client.end();
  }
}

/** @returns the address of the new database */
export async function makeDatabase(serverUrl: string, { database }: OwnNames): Promise<string> {
  await withDatabase(serverUrl, (client) =>
    client.query(`create database ${client.escapeIdentifier(database)}`),
  );
  const url = new URL(serverUrl);
  url.pathname = `/${database}`;
  return url.href;
}

async function drop(client: Client, database: string): Promise<void> {
  await client.query(`drop database if exists ${client.escapeIdentifier(database)} with (force)`);
}

export async function removeOwnDatabase(serverUrl: string, { database }: OwnNames): Promise<void> {
  await withDatabase(serverUrl, (client) => drop(client, database));
}

/**
 * Removes the leftovers of killed demos. A failed removal is only logged, and never keeps a new demo from
 * starting.
 */
export async function removeLeftovers(
  given: { brokers: string | undefined; serverUrl: string | undefined },
  log: Log,
): Promise<void> {
  const { brokers, serverUrl } = given;
  const attempt = async (what: string, work: () => Promise<void>): Promise<void> => {
    try {
      await work();
    } catch (error) {
      log(`${what} of a killed demo may be left: ${messageOf(error)}`);
    }
  };
  if (brokers !== undefined) {
    await withAdmin(brokers, (admin) =>
      attempt('topics', async () => {
        const removed = await removeFromKafka(admin, REMOVAL_DEADLINE_MS, isLeftover, () => false);
        if (removed > 0) log(`removed ${removed} topics that a killed demo left`);
      }),
    );
  }
  if (serverUrl === undefined) return;
  await withDatabase(serverUrl, async (client) => {
    const { rows } = await client.query<{ datname: string }>(
      "select datname from pg_database where datname like 'promo\\_demo\\_%'",
    );
    for (const { datname } of rows.filter((row) => isLeftover(row.datname))) {
      await attempt(`the database ${datname}`, async () => {
        await drop(client, datname);
        log(`removed the database ${datname} that a killed demo left`);
      });
    }
  });
}

export function hostOf(databaseUrl: string): string {
  return URL.canParse(databaseUrl) ? new URL(databaseUrl).host : 'its address';
}
