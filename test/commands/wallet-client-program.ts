/**
 * Sends one attempt to a wallet, and prints its reply: see wallet-authority.test.ts. It is a process of its
 * own, since Node reads its authorities at its start.
 */

import { makeWalletClient } from '../../src/wallet/client';
import { aProfile } from '../support/wallet';

async function main(): Promise<void> {
  const { send } = makeWalletClient(aProfile(process.env.WALLET_URL ?? ''), {
    secret: () => Buffer.from('key'),
    wallNow: () => Date.now(),
    monotonicNow: () => performance.now(),
  });
  const { reply, networkCode } = await send({
    action: 'debit',
    opId: 'op-1',
    requestId: 'r-1',
    payload: '{"meta":{"op_id":"op-1"}}',
  });
  console.log(reply.type === 'http' ? `HTTP ${reply.status}` : `${reply.cause}: ${networkCode}`);
}

void main();
