/**
 * One of several processes that begin and resume calls of a wallet until they are killed: see
 * wallet-crew.test.ts. By its seed it also kills itself, at a step of an attempt.
 */
import { makeRandom } from '../../dev/random';
import { NEVER, systemClock } from '../../src/lib/clock';
import { messageOf } from '../../src/lib/errors';
import { POLICY_TERMS } from '../../src/wallet/policy';
import { aProfile, PLAYER } from '../support/wallet';
import { aCall, CREW, makeCaller } from '../support/wallet-calls';

const { DATABASE_URL = '', WALLET_URL = '', SEED = '', NAME = '', CALLS = '' } = process.env;
const random = makeRandom(Number(SEED));
/** The step at which this process kills itself, counted over all of its attempts. */
const lastStep = random.between(4, 40);
let steps = 0;

/** A step of an attempt: the process may end before it, or right after it. */
function step(): void {
  if (CALLS !== '0' && ++steps === lastStep) process.kill(process.pid, 'SIGKILL');
}

async function between<T>(work: () => Promise<T>): Promise<T> {
  step();
  const result = await work();
  step();
  return result;
}

const { calls } = makeCaller(DATABASE_URL, {
  profiles: [aProfile(WALLET_URL, { ts: 'unix_ms', connections: 20 })],
  deadlineMs: CREW.deadlineMs,
  leaseMs: CREW.leaseMs,
  terms: { ...POLICY_TERMS, ...CREW.terms },
  wrapStore: (store) => ({
    begin: (...values) => between(() => store.begin(...values)),
    take: async (...values) => {
      const held = await store.take(...values);
      if (held.length > 0) step();
      return held;
    },
    end: (...values) => between(() => store.end(...values)),
    find: store.find,
  }),
  wrapClient: (client) => ({
    ...client,
    send(...values) {
      const reply = client.send(...values);
      step();
      return reply;
    },
  }),
});

async function main(): Promise<void> {
  void calls.run(NEVER);
  console.log('started');
  for (let n = 0; n < Number(CALLS); n++) {
    const action = random.pick(['debit', 'debit', 'credit'] as const);
    const values = { player: PLAYER, amount: String(random.between(1, 9)) };
    try {
      await calls.start(aCall(`${NAME}-${n}`, { action, values }));
    } catch (error) {
      console.error(messageOf(error));
    }
    await systemClock.sleep(random.between(1, 60), NEVER);
  }
}

void main();
