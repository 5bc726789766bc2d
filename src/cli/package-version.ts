/** The version of this promo-intake. */
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';

/** @throws if package.json is missing or has no version */
export async function packageVersion(): Promise<string> {
  const path = join(__dirname, '..', '..', 'package.json');
  const json: unknown = JSON.parse(await readFile(path, 'utf8'));
  const found = typeof json === 'object' && json !== null && 'version' in json ? json.version : undefined;
  if (typeof found !== 'string') throw new Error(`${path} holds no version`);
  return found;
}
