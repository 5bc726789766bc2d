/** `globalTeardown` that belongs to each global-setup*.ts. */
import { stopForRun } from './run-servers';

export default async function globalTeardown(): Promise<void> {
  await stopForRun();
}
