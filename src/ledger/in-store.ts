/** A transaction of an operation: over a connection of its own, with a deadline of its own. */
import { StoreError } from '../postgres/errors';
import { withOwnConnection } from '../postgres/own-connection';
import { END_WITH_CLIENT, type StoreAccess } from '../postgres/pool';
import { BEGIN_SNAPSHOT } from '../postgres/snapshot';
import { BEGIN } from '../postgres/transaction';

/** The deadline of a short read. */
export const READ_TIMEOUT_MS = 10_000;
/**
 * The deadline of a check. It reads everything stored, including all keys: some 30 s for a million events.
 */
export const CHECK_TIMEOUT_MS = 3 * 3_600_000;

export interface Requester {
  /** The person who requests the operation, for the log. */
  readonly requestedBy: string;
}

type Query = (text: string, values?: readonly unknown[]) => Promise<unknown[][]>;

export interface TransactionOptions {
  readonly timeoutMs: number;
  readonly requestedBy?: string;
  /** One read-only snapshot, for which a replica is enough. */
  readonly isSnapshot?: boolean;
}

/** Runs statements in a transaction, under their own deadline. @throws StoreError */
export function inStore<T>(
  database: string | StoreAccess,
  { timeoutMs, requestedBy = '', isSnapshot = false }: TransactionOptions,
  work: (query: Query) => Promise<T>,
): Promise<T> {
  const options = { applicationName: 'promo-intake-operations', timeoutMs };
  return withOwnConnection(database, options, async (client) => {
    const query: Query = async (text, values = []) => {
      try {
        const { rows } = await client.query<unknown[]>({ text, values: [...values], rowMode: 'array' });
        return rows;
      } catch (error) {
        throw new StoreError('operations', error);
      }
    };
    await query(`${isSnapshot ? BEGIN_SNAPSHOT : BEGIN.text}; ${END_WITH_CLIENT}`);
    await query(
      `select set_config('promo.requested_by', $1, true), set_config('statement_timeout', $2, true)`,
      [requestedBy, String(timeoutMs)],
    );
    const result = await work(query);
    await query('commit');
    return result;
  });
}
