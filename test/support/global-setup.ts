/**
 * `globalSetup` of the Jest projects that need Kafka, Postgres and the schema registry; goes with global-teardown.ts.
 * Jest runs one file once however many projects name it, with the settings of any one of them: what is started is
 * therefore chosen by the file (see global-setup-postgres.ts), not by a setting.
 */
import { startForRun } from './run-servers';

export default async function globalSetup(): Promise<void> {
  await startForRun(['kafka', 'postgres', 'registry']);
}
