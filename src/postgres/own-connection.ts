/** A connection beside the pool, for work that may take longer than its statements may. */
import type { Client } from 'pg';
import { StoreError } from './errors';
import { ANSWER_GRACE_MS, endClient, KEEP_ALIVE, openClient, type StoreAccess } from './pool';

export interface OwnConnectionOptions {
  readonly applicationName: string;
  /** The deadline of each statement. `work` sets it in the store. An answer may take a little longer. */
  readonly timeoutMs: number;
}

/** Runs `work` over a connection of its own, and ends it. @throws StoreError where it cannot connect */
export async function withOwnConnection<T>(
  database: string | StoreAccess,
  { applicationName, timeoutMs }: OwnConnectionOptions,
  work: (client: Client) => Promise<T>,
): Promise<T> {
  const client = await openClient(database, {
    application_name: applicationName,
    query_timeout: timeoutMs + ANSWER_GRACE_MS,
    ...KEEP_ALIVE,
  }).catch((error: unknown) => {
    throw new StoreError('connect', error);
  });
  try {
    return await work(client);
  } finally {
    await endClient(client);
  }
}
