/** The two stores of a move, each with a session whose errors name the store. */
import type { QueryResult, QueryResultRow } from 'pg';
import { StoreError } from '../postgres/errors';
import { endClient, KEEP_ALIVE, openClient, type StoreAccess } from '../postgres/pool';
import { BEGIN } from '../postgres/transaction';

/** A connection to one of the stores. */
export interface MoveSession {
  query<Row extends QueryResultRow>(text: string, values?: unknown[]): Promise<QueryResult<Row>>;
}

export interface MoveStores {
  /** The store that the operator leaves. */
  readonly from: MoveSession;
  /** The store that receives it. */
  readonly to: MoveSession;
}

/** The role of a store in a move. An error of Postgres names it. */
const ROLES = { from: 'the leaving store', to: 'the receiving store' } as const;

/** Whether the error is of the receiving store. Its address is not that of DATABASE_URL. */
export const isOfReceivingStore = (error: unknown): error is StoreError =>
  error instanceof StoreError && error.statement === ROLES.to;

export function withStores<T>(
  { from, to }: Readonly<Record<'from' | 'to', string | StoreAccess>>,
  work: (stores: MoveStores) => Promise<T>,
): Promise<T> {
  return withSession(from, ROLES.from, (from) => withSession(to, ROLES.to, (to) => work({ from, to })));
}

async function withSession<T>(
  database: string | StoreAccess,
  role: string,
  work: (session: MoveSession) => Promise<T>,
): Promise<T> {
  const named = <R>(answer: Promise<R>): Promise<R> =>
    answer.catch((error: unknown) => {
      throw new StoreError(role, error);
    });
  const options = { application_name: 'promo-intake-move', ...KEEP_ALIVE };
  const client = await named(openClient(database, options));
  const session: MoveSession = { query: (text, values) => named(client.query(text, values)) };
  try {
    // Rows are compared as text, so both stores have to write times in the same way.
    await session.query(`set timezone = 'UTC'; set datestyle = 'ISO'; set lock_timeout = '10s'; set statement_timeout = 0;
      set extra_float_digits = 1; set bytea_output = 'hex'; set search_path = pg_catalog`);
    return await work(session);
  } finally {
    await endClient(client);
  }
}

export async function all<T extends QueryResultRow>(
  session: MoveSession,
  text: string,
  values: unknown[] = [],
): Promise<T[]> {
  const { rows } = await session.query<T>(text, values);
  return rows;
}

/** Runs `work` in one transaction. */
export async function changeStore<T>(session: MoveSession, work: () => Promise<T>): Promise<T> {
  await session.query(BEGIN.text);
  try {
    const result = await work();
    await session.query('commit');
    return result;
  } catch (error) {
    await session.query('rollback').catch(() => undefined);
    throw error;
  }
}
