/**
 * Roles of the test server with the rights that `promo-intake grant` gives. The owner may do everything: a
 * right that production lacks would fail no test.
 */
import type { Client } from 'pg';
import { grantRoles, type Role } from '../../src/ledger/roles';
import type { Store } from '../../src/postgres/transaction';

const ROLES = ['writer', 'rollups', 'pseudonyms', 'promotions', 'completions', 'wallet'] as const;
type TestRole = Extract<Role, (typeof ROLES)[number]>;

const nameOf = (role: TestRole): string => `promo_test_${role}`;

/**
 * Gives the roles their rights in a database. Databases that are cloned from it have them, too. Roles belong
 * to the whole server, and stay there.
 *
 * @param url of the database, as a superuser
 */
export async function grantTestRoles(client: Client, url: string): Promise<void> {
  const names = ROLES.map(nameOf);
  const { rows } = await client.query<{ rolname: string }>(
    'select rolname from pg_roles where rolname = any($1)',
    [names],
  );
  const existing = rows.map(({ rolname }) => rolname);
  for (const name of names.filter((each) => !existing.includes(each)))
    await client.query(`create role ${name}`);
  await grantRoles(
    url,
    ROLES.map((role) => ({ role, name: nameOf(role) })),
  );
}

/** Takes all rights in a database back from the roles. */
export async function revokeTestRoles(client: Pick<Client, 'query'>): Promise<void> {
  await client.query(`drop owned by ${ROLES.map(nameOf).join(', ')}`);
}

/** The store, in whose transactions a role acts instead of the owner. */
export function asRole(store: Store, role: TestRole): Store {
  const set = { name: `test_as_${role}`, text: `set local role ${nameOf(role)}` };
  return {
    async acquire() {
      const connection = await store.acquire();
      return {
        query: (statement, values) => connection.query(statement, values),
        write: (writes) => connection.write(writes),
        async begin() {
          await Promise.all([connection.begin(), connection.query(set)]);
        },
        release: (isClean) => connection.release(isClean),
      };
    },
  };
}
