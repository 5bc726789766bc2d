/** `globalTeardown` that belongs to global-setup.ts and global-setup-postgres.ts. */
import { stopForRun } from './run-servers';

export default async function globalTeardown(): Promise<void> {
  await stopForRun();
}
