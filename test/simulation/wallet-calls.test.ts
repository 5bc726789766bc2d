/**
 * Many seeds of the processes that call a wallet. They are the same each time. WALLET_SEEDS is their number,
 * and WALLET_SEED the first one.
 */
import { type Event, playWalletCalls } from './wallet-world';

const SEEDS = Number(process.env.WALLET_SEEDS ?? 80);
const FIRST = Number(process.env.WALLET_SEED ?? 1);

jest.setTimeout(120_000 + SEEDS * 1_000);

const EVENTS: Readonly<Record<Event, true>> = {
  killed: true,
  'killed with an attempt in flight': true,
  frozen: true,
  'a bet came after its rollback': true,
  'a bet was rolled back': true,
  'a bet was refused after an attempt without an answer': true,
  'a credit was reconciled': true,
  'a call is unresolved': true,
  'an answer came too late to be stored': true,
  'the store lost an answer': true,
};

test('no fault sends a bet after its rollback, leaves a call open, or contradicts the money in the wallet [X1] [O5] [X2] [X3] [X4]', async () => {
  const problems: string[] = [];
  const events = new Set<Event>();
  for (let seed = FIRST; seed < FIRST + SEEDS && problems.length === 0; seed++) {
    const run = await playWalletCalls(seed);
    problems.push(...run.problems);
    for (const event of run.events) events.add(event);
  }
  expect(problems).toEqual([]);
  // Otherwise the seeds prove less than they seem to.
  if (SEEDS >= 80) expect([...events].sort()).toEqual(Object.keys(EVENTS).sort());
});
