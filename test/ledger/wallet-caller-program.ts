/** A caller of a wallet that kills itself, or is killed, at a named step: see wallet-calls.test.ts. */

import { isWalletAction } from '../../src/contract/actions';
import type { CallStore } from '../../src/wallet/call-store';
import type { WalletClient } from '../../src/wallet/client';
import { aProfile } from '../support/wallet';
import { aCall, makeCaller, takeAndSettle } from '../support/wallet-calls';

const { DATABASE_URL = '', WALLET_URL = '', KILL_AT = '', ACTION = '', MODE = '' } = process.env;
const DEADLINE_MS = 60_000;

function dieAt(step: string): void {
  if (step === KILL_AT) process.kill(process.pid, 'SIGKILL');
}

const wrapStore = (store: CallStore): CallStore => ({
  ...store,
  async begin(...values) {
    dieAt('before begin');
    const held = await store.begin(...values);
    dieAt('after begin');
    return held;
  },
  async take(...values) {
    const held = await store.take(...values);
    dieAt('after take');
    return held;
  },
  async end(...values) {
    dieAt('before end');
    const isStored = await store.end(...values);
    dieAt('after end');
    return isStored;
  },
});

const wrapClient = (client: WalletClient): WalletClient => ({
  ...client,
  send(...values) {
    const reply = client.send(...values);
    dieAt('at send');
    return reply;
  },
});

async function main(): Promise<void> {
  if (!isWalletAction(ACTION)) throw new Error(`no action ${ACTION}`);
  const { calls } = makeCaller(DATABASE_URL, {
    profiles: [aProfile(WALLET_URL)],
    deadlineMs: DEADLINE_MS,
    wrapStore,
    wrapClient,
  });
  if (MODE === 'start') await calls.start(aCall('op-1', { action: ACTION }));
  else await takeAndSettle(calls);
  console.log('survived');
}

void main();
