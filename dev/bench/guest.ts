/**
 * The benchmark as a guest on Kafka and Postgres: the removal of everything that it made, and settings of
 * Postgres.
 */
import type { Client } from 'pg';
import { makeGuest } from '../servers/guest';
import { removeFromKafka } from '../servers/topics';

const STATEMENT_TIMEOUT_MS = 60_000;
/** Longer than the session of any member that was killed. */
const REMOVAL_DEADLINE_MS = 45_000;

export const { kafkaAt, withAdmin, withClient, makeDatabase, dropDatabase } = makeGuest(
  'promo-bench',
  STATEMENT_TIMEOUT_MS,
);

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

export async function removeDatabases(serverUrl: string, prefix: string): Promise<void> {
  const names = await withClient(serverUrl, async (client) => {
    const { rows } = await client.query<{ datname: string }>(
      'select datname from pg_database where starts_with(datname, $1)',
      [prefix],
    );
    return rows.map(({ datname }) => datname);
  });
  for (const name of names) await dropDatabase(serverUrl, name);
}
