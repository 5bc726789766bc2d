/** A store that is far away: a large batch takes one round trip less, and reports its first questions. */

import { startDelayProxy } from '../../dev/bench/delay-line';
import { makeIntake } from '../../src/intake/intake';
import { makeLedger } from '../../src/ledger/decide-batch';
import { makeReferences } from '../../src/ledger/reference-store';
import { makePool } from '../../src/postgres/pool';
import type { Store } from '../../src/postgres/transaction';
import { makeLogger } from '../../src/telemetry/logger';
import { aBet, anEnvelope, aSettled, brief, freshStore, type TestStore } from '../support/ledger';
import { makeTimerAlarm } from '../support/timer-alarm';

/** Every batch of more events is large. */
const FEW_EVENTS = 0;
const CONNECTIONS_TRIED = 20;

let store: TestStore;
beforeEach(async () => {
  store = await freshStore();
});
afterEach(() => store.close());

/** A pool over a line that delays each direction, and the way of one large batch through it. */
async function decideOver(delayMs: number) {
  const direct = new URL(store.url);
  const proxy = await startDelayProxy(
    { host: direct.hostname, port: Number(direct.port || 5432), delayMs },
    makeTimerAlarm,
  );
  const address = new URL(store.url);
  address.host = `127.0.0.1:${proxy.port}`;
  const logger = makeLogger('silent');
  const pool = makePool(
    { databaseUrl: address.href, maxConnections: 2, applicationName: 'promo-test-far' },
    logger,
  );
  const before = pool.isFar;
  const steps: string[] = [];
  const watched: Store = {
    get isFar() {
      return pool.isFar;
    },
    async acquire() {
      const connection = await pool.acquire();
      return {
        begin: () => connection.begin(),
        async query(statement, values) {
          steps.push(statement.name);
          const rows = await connection.query(statement, values);
          steps.push(`${statement.name} is answered`);
          return rows;
        },
        write: (writes) => connection.write(writes),
        release: (isClean) => connection.release(isClean),
      };
    },
  };
  try {
    // A busy machine may delay the first answers of a near store.
    for (let tried = 0; tried < CONNECTIONS_TRIED && (tried === 0 || pool.isFar); tried++)
      (await pool.acquire()).release(false);
    const intake = makeIntake({
      ledger: makeLedger(watched, { fewEvents: FEW_EVENTS }),
      references: makeReferences(store.pool),
      logger,
      now: () => performance.now(),
    });
    const envelopes = [aBet(), aSettled({ event_id: 's-1' })].map((event, offset) =>
      anEnvelope(event, offset),
    );
    const part = { origin: { topic: 'acme', partition: 0 }, envelopes, expectedUpTo: 0 };
    const [result] = await intake.decide([part], {
      questions: () => steps.push('questions sent'),
      all: () => steps.push('all sent'),
    });
    return { before, isFar: pool.isFar, steps, answers: result?.answers.map(brief) };
  } finally {
    await pool.end();
    await proxy.close();
  }
}

test('a batch locks its rounds with its first questions, and reports that they are sent', async () => {
  const { before, isFar, steps, answers } = await decideOver(5);
  expect([before, isFar]).toEqual([false, true]);
  expect(answers).toEqual(['accepted', 'accepted']);
  const asked = steps.indexOf('questions sent');
  expect(steps.indexOf('lock_rounds')).toBeGreaterThan(0);
  expect(steps.indexOf('lock_rounds')).toBeLessThan(asked);
  expect(asked).toBeLessThan(steps.indexOf('lock_partitions is answered'));
  expect(steps.at(-1)).not.toBe('questions sent');
  expect(steps.filter((step) => step === 'all sent')).toHaveLength(1);
});

test('a batch near the store locks its rounds once the decided events are known, and reports its writes alone', async () => {
  const { isFar, steps, answers } = await decideOver(0);
  expect(isFar).toBe(false);
  expect(answers).toEqual(['accepted', 'accepted']);
  expect(steps.indexOf('lock_rounds')).toBeGreaterThan(steps.indexOf('find_events is answered'));
  expect(steps.filter((step) => step.endsWith(' sent'))).toEqual(['all sent']);
});
