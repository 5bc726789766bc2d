/**
 * The right to connect to the database. By default every role of the server has it, through `public`. A role
 * that can connect can hold advisory locks and connections, and read the catalog. So only the roles of the
 * store keep the right, where no other role would lose it.
 */
import type { Client } from 'pg';
import { escapeIdentifier } from 'pg';
import { BEGIN } from '../postgres/transaction';

/** The result of `limitConnect`. */
export interface ConnectRight {
  /** Whether `public` no longer has the right to connect. */
  readonly isRevoked: boolean;
  /** Why `public` still has the right, or which grantees cannot connect. */
  readonly reasons: readonly string[];
  /** Statements that the owner of the database can run instead. */
  readonly statements: readonly string[];
}

/** The largest number of roles that a message names. Statements name all roles. */
const MOST_NAMED = 10;

interface Database {
  readonly name: string;
  readonly owner: string;
  readonly store_owner: string;
  readonly may_grant: boolean;
  readonly is_public: boolean;
}

const DATABASE = `select d.datname as name, pg_get_userbyid(d.datdba) as owner, pg_get_userbyid(n.nspowner) as store_owner,
  pg_has_role(d.datdba, 'usage') as may_grant,
  exists (select from aclexplode(coalesce(d.datacl, acldefault('d', d.datdba))) a where a.grantee = 0 and a.privilege_type = 'CONNECT') as is_public
from pg_database d, pg_namespace n where d.datname = current_database() and n.nspname = 'promo_store'`;

/**
 * Roles that use the database and have the right to connect through public alone. They own something in it,
 * have privileges or settings there, or are connected.
 *
 * A member of such a role uses the database, too. The query names a member that does not inherit the role's
 * rights: it would not inherit the right to connect either.
 */
const LOSERS = `with here as (select oid, datdba, datacl from pg_database where datname = current_database()),
used as (
  select s.refobjid as role from pg_shdepend s, here
  where s.refclassid = 'pg_authid'::regclass and (s.dbid = here.oid or s.classid = 'pg_database'::regclass and s.objid = here.oid)
  union select a.usesysid from pg_stat_activity a, here where a.datid = here.oid and a.usesysid is not null
  union select c.setrole from pg_db_role_setting c, here where c.setdatabase = here.oid and c.setrole <> 0
),
kept as (
  select a.grantee as role from here, aclexplode(coalesce(here.datacl, acldefault('d', here.datdba))) a
  where a.privilege_type = 'CONNECT' and a.grantee <> 0
  union select datdba from here
  union select oid from pg_roles where rolname = any($1)
)
select r.rolname as name from pg_roles r
where not r.rolsuper
  and (r.oid in (select role from used)
    or r.rolcanlogin and exists (select from used u where pg_has_role(r.oid, u.role, 'member'))
      and not exists (select from used u where pg_has_role(r.oid, u.role, 'usage')))
  and not exists (select from kept k where pg_has_role(r.oid, k.role, 'usage'))
order by 1`;

const WITHOUT_RIGHT = `select g.name from unnest($1::text[]) with ordinality g (name, place)
where not has_database_privilege(g.name, current_database(), 'connect') order by g.place`;

/**
 * Gives the right to connect to the grantees and the owner of the store, and takes it from public. It leaves
 * public unchanged where we may not revoke the right, or where another role would lose access.
 *
 * @param names of the grantees, as in pg_roles
 */
export async function limitConnect(client: Client, names: readonly string[]): Promise<ConnectRight> {
  const [database] = (await client.query<Database>(DATABASE)).rows;
  if (database === undefined) throw new Error('there is no schema promo_store: run migrate first');
  const keepers = [...new Set([...names, database.store_owner])];
  const granted = connectTo(database.name, keepers);
  const revoked = `revoke connect on database ${escapeIdentifier(database.name)} from public`;
  if (!database.is_public) {
    if (database.may_grant) {
      await client.query(granted);
      return { isRevoked: true, reasons: [], statements: [] };
    }
    const missing = await namesOf(client, WITHOUT_RIGHT, keepers);
    return missing.length === 0
      ? { isRevoked: true, reasons: [], statements: [] }
      : {
          isRevoked: true,
          reasons: [
            `${named(missing)} may not connect to it, and only its owner ${database.owner} can change that`,
          ],
          statements: [connectTo(database.name, missing)],
        };
  }
  const losers = await namesOf(client, LOSERS, keepers);
  const reasons = [
    ...(database.may_grant ? [] : [`only its owner ${database.owner} can revoke that`]),
    ...(losers.length === 0
      ? []
      : [
          `${named(losers)} would lose access: each of them owns an object in it, has privileges there or is connected`,
        ]),
  ];
  if (reasons.length > 0)
    return {
      isRevoked: false,
      reasons,
      statements: [connectTo(database.name, [...keepers, ...losers]), revoked],
    };
  await client.query([BEGIN.text, granted, revoked, 'commit'].join(';\n'));
  return { isRevoked: true, reasons, statements: [] };
}

function connectTo(database: string, names: readonly string[]): string {
  return `grant connect on database ${escapeIdentifier(database)} to ${names.map(escapeIdentifier).join(', ')}`;
}

async function namesOf(client: Client, query: string, names: readonly string[]): Promise<string[]> {
  return (await client.query<{ name: string }>(query, [names])).rows.map(({ name }) => name);
}

function named(names: readonly string[]): string {
  const more = names.length - MOST_NAMED;
  return more > 0 ? `${names.slice(0, MOST_NAMED).join(', ')} and ${more} more` : names.join(', ');
}
