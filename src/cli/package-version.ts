/** Which version of promo-intake this is. */
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';

/** @throws where the package is not whole */
export async function packageVersion(): Promise<string> {
  const path = join(__dirname, '..', '..', 'package.json');
  const json: unknown = JSON.parse(await readFile(path, 'utf8'));
  const found = typeof json === 'object' && json !== null && 'version' in json ? json.version : undefined;
  if (typeof found !== 'string') throw new Error(`${path} holds no version`);
  return found;
}
