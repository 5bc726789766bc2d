/**
 * The tables of the sandbox, in a schema of their own. The command makes them at its start. `promo-intake
 * migrate` does not, so that no production database ever has them.
 */
import { inTransaction, type Statement, type Store } from '../postgres/transaction';

export const SANDBOX_SCHEMA = 'promo_sandbox';
/** Raised with each change of a table. The state is disposable, so nothing is migrated. */
const VERSION = '2';

const TABLES: readonly string[] = [
  'create schema promo_sandbox',
  `create table promo_sandbox.sessions (
  session_id text primary key,
  operator_id text not null,
  token text,
  player text,
  game text not null,
  currency text not null,
  brand text,
  promo_player_ref text,
  state text not null check (state in ('launching', 'open', 'closed', 'expired')),
  launch_no int not null default 1,
  until timestamptz not null,
  created_at timestamptz not null default now(),
  unique (operator_id, token),
  check ((token is null) = (player is null))
)`,
  `create table promo_sandbox.grants (
  operator_id text not null,
  idempotency_key text not null,
  grant_id text not null unique,
  body_hash text not null,
  created_at timestamptz not null default now(),
  primary key (operator_id, idempotency_key)
)`,
  `create table promo_sandbox.fault_counts (
  operator_id text not null,
  call_hash text not null,
  times int not null,
  primary key (operator_id, call_hash)
)`,
  `create table promo_sandbox.rounds (
  operator_id text not null,
  round_id text not null,
  session_id text not null references promo_sandbox.sessions,
  body_hash text not null,
  plan json not null,
  state text not null default 'playing' check (state in ('playing', 'settled', 'refunded', 'refused', 'unresolved')),
  attribution text not null default 'none',
  due_at timestamptz not null,
  created_at timestamptz not null default now(),
  ended_at timestamptz,
  primary key (operator_id, round_id),
  check ((state = 'playing') = (ended_at is null))
)`,
  "create index rounds_due on promo_sandbox.rounds (due_at) where state = 'playing' or attribution = 'waiting'",
  `create table promo_sandbox.events (
  event_no bigint generated always as identity primary key,
  operator_id text not null,
  round_id text not null,
  event_id text not null,
  kind text not null,
  amount text not null,
  body text not null,
  due_at timestamptz not null default now(),
  failures int not null default 0,
  verdict text,
  reason text,
  unique (operator_id, event_id),
  foreign key (operator_id, round_id) references promo_sandbox.rounds
)`,
  'create index events_due on promo_sandbox.events (operator_id, due_at) where verdict is null',
];

const statement = (text: string, place: number): Statement => ({ name: `sandbox_table_${place}`, text });
const LOCK: Statement = {
  name: 'lock_sandbox',
  text: "select pg_advisory_xact_lock(hashtextextended('promo_sandbox', 0))",
};
const FIND_VERSION: Statement = {
  name: 'find_sandbox_version',
  text: "select coalesce(obj_description(oid, 'pg_namespace'), '') from pg_namespace where nspname = 'promo_sandbox'",
};
const SET_VERSION: Statement = {
  name: 'set_sandbox_version',
  text: `comment on schema promo_sandbox is 'promo-intake sandbox, version ${VERSION}'`,
};

/**
 * Makes the tables where the database has none.
 *
 * @returns the comment of a schema that another version made; undefined where the tables can be used
 * @throws StoreError
 */
export async function prepareSandboxTables(store: Store): Promise<string | undefined> {
  return inTransaction(store, async (session) => {
    await session.query(LOCK);
    const [row] = await session.query(FIND_VERSION);
    if (row !== undefined) {
      const found = row[0] ?? '';
      return found === `promo-intake sandbox, version ${VERSION}` ? undefined : found;
    }
    for (const [place, text] of TABLES.entries()) await session.query(statement(text, place));
    await session.query(SET_VERSION);
    return undefined;
  });
}
