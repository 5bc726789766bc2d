/** Batches of several partitions in one transaction: each counts, fails and is read again as if it were alone (R1, U3, U4, D2, D3). */
import { makeRandom } from '../../dev/random';
import type { Envelope, IntakeResult } from '../../src/intake';
import { LettersRefused } from '../../src/intake';
import type { Ledger } from '../../src/ledger/ledger';
import {
  aBet,
  anEnvelope,
  aRefund,
  aWin,
  brief,
  type Content,
  freshStore,
  type TestStore,
  type Writer,
} from '../support/ledger';

let store: TestStore;
beforeEach(async () => {
  store = await freshStore();
});
afterEach(() => store.close());

type Part = readonly [partition: number, contents: readonly Content[], from?: number];

const envelopesOf = (contents: readonly Content[], from = 0): Envelope[] =>
  contents.map((content, index) => anEnvelope(content, from + index));

function together(writer: Writer, ...parts: readonly Part[]): Promise<readonly IntakeResult[]> {
  return writer.intake.decideTogether(
    parts.map(([partition, contents, from = 0]) => ({
      origin: { topic: 'acme', partition },
      envelopes: envelopesOf(contents, from),
      expectedUpTo: from,
    })),
    () => {},
  );
}

/** Answers in short; what stays undecided by the name of its error. */
const inShort = (results: readonly IntakeResult[]) =>
  results.map(({ answers, undecided }) => [
    ...answers.map(brief),
    ...(undecided === null ? [] : [undecided.name]),
  ]);

/** Records of a topic that two operators share: whose they are stands in their header. */
const claimed = (eventId: string, offset: number) =>
  anEnvelope(aBet({ event_id: eventId }), offset, ['acme-shared']);
const UNCLAIMED = anEnvelope(aBet(), 1, ['nobody']);

/** A writer, with the sizes of its transactions by partition. */
function watched(options: Parameters<TestStore['writer']>[0] = {}) {
  const transactions: number[][] = [];
  const writer = store.writer({
    ...options,
    wrap: (ledger): Ledger => ({
      ...ledger,
      decideBatch(batch) {
        transactions.push(batch.parts.map(({ records }) => records));
        return ledger.decideBatch(batch);
      },
    }),
  });
  return { writer, transactions };
}

test('events of a round that come by several partitions are decided in one transaction, and their round is written once [R1]', async () => {
  const { writer, transactions } = watched();
  const results = await together(
    writer,
    [2, [aBet({ event_id: 'a', amount: '2.00' })]],
    [0, [aWin({ event_id: 'b', amount: '5.00' }), aRefund({ event_id: 'c', amount: '2.00' })]],
    [1, [aBet({ event_id: 'a', amount: '2.00' })]],
  );
  expect(inShort(results)).toEqual([['accepted'], ['accepted', 'accepted'], ['duplicate of accepted']]);
  expect(transactions).toEqual([[1, 2, 1]]);
  // Where the first version of its row stands: it was never updated.
  expect(await store.rows('select ctid, count(*) over () from promo_store.rounds')).toEqual([['(0,1)', '1']]);
  expect(await store.value('select net_bet_minor from promo.rounds')).toBe('0');
  expect(await store.balance('acme', 0)).toEqual({ records_read: 2, accepted: 2 });
  expect(await store.balance('acme', 1)).toEqual({ records_read: 1, duplicate_deliveries: 1 });
  expect(await store.balance('acme', 2)).toEqual({ records_read: 1, accepted: 1 });
});

test('what is read again of one of them is a redelivery of that one, and of no other [K3] [D3]', async () => {
  const writer = store.writer();
  const first: Part = [0, [aBet({ event_id: 'a' }), aBet({ event_id: 'a' }), {}]];
  await together(writer, first, [1, [aBet({ event_id: 'b' })]]);
  expect(inShort(await together(writer, first, [1, [aBet({ event_id: 'a' }), {}], 1]))).toEqual([
    ['accepted, again', 'duplicate of accepted, again', 'without key, again'],
    ['duplicate of accepted', 'without key'],
  ]);
  expect(await store.balance('acme', 0)).toEqual({
    ...{ records_read: 6, accepted: 1, duplicate_deliveries: 1 },
    ...{ redeliveries: 3, events_without_key: 1 },
  });
  expect(await store.balance('acme', 1)).toEqual({
    ...{ records_read: 3, accepted: 1, duplicate_deliveries: 1, events_without_key: 1 },
  });
});

test('a store that has lost what it had decided of one has lost nothing of the others: these are decided [U1] [U3]', async () => {
  const writer = store.writer();
  await together(writer, [0, [aBet({ event_id: 'a' })]], [1, [aBet({ event_id: 'b' })]]);
  expect(
    inShort(await together(writer, [0, [aBet({ event_id: 'c' })], 1], [1, [aBet({ event_id: 'd' })], 3])),
  ).toEqual([['accepted'], ['StoreBehind']]);
  expect(await store.balance('acme', 1)).toEqual({ records_read: 1, accepted: 1 });
});

test('a dead letter that is refused holds up its own partition, from there on [S6] [U3]', async () => {
  const writer = store.writer({
    sendDeadLetters: async (letters) => {
      throw new LettersRefused('too large', letters);
    },
  });
  const results = await writer.intake.decideTogether(
    [
      { origin: { topic: 'shared', partition: 0 }, envelopes: [claimed('a', 0)] },
      {
        origin: { topic: 'shared', partition: 1 },
        envelopes: [claimed('b', 0), UNCLAIMED, claimed('c', 2)],
      },
    ],
    () => {},
  );
  expect(inShort(results)).toEqual([['accepted'], ['accepted', 'DeadLetterRefused']]);
});

test('dead letters of all of them are sent before any of them is decided, each with its place [S5]', async () => {
  const decidedBefore: (string | null)[] = [];
  const sent: string[] = [];
  const writer = store.writer({
    sendDeadLetters: async (letters) => {
      decidedBefore.push(await store.value('select count(*) from promo_store.event_keys'));
      sent.push(
        ...letters.map(({ source, envelope, reason }) => `${source.partition}/${envelope.offset} ${reason}`),
      );
    },
  });
  await writer.intake.decideTogether(
    [0, 1].map((partition) => ({
      origin: { topic: 'shared', partition },
      envelopes: [claimed(`${partition}`, 0), UNCLAIMED],
    })),
    () => {},
  );
  expect([decidedBefore, sent]).toEqual([['0'], ['0/1 unclaimed', '1/1 unclaimed']]);
});

test('an event that fails by itself is a panic, and all others are decided [V9] [U3]', async () => {
  const poison = aBet({ event_id: 'poison' });
  const writer = store.writer({
    wrap: (ledger) => ({
      ...ledger,
      decideBatch(batch) {
        const meets = batch.items.some((item) => item.type === 'keyed' && item.fields.amountMinor === 666n);
        if (meets) throw new TypeError('a defect');
        return ledger.decideBatch(batch);
      },
    }),
  });
  const results = await together(
    writer,
    [0, [aBet({ event_id: 'a' }), { ...poison, amount: '6.66' }, aBet({ event_id: 'b' })]],
    [1, [aBet({ event_id: 'c' })]],
  );
  expect(inShort(results)).toEqual([['accepted', 'rejected/panic', 'accepted'], ['accepted']]);
});

test('where the store takes nothing none of them is tried by itself [U2]', async () => {
  const { writer, transactions } = watched();
  await store.rows('alter table promo_store.event_keys rename to elsewhere');
  const results = await together(writer, [0, [aBet()]], [1, [aBet()]]);
  await store.rows('alter table promo_store.elsewhere rename to event_keys');
  expect(inShort(results)).toEqual([['StoreError'], ['StoreError']]);
  expect(transactions).toEqual([[1, 1]]);
});

test('writers that decide the same partitions together, in whatever order, never deadlock, and decide each event once [U4] [C3]', async () => {
  const random = makeRandom(11);
  const [writers, partitions, batches] = [3, 4, 12];
  const before = await store.deadlocks();
  const undecided: (string | undefined)[] = [];
  await Promise.all(
    Array.from({ length: writers }, async () => {
      const writer = store.writer();
      for (let batch = 0; batch < batches; batch++) {
        const order = random.shuffled(Array.from({ length: partitions }, (_, partition) => partition));
        const results = await together(
          writer,
          ...order.map(
            (partition): Part => [
              partition,
              [0, 1, 2].map((n) =>
                aBet({ event_id: `${partition}-${batch}-${n}`, round_id: `${batch}-${n}`, amount: '1.00' }),
              ),
              batch * 3,
            ],
          ),
        );
        undecided.push(...results.map((result) => result.undecided?.message).filter(Boolean));
      }
    }),
  );
  expect(undecided).toEqual([]);
  const events = partitions * batches * 3;
  expect(await store.value('select count(*) from promo.verdicts')).toBe(String(events));
  expect(await store.value('select sum(records_read) from promo.partitions')).toBe(String(events * writers));
  expect(await store.value('select sum(redeliveries) from promo.partitions')).toBe(
    String(events * (writers - 1)),
  );
  expect(await store.rows('select distinct net_bet_minor from promo.rounds')).toEqual([
    [String(partitions * 100)],
  ]);
  expect(await store.deadlocks()).toBe(before);
});
