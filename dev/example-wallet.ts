/**
 * A wallet for `promo-intake wallet-check`: `node build/dev/example-wallet.js [BUG...]`.
 *
 * WALLET_DATABASE_URL names its database, where it makes a schema example_wallet. PORT is 8787 by default.
 */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { BUG_NAMES, isBugName } from './example-wallet/bugs';
import { startExampleWallet } from './example-wallet/server';
import { projectRoot } from './servers/download';

async function main(names: readonly string[]): Promise<void> {
  const { WALLET_DATABASE_URL: databaseUrl, PORT: port = '8787' } = process.env;
  const unknown = names.filter((name) => !isBugName(name));
  if (databaseUrl === undefined) throw new Error('set WALLET_DATABASE_URL to the address of a test database');
  if (unknown.length > 0)
    throw new Error(`there is no bug ${unknown.join(', ')}; the bugs are ${BUG_NAMES.join(', ')}`);
  const wallet = await startExampleWallet({
    databaseUrl,
    secret: readFileSync(join(projectRoot, 'schemas/examples/wallet.secret'), 'utf8').trim(),
    keyId: 'wallet-key-1',
    port: Number(port),
    bugs: new Set(names.filter(isBugName)),
  });
  console.log(`example wallet at ${wallet.url}, until Ctrl-C`);
  for (const signal of ['SIGINT', 'SIGTERM'] as const) process.once(signal, () => void wallet.close());
}

main(process.argv.slice(2)).catch((error: unknown) => {
  console.error(error instanceof Error ? error.message : String(error));
  process.exitCode = 1;
});
