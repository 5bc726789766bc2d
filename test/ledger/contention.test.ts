/**
 * Batches that open the same rounds at the same time. After one has made another one's work void, they take
 * turns (R1, U4).
 */

import { sleep } from '../../dev/servers/deadline';
import type { Ledger } from '../../src/ledger/decide-batch';
import { LostRace } from '../../src/ledger/failures';
import { LOCK_TIMEOUT_MS } from '../../src/postgres/transaction';
import { collectGarbage } from '../support/garbage';
import {
  aBet,
  anEnvelope,
  brief,
  decidePart,
  freshStore,
  type TestStore,
  withClient,
} from '../support/ledger';

let store: TestStore;
beforeEach(async () => {
  store = await freshStore();
});
afterEach(() => store.close());

type Batch = Parameters<Ledger['decideBatch']>[0];

/** A writer whose batches all take turns, or never do, with an action before the commit. */
const writer = (contended: boolean, beforeCommit: () => Promise<void> = async () => {}) =>
  store.writer({
    wrap: (ledger) => ({
      ...ledger,
      decideBatch: (batch: Batch) => ledger.decideBatch({ ...batch, contended, beforeCommit }),
    }),
  });

/** A batch of one event that is decided, and commits only when the test allows it. */
async function heldBatch(contended: boolean, event: ReturnType<typeof aBet>) {
  let holds = (): void => {};
  let letGo = (): void => {};
  const held = new Promise<void>((resolve) => {
    holds = resolve;
  });
  const gone = new Promise<void>((resolve) => {
    letGo = resolve;
  });
  const first = writer(contended, async () => {
    holds();
    await gone;
  })
    .partition('acme')
    .read(event);
  await held;
  return { first, letGo };
}

test('a batch that waits for the store keeps none of its events in memory', async () => {
  const events: WeakRef<object>[] = [];
  let sent = (): void => {};
  const writer = store.writer({
    wrap: (ledger) => ({
      ...ledger,
      decideBatch: (batch: Batch) => {
        events.push(...batch.items.map((item) => new WeakRef(item)));
        return ledger.decideBatch({ ...batch, whenSent: { questions: () => sent(), all: () => sent() } });
      },
    }),
  });
  const partition = writer.partition('acme');
  await partition.read(aBet());
  await withClient(store.url, async (client) => {
    // The rows of partitions can be locked, and not changed: their change is the first of the batch.
    await client.query('begin; lock table promo_store.partitions in share mode');
    const isSent = new Promise<void>((resolve) => {
      sent = resolve;
    });
    const reading = partition.read(aBet({ event_id: 'e-2' }));
    await isSent;
    await collectGarbage();
    await client.query('commit');
    expect(await reading).toEqual(['accepted']);
    expect(events.filter((event) => event.deref() !== undefined)).toHaveLength(0);
  });
});

/** Whether each batch of the ledger takes a turn, where some of them lose a race. */
async function turnsOf(batches: number, races: readonly number[]): Promise<boolean[]> {
  const turns: boolean[] = [];
  const worker = store.writer({
    wrap: (ledger) => ({
      ...ledger,
      decideBatch: async ({ items, contended }: Batch) => {
        turns.push(contended === true);
        if (races.includes(turns.length - 1)) throw new LostRace('another writer was first');
        return {
          decisions: items.map(() => ({ type: 'unstored', deadLetter: null, redelivered: false })),
          facts: null,
        };
      },
    }),
  });
  const acme = worker.partition('acme');
  for (let batch = 0; batch < batches; batch++) await acme.read(aBet());
  return turns;
}
const times = (count: number, turn: boolean) => Array.from({ length: count }, () => turn);

test('after a lost race two hundred batches take turns, then batches run without turns again [U4]', async () => {
  expect(await turnsOf(500, [0, 251])).toEqual([
    ...[...times(1, false), ...times(200, true), ...times(51, false)],
    ...[...times(200, true), ...times(50, false)],
  ]);
});

test('a race that is lost while batches take turns restarts the two hundred [U4]', async () => {
  expect(await turnsOf(400, [0, 100])).toEqual([
    ...times(1, false),
    ...times(300, true),
    ...times(101, false),
  ]);
});

test.each([
  ['writes its event', { event_id: 'e', round_id: 'other' }, 'duplicate of accepted, differs'],
  ['opens its round', { event_id: 'f', round_id: 'r' }, 'accepted'],
])(
  'a batch is retried at once where another worker %s first, and takes a turn [U4] [V1]',
  async (_, ours, answer) => {
    const { first, letGo } = await heldBatch(false, aBet({ event_id: 'e', round_id: 'r' }));
    const turns: boolean[] = [];
    const second = store
      .writer({
        wrap: (ledger) => ({
          ...ledger,
          decideBatch: (batch) => {
            turns.push(batch.contended === true);
            return ledger.decideBatch(batch);
          },
        }),
      })
      .partition('acme.second')
      .read(aBet(ours));
    await store.untilOneWaits();
    letGo();
    expect([await first, await second]).toEqual([['accepted'], [answer]]);
    expect(turns).toEqual([false, true]);
  },
);

test('a batch that takes a turn waits for the turns of its feed, and for no other batch [R1] [C3]', async () => {
  const { first, letGo } = await heldBatch(true, aBet({ round_id: 'first' }));
  // Another feed of the operator, and a batch of the same feed that met no race.
  expect(await writer(true).partition('acme.apart').read(aBet())).toEqual(['accepted']);
  expect(
    await writer(false)
      .partition('acme.second')
      .read(aBet({ round_id: 'second' })),
  ).toEqual(['accepted']);

  let isDecided = false;
  const second = writer(true)
    .partition('acme.second', 1)
    .read(aBet({ round_id: 'third' }))
    .finally(() => {
      isDecided = true;
    });
  await sleep(200);
  expect(isDecided).toBe(false);
  letGo();
  expect([await first, await second]).toEqual([['accepted'], ['accepted']]);
});

test.each([
  ['the key of an event, with its writes sent, calls onSent', 1, { event_id: 'e', round_id: 'other' }],
  ['a round, before it is decided, does not call onSent', 0, { event_id: 'f', round_id: 'r' }],
])('a batch that waits for another writer to release %s', async (_, calls, ours) => {
  await store.partition('acme', 1).read(aBet({ round_id: 'r' }));
  const { first, letGo } = await heldBatch(false, aBet({ event_id: 'e', round_id: 'r' }));
  let sent = 0;
  const source = { topic: 'acme.second', partition: 0 };
  const second = decidePart(store.writer().intake, source, [anEnvelope(aBet(ours), 0)], 0, () => {
    sent++;
  });
  await store.untilOneWaits();
  expect(sent).toBe(calls);
  letGo();
  await first;
  expect((await second).undecided).toBeNull();
  expect(sent).toBeGreaterThan(0);
});

test('a batch that fails in its turn passes the turn to the next [U4]', async () => {
  let batches = 0;
  const worker = store.writer({
    wrap: (ledger) => ({
      ...ledger,
      decideBatch: async (batch: Batch) => {
        batches++;
        if (batches === 1) throw new LostRace('another writer was first');
        if (batches === 3) throw new Error('a defect');
        return ledger.decideBatch(batch);
      },
    }),
  });
  expect(await worker.partition('acme', 0).read(aBet())).toEqual(['accepted']);
  expect(await worker.partition('acme', 1).read(aBet())).toEqual(['accepted']);
});

test('a batch that waits for its turn beyond the lock timeout asks again at once, and is decided [U4]', async () => {
  const feedNo = await store.value(`select feed_no from promo_store.feeds where feed_id = 'acme'`);
  await withClient(store.url, async (holder) => {
    await holder.query('begin');
    await holder.query('select promo_store.lock_feeds(array[$1::int])', [feedNo]);
    const decided = writer(true).partition('acme').read(aBet());
    await sleep(LOCK_TIMEOUT_MS + 500);
    await holder.query('commit');
    expect(await decided).toEqual(['accepted']);
  });
});

test('batches of several feeds that take turns never deadlock, whatever the order of their feeds [U4] [C3]', async () => {
  const [operators, rounds] = [['acme-shared', 'bravo-shared'], 10];
  const before = await store.deadlocks();
  for (let n = 0; n < rounds; n++) {
    const results = await Promise.all(
      [0, 1, 2].map((partition) => {
        const inOrder = partition === 1 ? [...operators].reverse() : operators;
        const envelopes = [...inOrder, ...inOrder].map((claim, index) =>
          anEnvelope(aBet({ round_id: `${n}-${index >> 1}` }), n * 4 + index, [claim]),
        );
        return decidePart(writer(true).intake, { topic: 'shared', partition }, envelopes);
      }),
    );
    expect(results.map(({ undecided }) => undecided)).toEqual([null, null, null]);
    expect(results.flatMap(({ answers }) => answers.map(brief))).toEqual(
      Array.from({ length: 12 }, () => 'accepted'),
    );
  }
  expect(await store.rows('select feed_id, count(*) from promo.verdicts group by 1 order by 1')).toEqual([
    ['acme', String(rounds * 6)],
    ['bravo', String(rounds * 6)],
  ]);
  // A batch that loses is decided again, and is not counted here.
  expect(await store.deadlocks()).toBe(before);
});

test('partitions that share all rounds decide all events, and each round has one result [R1] [U4]', async () => {
  // A prime number, so that each partition goes through all rounds in a step of its own.
  const [partitions, batches, rounds] = [4, 5, 23];
  const undecided: string[] = [];
  await Promise.all(
    Array.from({ length: partitions }, async (_, n) => {
      const partition = store.writer().partition('acme', n);
      for (let batch = 0; batch < batches; batch++) {
        const bets = Array.from({ length: rounds }, (_round, i) =>
          aBet({
            event_id: `${n}-${batch}-${i}`,
            round_id: `${batch}-${(i * (2 * n + 1)) % rounds}`,
            amount: '1.00',
          }),
        );
        const result = await partition.attempt(batch * rounds, bets);
        if (result.undecided !== null) undecided.push(result.undecided.message);
      }
    }),
  );
  expect(undecided).toEqual([]);
  const events = partitions * batches * rounds;
  expect(await store.value(`select count(*) from promo.verdicts where verdict = 'accepted'`)).toBe(
    String(events),
  );
  expect(await store.value('select sum(records_read) from promo.partitions')).toBe(String(events));
  expect(await store.value('select sum(redeliveries) from promo.partitions')).toBe('0');
  expect(await store.rows('select distinct net_bet_minor from promo.rounds')).toEqual([
    [String(partitions * 100)],
  ]);
  expect(await store.value('select count(*) from promo.rounds')).toBe(String(batches * rounds));
});
