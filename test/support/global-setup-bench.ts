/** `globalSetup` of the benchmark, whose Postgres has fsync. It belongs to global-teardown.ts. */
import { startForRun } from './run-servers';

export default async function globalSetup(): Promise<void> {
  await startForRun(['kafka', 'postgres', 'registry'], true);
}
