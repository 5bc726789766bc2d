/** The benchmark as a guest on Kafka and Postgres: connections with deadlines, and the removal of what it made. */
import { type Admin, Kafka, logLevel } from 'kafkajs';
import { Client } from 'pg';
import { until } from '../servers/deadline';

const CONNECT_TIMEOUT_MS = 5_000;
const STATEMENT_TIMEOUT_MS = 60_000;
const TOPIC_TIMEOUT_MS = 15_000;
/** Longer than the session of any member that was killed. */
const REMOVAL_DEADLINE_MS = 45_000;

export function kafkaAt(brokers: string): Kafka {
  return new Kafka({
    clientId: 'promo-bench',
    brokers: brokers.split(','),
    logLevel: logLevel.NOTHING,
    connectionTimeout: CONNECT_TIMEOUT_MS,
    retry: { retries: 4, initialRetryTime: 100, maxRetryTime: 1_000 },
  });
}

async function withAdmin<T>(brokers: string, work: (admin: Admin) => Promise<T>): Promise<T> {
  const admin = kafkaAt(brokers).admin();
  await admin.connect();
  try {
    return await work(admin);
  } finally {
    await admin.disconnect();
  }
}

/** @param statementMs how long a statement may take; those that fill tables take longer than others */
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
    // The statement under way, or the next one, reports it.
  });
  await client.connect();
  try {
    return await work(client);
  } finally {
    await client.end();
  }
}

/** Settings of a topic, by Kafka's names. */
export type TopicSettings = Readonly<Record<string, string>>;

export async function makeTopic(
  brokers: string,
  topic: string,
  partitions: number,
  settings: TopicSettings,
): Promise<void> {
  const configEntries = Object.entries(settings).map(([name, value]) => ({ name, value }));
  await withAdmin(brokers, (admin) =>
    admin.createTopics({
      topics: [{ topic, numPartitions: partitions, replicationFactor: -1, configEntries }],
      waitForLeaders: true,
      timeout: TOPIC_TIMEOUT_MS,
    }),
  );
}

export async function removeTopic(brokers: string, topic: string): Promise<void> {
  await withAdmin(brokers, (admin) => admin.deleteTopics({ topics: [topic], timeout: TOPIC_TIMEOUT_MS }));
}

/** Removes topics and consumer groups by how their names begin, and returns once Kafka lists none any more. */
export async function removeFromKafka(brokers: string, prefix: string): Promise<void> {
  await withAdmin(brokers, (admin) =>
    until('Kafka lists nothing of the benchmark any more', REMOVAL_DEADLINE_MS, async () => {
      const isOurs = (name: string) => name.startsWith(prefix);
      const topics = (await admin.listTopics()).filter(isOurs);
      const groupIds = (await admin.listGroups()).groups.map(({ groupId }) => groupId).filter(isOurs);
      // A group whose member was killed cannot be removed before its session ends: it is tried again.
      if (topics.length > 0) await admin.deleteTopics({ topics, timeout: TOPIC_TIMEOUT_MS }).catch(() => {});
      if (groupIds.length > 0) await admin.deleteGroups(groupIds).catch(() => {});
      return topics.length === 0 && groupIds.length === 0;
    }),
  );
}

/** What Postgres is set to from its next start on, beside its configuration file. */
export async function alterSystem(
  serverUrl: string,
  settings: Readonly<Record<string, string>>,
): Promise<void> {
  await withClient(serverUrl, async (client) => {
    await client.query('alter system reset all');
    for (const [name, value] of Object.entries(settings))
      await client.query(
        `alter system set ${client.escapeIdentifier(name)} = ${client.escapeLiteral(value)}`,
      );
  });
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
