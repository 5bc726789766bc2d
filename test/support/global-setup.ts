/**
 * `globalSetup` of the Jest projects that need Kafka, Postgres and the schema registry. It belongs to
 * global-teardown.ts.
 *
 * Jest runs a setup file once, however many projects name it, with the settings of any one of them. Therefore
 * the file chooses the servers to start (see global-setup-postgres.ts), not a setting.
 */
import { startForRun } from './run-servers';

export default async function globalSetup(): Promise<void> {
  await startForRun(['kafka', 'postgres', 'registry']);
}
