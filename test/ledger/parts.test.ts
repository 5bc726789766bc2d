/** Batches that hold records of several partitions: one transaction, and no partition stops another. */

import type { Envelope, Section } from '../../src/intake/delivery';
import { makeRejectLimit } from '../../src/intake/reject-limit';
import { LettersRefused, PayloadUnavailable } from '../../src/intake/undecided';
import type { TopicPartition } from '../../src/lib/topic-partition';
import { makeLogger } from '../../src/telemetry/logger';
import {
  aBet,
  aLogin,
  anEnvelope,
  aWin,
  brief,
  type Content,
  freshStore,
  type TestStore,
  type Writer,
  withClient,
} from '../support/ledger';

let store: TestStore;
beforeEach(async () => {
  store = await freshStore();
});
afterEach(() => store.close());

/** A part of records from offset 0 on. */
function part(
  topic: string,
  partition: number,
  contents: readonly (Content | Envelope)[],
): Section<TopicPartition> {
  const isEnvelope = (content: Content | Envelope): content is Envelope =>
    content !== null && typeof content === 'object' && 'payload' in content && 'offset' in content;
  return {
    origin: { topic, partition },
    envelopes: contents.map((content, offset) =>
      isEnvelope(content) ? content : anEnvelope(content, offset),
    ),
    expectedUpTo: 0,
  };
}

/** The answers to each part in short, and the name of the error that keeps its rest undecided. */
async function decide(
  worker: Writer,
  ...parts: readonly Section<TopicPartition>[]
): Promise<(readonly string[])[]> {
  const results = await worker.intake.decide(parts);
  return results.map(({ answers, undecided }) => [
    ...answers.map(brief),
    ...(undecided === null ? [] : [undecided.name]),
  ]);
}

function fail(cause: string): never {
  throw new Error(`no cause ${cause}`);
}

const notNow = (offset: number): Envelope => ({
  ...anEnvelope(aBet(), offset),
  payload: { type: 'unavailable', error: new Error('the registry does not answer') },
});

describe('a batch of several partitions', () => {
  test('is decided in one transaction, and each partition is counted [D2] [D3]', async () => {
    const results = await decide(
      store.writer(),
      part('acme', 1, [aBet({ event_id: 'b1', round_id: 'r1' }), aBet({ event_id: 'b2' })]),
      part('acme.second', 0, [aWin({ event_id: 'w1', round_id: 'r1' }), aBet({ event_id: 'b1' })]),
      part('acme', 0, [{ no: 'id' }]),
    );
    expect(results).toEqual([
      ['accepted', 'accepted'],
      ['accepted', 'duplicate of accepted, differs'],
      ['without key'],
    ]);
    expect(await store.value('select count(distinct verdict_id / 8192) from promo_store.history')).toBe('1');
    expect(
      await store.value(
        "select count(distinct round_no) from promo_store.history where event_id in ('b1', 'w1')",
      ),
    ).toBe('1');
    expect(await store.balance('acme', 1)).toEqual({ records_read: 2, accepted: 2 });
    expect(await store.balance('acme.second')).toEqual({
      records_read: 2,
      accepted: 1,
      duplicate_deliveries: 1,
    });
    expect(await store.balance('acme')).toEqual({ records_read: 1, events_without_key: 1 });
  });

  test('answers records that are read again as before, in each partition [K3]', async () => {
    const parts = [
      part('acme', 1, [aBet({ event_id: 'b1' }), aBet({ event_id: 'b1' }), null]),
      part('acme', 0, [aBet({ event_id: 'b1' }), { no: 'id' }]),
    ];
    const worker = store.writer();
    expect(await decide(worker, ...parts)).toEqual([
      ['accepted', 'duplicate of accepted', 'without key'],
      ['duplicate of accepted', 'without key'],
    ]);
    expect(await decide(worker, ...parts)).toEqual([
      ['accepted, again', 'duplicate of accepted, again', 'without key, again'],
      ['duplicate of accepted, again', 'without key, again'],
    ]);
  });

  test('keeps the offsets of each partition apart, and notices a log that begins again [U1] [D3]', async () => {
    const at = (partition: number, offset: number, expectedUpTo: number): Section<TopicPartition> => ({
      origin: { topic: 'acme', partition },
      envelopes: [anEnvelope(aLogin(), offset), anEnvelope(aLogin(), offset + 1)],
      expectedUpTo,
    });
    const offsets = () =>
      store.rows(
        'select partition, next_offset, coalesce(decided_up_to, next_offset) from promo_store.partitions order by 1',
      );
    const worker = store.writer();
    await decide(worker, at(2, 7, 0), at(0, 100, 0), at(1, 0, 0));
    expect(await offsets()).toEqual([
      ['0', '102', '102'],
      ['1', '2', '2'],
      ['2', '9', '9'],
    ]);
    // The topic of partition 2 alone was deleted and created again.
    await decide(worker, at(0, 102, 102), at(2, 0, 0), at(1, 2, 2));
    expect(await offsets()).toEqual([
      ['0', '104', '104'],
      ['1', '4', '4'],
      ['2', '9', '2'],
    ]);
  });

  test('is decided behind a partition that another worker has decided further [K3] [D2]', async () => {
    const contents = [aLogin({ event_id: 'l0' }), aLogin({ event_id: 'l1' }), aLogin({ event_id: 'l0' })];
    await decide(store.writer(), part('acme', 0, contents));
    expect(await decide(store.writer(), part('acme', 1, [aLogin()]), part('acme', 0, contents))).toEqual([
      ['accepted'],
      ['accepted, again', 'accepted, again', 'duplicate of accepted, again'],
    ]);
    expect(
      await store.rows('select partition, next_offset, decided_up_to from promo_store.partitions order by 1'),
    ).toEqual([
      ['0', '3', null],
      ['1', '1', null],
    ]);
  });

  test('sends dead letters with the coordinates of their own partition [S5]', async () => {
    await decide(
      store.writer(),
      part('acme', 0, [aBet()]),
      part('nobody', 0, [aBet()]),
      part('acme', 1, [aBet()]),
      part('nobody', 3, [aBet(), aBet()]),
    );
    expect(store.deadLetters.map(({ source, envelope }) => ({ ...source, offset: envelope.offset }))).toEqual(
      [
        expect.objectContaining({ topic: 'nobody', partition: 0, offset: 0 }),
        expect.objectContaining({ topic: 'nobody', partition: 3, offset: 0 }),
        expect.objectContaining({ topic: 'nobody', partition: 3, offset: 1 }),
      ],
    );
  });

  test('counts the rejected events of each topic by itself [U7]', async () => {
    const limit = { percent: 50, windowEvents: 10, minEvents: 4 };
    const worker = store.writer({ rejectLimit: makeRejectLimit(limit, makeLogger('silent')) });
    const bad = () => aBet({ spec: 'other' });
    const good = () => aBet({ brand: 'main' });
    expect(
      await decide(
        worker,
        part('acme', 0, [bad()]),
        part('bravo', 0, [good(), good(), good(), good()]),
        part('acme', 1, [good()]),
      ),
    ).toEqual([['rejected/malformed'], ['accepted', 'accepted', 'accepted', 'accepted'], ['accepted']]);
    expect(await decide(worker, part('acme', 2, [bad(), bad()]))).toEqual([['TopicPaused']]);
  });

  const bad = () => aBet({ spec: 'other' });
  const refusing = (isRefused: (offset: number) => boolean) =>
    store.writer({
      async sendDeadLetters(letters) {
        const refused = letters.filter(({ envelope }) => isRefused(envelope.offset));
        if (refused.length > 0) throw new LettersRefused('too large', refused);
      },
    });

  /** A worker with a cause of trouble, the part that is in trouble, and its answers. */
  const CAUSES: Readonly<
    Record<string, () => { worker: Writer; troubled: Section<TopicPartition>; answers: readonly string[] }>
  > = {
    'the store has lost decisions of a partition [U1]': () => ({
      worker: store.writer(),
      troubled: { ...part('acme', 1, [aBet()]), expectedUpTo: 5 },
      answers: ['StoreBehind'],
    }),
    'the records in front of a part are undecided [D2]': () => ({
      worker: store.writer(),
      troubled: { ...part('acme', 1, [aBet()]), front: Promise.reject(new PayloadUnavailable()) },
      answers: ['PayloadUnavailable'],
    }),
    'a record cannot be decoded now [S3]': () => ({
      worker: store.writer(),
      troubled: part('acme', 1, [aBet(), notNow(1), aBet()]),
      answers: ['accepted', 'PayloadUnavailable'],
    }),
    'a dead letter is refused [S6]': () => ({
      worker: refusing((offset) => offset === 1),
      troubled: part('nobody', 0, [aBet(), aBet(), aBet()]),
      answers: ['dead letter unclaimed', 'DeadLetterRefused'],
    }),
    'all dead letters are refused [S6]': () => ({
      worker: refusing(() => true),
      troubled: part('shared', 0, [aBet()]),
      answers: ['DeadLetterRefused'],
    }),
    'a topic is to be paused [U7]': () => ({
      worker: store.writer({
        rejectLimit: makeRejectLimit({ percent: 50, windowEvents: 10, minEvents: 2 }, makeLogger('silent')),
      }),
      troubled: part('bravo', 0, [bad(), bad()]),
      answers: ['TopicPaused'],
    }),
    'an event fails alone [V9]': () => ({
      worker: store.writer({
        wrap: (ledger) => ({
          ...ledger,
          async decideBatch(batch) {
            const isFailing = batch.items.some((item) => item.type === 'keyed' && item.eventId === 'fails');
            if (isFailing && batch.panic === undefined) throw new TypeError('a defect');
            return ledger.decideBatch(batch);
          },
        }),
      }),
      troubled: part('acme', 1, [aBet(), aBet({ event_id: 'fails' }), aBet()]),
      answers: ['accepted', 'rejected/panic', 'accepted'],
    }),
  };

  test.each(Object.keys(CAUSES))('is decided at once but for its trouble where %s [U3]', async (cause) => {
    const { worker, troubled, answers } = CAUSES[cause]?.() ?? fail(cause);
    const results = await decide(
      worker,
      part('acme', 0, [aBet({ event_id: 'b1' })]),
      troubled,
      part('acme', 2, [aBet({ event_id: 'b2' }), aLogin()]),
    );
    expect(results).toEqual([['accepted'], answers, ['accepted', 'accepted']]);
    const { topic, partition } = troubled.origin;
    const decided = answers.filter((answer) => !/^[A-Z]/.test(answer)).length;
    expect((await store.balance(topic, partition))?.records_read ?? 0).toBe(decided);
  });

  test('is decided but for all troubles at once, each with its own reason [U3]', async () => {
    const sent: number[] = [];
    const worker = store.writer({
      async sendDeadLetters(letters) {
        sent.push(letters.length);
        throw new Error('the topic does not answer');
      },
    });
    expect(
      await decide(
        worker,
        part('nobody', 0, [aBet(), aBet()]),
        part('acme', 0, [aBet(), notNow(1)]),
        { ...part('acme', 1, [aBet()]), expectedUpTo: 5 },
        part('acme', 2, [aBet()]),
        part('nobody', 1, [aBet()]),
        { ...part('acme', 3, [aBet()]), expectedUpTo: 7 },
      ),
    ).toEqual([
      ['DeadLetterRefused'],
      ['accepted', 'PayloadUnavailable'],
      ['StoreBehind'],
      ['accepted'],
      ['DeadLetterRefused'],
      ['StoreBehind'],
    ]);
    expect(sent).toEqual([3]);
  });

  test('is decided without all partitions that the store is behind in, in one further attempt [U1] [U3]', async () => {
    let attempts = 0;
    const worker = store.writer({
      wrap: (ledger) => ({
        ...ledger,
        decideBatch: (batch) => {
          attempts++;
          return ledger.decideBatch(batch);
        },
      }),
    });
    const behind = (partition: number) => ({ ...part('acme', partition, [aBet()]), expectedUpTo: partition });
    const parts = [behind(1), part('acme', 0, [aBet()]), behind(2), behind(3), behind(4)];
    expect(await decide(worker, ...parts)).toEqual([
      ['StoreBehind'],
      ['accepted'],
      ['StoreBehind'],
      ['StoreBehind'],
      ['StoreBehind'],
    ]);
    expect(attempts).toBe(2);
  });

  test('is left to its partitions where nothing shows which one is in trouble [U3]', async () => {
    const worker = store.writer();
    await withClient(store.url, async (foreign) => {
      await decide(worker, part('acme', 0, [aBet({ round_id: 'held' })]));
      await foreign.query('begin');
      await foreign.query("select from promo_store.rounds where round_id = 'held' for update");
      const parts = [part('acme', 1, [aBet({ round_id: 'held' })]), part('acme', 2, [aBet()])];
      expect(await decide(worker, ...parts)).toEqual([['NotTogether'], ['NotTogether']]);
      await foreign.query('commit');
    });
  });

  test('is undecided as a whole where the store refuses every transaction [U2]', async () => {
    const worker = store.writer({ maxConnections: 1 });
    await worker.pool.query('set default_transaction_read_only = on');
    const parts = [part('acme', 0, [aBet()]), part('acme', 1, [aBet()])];
    expect(await decide(worker, ...parts)).toEqual([['StoreError'], ['StoreError']]);
  });

  test('locks its partitions in one order, so that two workers with the same ones do not deadlock [U4]', async () => {
    const contents = Array.from({ length: 20 }, (_, index) => aBet({ event_id: `b${index}` }));
    const parts = [0, 1, 2, 3].map((partition) => part('acme', partition, contents));
    const [one, other] = [store.writer(), store.writer()];
    for (let times = 0; times < 10; times++)
      await Promise.all([one.intake.decide(parts), other.intake.decide(parts.toReversed())]);
    expect(await store.deadlocks()).toBe(0);
    expect(await store.value('select count(*) from promo.verdicts')).toBe('20');
  });

  test('waits for a partition that another transaction holds, and reads it as that one leaves it [D2]', async () => {
    const worker = store.writer();
    await decide(worker, part('acme', 0, [aBet()]), part('acme', 1, [aBet()]));
    await withClient(store.url, async (foreign) => {
      await foreign.query('begin');
      await foreign.query(
        "update promo_store.partitions set decided_up_to = 0 where topic = 'acme' and partition = 1",
      );
      const deciding = decide(
        worker,
        { ...part('acme', 1, []), envelopes: [anEnvelope(aBet(), 1)], expectedUpTo: 1 },
        { ...part('acme', 0, []), envelopes: [anEnvelope(aBet(), 1)], expectedUpTo: 1 },
      );
      await store.untilOneWaits();
      await foreign.query('commit');
      expect(await deciding).toEqual([['StoreBehind'], ['accepted']]);
    });
  });
});
