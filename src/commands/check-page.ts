/** `promo-intake check-page`: prints the page that checks events. The build makes it of src/check-page. */
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { DONE } from '../cli/exit-codes';
import { Unable } from '../cli/explain-error';
import { print } from '../cli/output';

const FILE = join(__dirname, '..', '..', 'dist', 'check.html');

/** @throws where the build has not made it */
export async function readCheckPage(): Promise<string> {
  return readFile(FILE, 'utf8').catch((error: unknown): never => {
    throw new Unable(`The page is missing: ${FILE}. npm run build makes it.`, { cause: error });
  });
}

/** @returns the exit code */
export async function checkPage(): Promise<number> {
  await print(await readCheckPage());
  return DONE;
}
