/** `promo-intake migrate`: brings the database to this version. */

import { DONE } from '../../cli/exit-codes';
import { readConfig } from '../../config/config';
import { newerMigrations, runMigrations } from '../../ledger/migrate';

/** @returns the exit code */
export async function migrate(): Promise<number> {
  const config = readConfig(process.env, ['DATABASE']);
  const ran = await runMigrations(config.DATABASE, {
    onWait: (name) => console.error(`${name} cannot get a lock that another session holds, retrying`),
  });
  for (const name of ran) console.log(`ran ${name}`);
  if (ran.length === 0) {
    const newer = await newerMigrations(config.DATABASE);
    console.log(
      newer.length === 0
        ? 'the database is up to date'
        : `the database is of a newer version: it has ${newer.join(', ')}. Nothing was changed`,
    );
  }
  return DONE;
}
