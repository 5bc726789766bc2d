/**
 * Tools as guests on Kafka and Postgres: connections with deadlines, and databases of their own. A connection
 * has few retries, so that a wrong address is reported within seconds.
 */
import { type Admin, Kafka, type KafkaConfig, logLevel } from 'kafkajs';
import { Client } from 'pg';
import { installRequestTimers } from '../../src/kafka/client/patches/request-timers';
import { messageOf } from './types';

const CONNECT_TIMEOUT_MS = 5_000;

/**
 * Options of Node for a program with kafkajs as it is published: it sets timers in the past, of which Node 24
 * warns (tulios/kafkajs#1751). Other warnings stay visible.
 */
export const PUBLISHED_KAFKAJS = ['--disable-warning=TimeoutNegativeWarning'];

/** A client that logs nothing, and for which Node has no warning either. */
export function quietKafka(config: KafkaConfig): Kafka {
  installRequestTimers();
  return new Kafka({ logLevel: logLevel.NOTHING, ...config });
}

/**
 * @param name by which Kafka and Postgres know the tool
 * @param statementMs the deadline of a statement
 */
export function makeGuest(name: string, statementMs: number) {
  const kafkaAt = (brokers: string): Kafka =>
    quietKafka({
      clientId: name,
      brokers: brokers.split(',').map((broker) => broker.trim()),
      connectionTimeout: CONNECT_TIMEOUT_MS,
      retry: { retries: 4, initialRetryTime: 100, maxRetryTime: 1_000 },
    });

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

  /** @param ms deadline of a statement; statements that fill tables need more than others */
  async function withClient<T>(
    databaseUrl: string,
    work: (client: Client) => Promise<T>,
    ms = statementMs,
  ): Promise<T> {
    const client = new Client({
      connectionString: databaseUrl,
      application_name: name,
      connectionTimeoutMillis: CONNECT_TIMEOUT_MS,
      query_timeout: ms,
    });
    client.on('error', () => {
      // The current or the next statement reports this error.
    });
    try {
      await client.connect();
    } catch (error) {
      // Not the whole address: it may hold a password.
      const problem = `Postgres at ${hostOf(databaseUrl)} does not answer: ${messageOf(error)}`;
      throw new Error(`${problem}. Is DATABASE_URL right?`);
    }
    try {
      return await work(client);
    } finally {
      await client.end();
    }
  }

  /** @returns the address of the new database */
  async function makeDatabase(serverUrl: string, database: string): Promise<string> {
    await withClient(serverUrl, (client) =>
      client.query(`create database ${client.escapeIdentifier(database)}`),
    );
    const url = new URL(serverUrl);
    url.pathname = `/${database}`;
    return url.href;
  }

  async function dropDatabase(serverUrl: string, database: string): Promise<void> {
    await withClient(serverUrl, (client) =>
      client.query(`drop database if exists ${client.escapeIdentifier(database)} with (force)`),
    );
  }

  return { kafkaAt, withAdmin, withClient, makeDatabase, dropDatabase };
}

export function hostOf(databaseUrl: string): string {
  return URL.canParse(databaseUrl) ? new URL(databaseUrl).host : 'its address';
}
