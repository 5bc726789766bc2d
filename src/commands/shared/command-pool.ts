/** The connection to the store of a command that ends by itself. */
import { Unable } from '../../cli/explain-error';
import { makePool, type PostgresPool, type StoreAccess } from '../../postgres/pool';
import { makeLogger } from '../../telemetry/logger';

/** Runs a command over one connection. @param name the command, in the name of the connection */
export async function withPool<T>(
  database: StoreAccess,
  name: string,
  work: (pool: PostgresPool) => Promise<T>,
): Promise<T> {
  const access = { ...database, maxConnections: 1, applicationName: `promo-intake-${name}` };
  const pool = makePool(access, makeLogger('warn', 'stderr'));
  try {
    return await work(pool);
  } finally {
    await pool.end();
  }
}

/** @param types of the errors that a document of a newer version causes */
export function explainNewer(error: unknown, types: readonly (new (...args: never[]) => Error)[]): unknown {
  if (!(error instanceof Error) || types.every((type) => !(error instanceof type))) return error;
  const message = error.message.replace(/\.?$/, '.');
  return new Unable(
    `${message} A newer version of promo-intake may have applied it: use the command of that version.`,
    { cause: error },
  );
}
