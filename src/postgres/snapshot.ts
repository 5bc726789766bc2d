/** Reads of one snapshot, by a connection of their own. They may take hours. */
import { StoreError } from './errors';
import {
  ANSWER_GRACE_MS,
  END_WITH_CLIENT,
  endClient,
  KEEP_ALIVE,
  openClient,
  type StoreAccess,
} from './pool';
import type { Reader } from './transaction';

/** Rows as texts, as the pool returns them. */
const AS_TEXT = { getTypeParser: () => (text: string) => text };

export interface SnapshotOptions {
  readonly applicationName: string;
  /** The deadline of each statement. */
  readonly timeoutMs: number;
}

/** Runs `work` in a transaction that sees one moment, and may write nothing. @throws StoreError */
export async function inSnapshot<T>(
  database: string | StoreAccess,
  { applicationName, timeoutMs }: SnapshotOptions,
  work: (reader: Reader) => Promise<T>,
): Promise<T> {
  const client = await openClient(database, {
    ...{ application_name: applicationName, query_timeout: timeoutMs + ANSWER_GRACE_MS, ...KEEP_ALIVE },
    types: AS_TEXT,
  }).catch((error: unknown) => {
    throw new StoreError('connect', error);
  });
  const run = async (name: string, text: string, values: readonly unknown[] = []) => {
    try {
      return (await client.query<(string | null)[]>({ text, values: [...values], rowMode: 'array' })).rows;
    } catch (error) {
      throw new StoreError(name, error);
    }
  };
  try {
    await run('begin', `begin isolation level repeatable read read only; ${END_WITH_CLIENT}`);
    await run('settings', `select set_config('statement_timeout', $1, true)`, [String(timeoutMs)]);
    const result = await work({ query: ({ name, text }, values) => run(name, text, values) });
    await run('commit', 'commit');
    return result;
  } finally {
    await endClient(client);
  }
}
