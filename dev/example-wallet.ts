/**
 * `make example-wallet`: a wallet for `promo-intake wallet-check`, sound, or with the bugs that its arguments
 * name.
 *
 * WALLET_DATABASE_URL names its database, where it makes a schema example_wallet. Without it, a Postgres of
 * its own runs as long as the wallet. PORT is 8787 by default.
 */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { BUG_NAMES, isBugName } from './example-wallet/bugs';
import { type ExampleWalletOptions, type RunningWallet, startExampleWallet } from './example-wallet/server';
import { startServers } from './servers';
import { projectRoot } from './servers/download';
import { endingSignal, runProgram } from './servers/program';

const NAME = 'example-wallet';
const ended = endingSignal();

async function main(names: readonly string[]): Promise<number> {
  const unknown = names.filter((name) => !isBugName(name));
  if (unknown.length > 0)
    throw new Error(`there is no bug ${unknown.join(', ')}; the bugs are ${BUG_NAMES.join(', ')}`);
  const { WALLET_DATABASE_URL: given, PORT: port = '8787' } = process.env;
  const servers = given === undefined ? await startPostgres() : undefined;
  try {
    const wallet = await start({
      databaseUrl: given ?? servers?.databaseUrl ?? '',
      secret: readFileSync(join(projectRoot, 'schemas/examples/wallet.secret'), 'utf8').trim(),
      keyId: 'wallet-key-1',
      port: Number(port),
      bugs: new Set(names.filter(isBugName)),
    });
    console.log(`example wallet at ${wallet.url}, until Ctrl-C`);
    await ended;
    await wallet.close();
  } finally {
    await servers?.stop();
  }
  return 0;
}

async function start(options: ExampleWalletOptions): Promise<RunningWallet> {
  try {
    return await startExampleWallet(options);
  } catch (error) {
    if (!(error instanceof Error && 'code' in error && error.code === 'EADDRINUSE')) throw error;
    throw new Error(`the port ${options.port} is taken: set PORT, and base_url of the profile`);
  }
}

/** Not the store that DATABASE_URL may name: a wallet has no place in it. */
function startPostgres() {
  const { DATABASE_URL: _store, ...environment } = process.env;
  const log = (line: string): void => console.error(`${NAME}: ${line}`);
  return startServers({ need: ['postgres'], environment, log, exitAfterSignal: false });
}

runProgram(NAME, () => main(process.argv.slice(2)));
