/** `promo-intake check-page`: prints the page that checks events. The build makes it of src/check-page. */
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import type { Logger } from 'pino';
import { DONE } from '../../cli/exit-codes';
import { Unable } from '../../cli/explain-error';
import { print } from '../../cli/output';
import { messageOf } from '../../lib/errors';

const FILE = join(__dirname, '..', '..', '..', 'dist', 'check.html');

/** @throws where the build has not made it */
async function readCheckPage(): Promise<string> {
  return readFile(FILE, 'utf8').catch((error: unknown): never => {
    throw new Unable(`The page is missing: ${FILE}. npm run build makes it.`, { cause: error });
  });
}

/** The page for a webhook, which decides events without it, too. */
export function servedCheckPage(logger: Logger): Promise<string | undefined> {
  return readCheckPage().catch((error: unknown) => {
    logger.warn(
      { error: messageOf(error) },
      'cannot read the page that checks events; GET /check answers 404',
    );
    return undefined;
  });
}

/** @returns the exit code */
export async function checkPage(): Promise<number> {
  await print(await readCheckPage());
  return DONE;
}
