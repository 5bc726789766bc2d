/**
 * Roles of the database for tests. Roles belong to the whole server, so each has a name of its own, and is
 * dropped with its test.
 */
import { randomBytes } from 'node:crypto';
import { withClient } from './ledger';

const PASSWORD = 'secret';

/**
 * Makes a role that may log in, connect to one database, and nothing else.
 * @param url of that database, as a superuser
 */
export async function makeRole(url: string, purpose: string): Promise<{ name: string; url: string }> {
  const name = `promo_test_${purpose}_${randomBytes(6).toString('hex')}`;
  await withClient(url, async (client) => {
    await client.query(`create role ${name} login password '${PASSWORD}'`);
    await client.query(
      `do $$ begin execute format('grant connect on database %I to ${name}', current_database()); end $$`,
    );
  });
  const asRole = new URL(url);
  asRole.username = name;
  asRole.password = PASSWORD;
  return { name, url: asRole.href };
}

/** Removes roles with their objects and grants in the database of `url`, and in no other. */
export async function dropRoles(url: string, names: readonly string[]): Promise<void> {
  await withClient(url, async (client) => {
    for (const name of names) await client.query(`drop owned by ${name} cascade; drop role ${name}`);
  });
}
