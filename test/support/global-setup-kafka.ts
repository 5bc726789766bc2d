/**
 * `globalSetup` of the Jest projects that need Kafka and Postgres. The registry would take five seconds more.
 * It belongs to global-teardown.ts.
 */
import { startForRun } from './run-servers';

export default async function globalSetup(): Promise<void> {
  await startForRun(['kafka', 'postgres']);
}
