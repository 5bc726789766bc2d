/**
 * `globalSetup` of the Jest projects that need only Postgres, which starts in a second. It belongs to
 * global-teardown.ts.
 */
import { startForRun } from './run-servers';

export default async function globalSetup(): Promise<void> {
  await startForRun(['postgres']);
}
