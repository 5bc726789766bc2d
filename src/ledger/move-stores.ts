/** The two stores of a move, each with a session whose errors name the store. */
import type { Client } from 'pg';
import { StoreError } from '../postgres/errors';
import { endClient, KEEP_ALIVE, openClient, type StoreAccess } from '../postgres/pool';

export interface MoveRequest {
  readonly operator: string;
  /** The store that the operator leaves. */
  readonly from: string | StoreAccess;
  /** The store that receives it. */
  readonly to: string | StoreAccess;
  readonly requestedBy: string;
}

/** The role of a store in a move. An error of Postgres names it, see `open`. */
const ROLES = { from: 'the leaving store', to: 'the receiving store' } as const;

/** Whether the error is of the receiving store. Its address is not that of DATABASE_URL. */
export const isOfReceivingStore = (error: unknown): error is StoreError =>
  error instanceof StoreError && error.statement === ROLES.to;

export async function withStores<T>(
  { from, to }: MoveRequest,
  work: (from: Client, to: Client) => Promise<T>,
): Promise<T> {
  const source = await open(from, ROLES.from);
  try {
    const target = await open(to, ROLES.to);
    try {
      return await work(source, target);
    } finally {
      await endClient(target);
    }
  } finally {
    await endClient(source);
  }
}

async function open(database: string | StoreAccess, role: string): Promise<Client> {
  const failed = (error: unknown): never => {
    throw new StoreError(role, error);
  };
  try {
    const client = await openClient(database, { application_name: 'promo-intake-move', ...KEEP_ALIVE });
    // Rows are compared as text, so both stores have to write times in the same way.
    await client.query(`set timezone = 'UTC'; set datestyle = 'ISO'; set lock_timeout = '10s'; set statement_timeout = 0;
      set extra_float_digits = 1; set bytea_output = 'hex'; set search_path = pg_catalog`);
    client.query = new Proxy(client.query, {
      apply: (query, self, values): unknown => {
        const answer: unknown = Reflect.apply(query, self, values);
        return answer instanceof Promise ? answer.catch(failed) : answer;
      },
    });
    return client;
  } catch (error) {
    return failed(error);
  }
}
