/** `globalSetup` of the Jest projects that need Postgres only, which starts in a second; goes with global-teardown.ts. */
import { startForRun } from './run-servers';

export default async function globalSetup(): Promise<void> {
  await startForRun(['postgres']);
}
