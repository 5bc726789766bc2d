/** An event is decided once, however often and by whichever way it comes. */
import { LettersRefused } from '../../src/intake/undecided';
import { readDecidedUpTo } from '../../src/ledger/partition-state';
import {
  aBet,
  aDeposit,
  aLogin,
  anEnvelope,
  aRefund,
  aSettled,
  aWin,
  brief,
  decidePart,
  freshStore,
  type TestStore,
  withClient,
} from '../support/ledger';

/** The number of the lock at which two batches meet. */
const MEETING = 7_302_118_446;

let store: TestStore;
beforeEach(async () => {
  store = await freshStore();
});
afterEach(() => store.close());

const deliveries = () =>
  store.rows(
    `select feed_id, event_id, connection_id, content_differs, first_verdict, first_reason, source_topic, source_partition, source_offset
     from promo.deliveries order by source_topic, source_offset`,
  );

const verdicts = () =>
  store.rows('select feed_id, event_id, verdict, connection_id from promo.verdicts order by verdict_id');

describe('duplicates', () => {
  test('an event twice in one batch is decided once and stored as one further delivery [V1] [K1]', async () => {
    const bet = aBet({ event_id: 'e' });

    expect(await store.partition('acme').read(bet, bet)).toEqual(['accepted', 'duplicate of accepted']);

    expect(await verdicts()).toEqual([['acme', 'e', 'accepted', 'acme-stream']]);
    expect(await deliveries()).toEqual([
      ['acme', 'e', 'acme-stream', 'f', 'accepted', null, 'acme', '0', '1'],
    ]);
    expect(await store.balance('acme')).toEqual({ records_read: 2, accepted: 1, duplicate_deliveries: 1 });
    expect(await store.value('select sum(amount_minor) from promo.ledger')).toBe('1050');
  });

  test('an event that comes again in a later batch is a duplicate, and changes nothing [V1]', async () => {
    const partition = store.partition('acme');
    const bet = aBet({ event_id: 'e' });
    await partition.read(bet);

    expect(await partition.read(bet)).toEqual(['duplicate of accepted']);

    expect(await store.value('select bet_minor from promo_store.rounds')).toBe('1050');
    expect(await store.balance('acme')).toEqual({ records_read: 2, accepted: 1, duplicate_deliveries: 1 });
  });

  test('an event that comes to another worker is a duplicate [V1] [K1]', async () => {
    const bet = aBet({ event_id: 'e' });
    await store.partition('acme', 0).read(bet);

    expect(await store.writer().partition('acme', 1).read(bet)).toEqual(['duplicate of accepted']);
  });

  test('an event that comes by another connection of the feed is a duplicate there [V1] [R9]', async () => {
    await store.partition('acme').read(aBet({ event_id: 'e' }));

    expect(await store.partition('acme.second').read(aBet({ event_id: 'e' }))).toEqual([
      'duplicate of accepted',
    ]);

    expect(await verdicts()).toEqual([['acme', 'e', 'accepted', 'acme-stream']]);
    expect((await deliveries()).map((row) => row[2])).toEqual(['acme-second']);
  });

  test('two workers that race for one event decide it once, and the other delivery is a duplicate [V1] [U4]', async () => {
    const [left, right] = [store.writer(), store.writer()];
    for (let round = 0; round < 10; round++) {
      const events = Array.from({ length: 20 }, (_, i) =>
        aBet({ event_id: `race-${round}-${i}`, round_id: `r-${i % 3}` }),
      );
      const answers = await Promise.all([
        left.partition('acme', 0).readAt(round * 20, ...events),
        right.partition('acme.second', 0).readAt(round * 20, ...events.toReversed()),
      ]);
      expect(answers.flat().filter((answer) => answer === 'accepted')).toHaveLength(20);
      expect(answers.flat().filter((answer) => answer === 'duplicate of accepted')).toHaveLength(20);
    }
    expect(await store.value('select count(*) from promo.verdicts')).toBe('200');
    expect(await store.value('select count(*) from promo.deliveries')).toBe('200');
  });

  test.each([
    ['events', 'event_keys', () => aDeposit()],
    ['rounds', 'rounds', (i: number) => aBet({ round_id: `r-${i}` })],
  ])(
    'two workers that meet the same %s in opposite orders never deadlock [V1] [U4] [R1]',
    async (_, table, event) => {
      const before = await store.deadlocks();
      // Both wait at their first row for one another. Then they are slow enough to meet in the middle.
      await store.pool.query(`
      create function slow() returns trigger language plpgsql as $$ begin
        perform pg_advisory_xact_lock_shared(${MEETING}); perform pg_sleep(0.005); return new; end $$;
      create trigger slow before insert on promo_store.${table} for each row execute function slow()`);
      const workers = [store.writer(), store.writer()];
      const [left, right] = workers.map((worker, n) => worker.partition('acme', n));
      await Promise.all([left?.read(null), right?.read(null)]);
      const events = Array.from({ length: 40 }, (_, i) => event(i));

      const answers = await withClient(store.url, async (client) => {
        await client.query('select pg_advisory_lock($1)', [MEETING]);
        const both = Promise.all([left?.read(...events), right?.read(...events.toReversed())]);
        await store.untilWaiting(2);
        await client.query('select pg_advisory_unlock($1)', [MEETING]);
        return await both;
      });

      await store.pool.query('drop function slow cascade');
      expect(answers.flat().filter((answer) => answer === 'accepted')).toHaveLength(events.length);
      expect(await store.deadlocks()).toBe(before);
    },
  );

  test('one event_id in two feeds of one operator is two events [C3] [K1]', async () => {
    const bet = aBet({ event_id: 'e' });
    expect(await store.partition('acme').read(bet)).toEqual(['accepted']);
    expect(await store.partition('acme.apart').read(bet)).toEqual(['accepted']);

    expect(await verdicts()).toEqual([
      ['acme', 'e', 'accepted', 'acme-stream'],
      ['acme/apart', 'e', 'accepted', 'acme-apart'],
    ]);
  });

  test('one event_id and round_id of two operators on one topic are two events of two rounds [C3] [C5] [K1]', async () => {
    const shared = store.partition('shared');
    const bet = await shared.attempt(0, [aBet({ event_id: 'e' })], ['acme-shared']);
    const refund = await shared.attempt(1, [aRefund({ event_id: 'e' })], ['bravo-shared']);

    expect([...bet.answers, ...refund.answers].map(brief)).toEqual(['accepted', 'accepted']);
    expect(
      await store.rows('select feed_id, refunded, net_bet_minor from promo.rounds order by feed_id'),
    ).toEqual([
      ['acme', 'f', '1050'],
      ['bravo', 't', '0'],
    ]);
  });

  test.each([
    ['a rejected event', { kind: 'jump' }, 'rejected/op_unknown'],
    ['a skipped event', { amount: '0' }, 'skipped/zero_amount'],
  ])(
    '%s uses its event_id up: the corrected event is a duplicate with other content [V8] [K2] [V1]',
    async (_, fault, verdict) => {
      const partition = store.partition('acme');
      expect(await partition.read(aBet({ event_id: 'e', ...fault }))).toEqual([verdict]);

      expect(await partition.read(aBet({ event_id: 'e' }))).toEqual([`duplicate of ${verdict}, differs`]);

      const [name, reason] = verdict.split('/');
      expect(await deliveries()).toEqual([['acme', 'e', 'acme-stream', 't', name, reason, 'acme', '0', '1']]);
      expect(await store.value('select count(*) from promo.ledger')).toBe('0');
    },
  );

  test('a duplicate says whether its content differs, compared by value and by known fields only [K4]', async () => {
    const partition = store.partition('acme');
    const bet = aBet({
      event_id: 'e',
      amount: '10.50',
      currency: 'EUR',
      occurred_at: '2026-11-21T12:00:00Z',
    });
    await partition.read(bet);

    expect(
      await partition.read(
        { ...bet },
        { ...bet, amount: '10.5', currency: 'eur', occurred_at: '2026-11-21T13:00:00.000+01:00', extra: 1 },
        { ...bet, amount: '10.51' },
        { ...bet, player_ref: 'p-2' },
        { ...bet, round_id: 'r-2' },
        { ...bet, game: { id: 'g1' } },
        { ...bet, kind: 'win' },
      ),
    ).toEqual([
      'duplicate of accepted',
      'duplicate of accepted',
      ...Array.from({ length: 5 }, () => 'duplicate of accepted, differs'),
    ]);
  });

  test('a duplicate opens no round, neither in the batch of its event nor in a later one [V1] [R1] [R5]', async () => {
    const partition = store.partition('acme');
    await partition.read(aBet({ event_id: 'e', round_id: 'r-1' }), aBet({ event_id: 'e', round_id: 'r-2' }));
    await partition.read(aBet({ event_id: 'e', round_id: 'r-3' }));

    expect(await store.rows('select round_id from promo.rounds order by 1')).toEqual([['r-1']]);
  });

  test('a duplicate of a refund under the id of a bet refunds nothing [R5] [V1]', async () => {
    const partition = store.partition('acme');
    await partition.read(aBet({ event_id: 'e' }));

    expect(await partition.read(aRefund({ event_id: 'e' }))).toEqual(['duplicate of accepted, differs']);
    expect(await partition.read(aBet({ event_id: 'later' }))).toEqual(['accepted']);
  });

  test('events of all kinds by connections of one brand and of several are one feed [C2] [C3] [R9]', async () => {
    await store.partition('acme.solo').read(aBet({ event_id: 'e', brand: undefined }));
    expect(await store.partition('acme').read(aBet({ event_id: 'e' }), aRefund())).toEqual([
      'duplicate of accepted',
      'accepted',
    ]);
    expect(await store.partition('acme.solo').read(aBet({ brand: undefined }))).toEqual([
      'skipped/round_refunded',
    ]);
  });
});

describe('records read again', () => {
  test('a redelivered record is answered with its verdict, and is no duplicate [K3] [D3]', async () => {
    const partition = store.partition('acme');
    const records = [
      aBet({ event_id: 'a' }),
      aSettled({ event_id: 'b', amount: '0' }),
      { ...aWin({ event_id: 'c' }), kind: 'jump' },
    ];
    const first = await partition.readAt(0, ...records);

    expect(await partition.readAt(0, ...records)).toEqual(first.map((answer) => `${answer}, again`));

    expect(await deliveries()).toEqual([]);
    expect(await store.value('select count(*) from promo.verdicts')).toBe('3');
    expect(await store.balance('acme')).toEqual({
      records_read: 6,
      accepted: 1,
      skipped: 1,
      rejected: 1,
      redeliveries: 3,
    });
  });

  test('a redelivered record is recognized, however it is batched [K3] [R1]', async () => {
    const partition = store.partition('acme');
    const records = Array.from({ length: 7 }, (_, i) => aBet({ event_id: `e${i % 5}`, amount: `${i + 1}` }));
    const first = [
      ...(await partition.readAt(0, ...records.slice(0, 4))),
      ...(await partition.readAt(4, ...records.slice(4))),
    ];
    const again = [
      ...(await store
        .writer()
        .partition('acme')
        .readAt(1, ...records.slice(1, 6))),
      ...(await partition.readAt(6, ...records.slice(6))),
    ];

    expect(again).toEqual(first.slice(1).map((answer) => `${answer}, again`));
  });

  test('a partly new batch answers its old part again and decides the rest [K3] [D3]', async () => {
    const partition = store.partition('acme');
    const [a, b, c] = [aBet(), aBet(), aBet()];
    await partition.readAt(0, a, b);

    expect(await partition.readAt(1, b, c)).toEqual(['accepted, again', 'accepted']);
    expect(await store.balance('acme')).toEqual({ records_read: 4, accepted: 3, redeliveries: 1 });
  });

  test('a redelivered duplicate is no second delivery, and gets the same answer on its content [K3] [K4]', async () => {
    const partition = store.partition('acme');
    const bet = aBet({ event_id: 'e' });
    const records = [bet, bet, { ...bet, amount: '11' }];
    await partition.readAt(0, ...records);

    expect(await partition.readAt(0, ...records)).toEqual([
      'accepted, again',
      'duplicate of accepted, again',
      'duplicate of accepted, differs, again',
    ]);
    expect(await partition.readAt(2, records[2] ?? null)).toEqual(['duplicate of accepted, differs, again']);

    expect(await store.value('select count(*) from promo.deliveries')).toBe('2');
    expect(await store.balance('acme')).toEqual({
      records_read: 7,
      accepted: 1,
      duplicate_deliveries: 2,
      redeliveries: 4,
    });
  });

  test('two workers that both believe that they own the partition decide its batch once [K3] [D2]', async () => {
    const [left, right] = [store.writer(), store.writer()];
    for (let batch = 0; batch < 10; batch++) {
      const bet = aBet({ event_id: `e${batch}`, round_id: `r${batch}` });
      const records = [bet, bet, null, aDeposit()];
      const answers = await Promise.all(
        [left, right].map((worker) => worker.partition('acme').readAt(batch * 4, ...records)),
      );
      const decided = ['accepted', 'duplicate of accepted', 'without key', 'accepted'];
      // Each record is decided once by one of the workers: a worker that meets the other takes the batch in
      // halves.
      decided.forEach((answer, record) => {
        expect(answers.map((of) => of[record]).sort()).toEqual([answer, `${answer}, again`]);
      });
    }
    expect(await store.balance('acme')).toEqual({
      records_read: 80,
      accepted: 20,
      duplicate_deliveries: 10,
      events_without_key: 10,
      redeliveries: 40,
    });
  });

  test('a recreated topic starts at 0: other events at the same coordinates are decided [K3]', async () => {
    const partition = store.partition('acme');
    const [a, b] = [aBet({ event_id: 'a' }), aBet({ event_id: 'b' })];
    await partition.readAt(0, a, a, null, b);

    expect(
      await partition.readAt(0, aBet({ event_id: 'c' }), b, Buffer.from('{'), aLogin({ event_id: 'd' })),
    ).toEqual(['accepted', 'duplicate of accepted', 'without key', 'accepted']);
    expect(await store.balance('acme')).toEqual({
      records_read: 8,
      accepted: 4,
      duplicate_deliveries: 2,
      events_without_key: 2,
    });
    expect(await store.value('select count(*) from promo.deliveries')).toBe('2');
  });

  test('the store knows the position of a recreated topic, and so notices lost records [K3] [U1]', async () => {
    const { intake, pool } = store.writer();
    const source = { topic: 'acme', partition: 0 };
    const bets = (count: number, from: number) =>
      Array.from({ length: count }, (_, index) => anEnvelope(aBet(), from + index));
    const howFar = async () => [
      await readDecidedUpTo(pool, [source]),
      await store.rows('select next_offset, decided_up_to from promo.partitions'),
    ];
    await decidePart(intake, source, bets(10, 0), 0);
    const [first, second] = [bets(2, 0), bets(2, 2)];

    expect((await decidePart(intake, source, first, 0)).answers.map(brief)).toEqual(['accepted', 'accepted']);
    expect(await howFar()).toEqual([[2], [['10', '2']]]);
    // Batches of another owner that does not know of the new log, and replays, do not change the position.
    await decidePart(intake, source, first.slice(0, 1), 0);
    await decidePart(intake, source, bets(1, 1));
    expect(await howFar()).toEqual([[2], [['10', '2']]]);
    await decidePart(intake, source, second, 2);
    expect(await howFar()).toEqual([[4], [['10', '4']]]);
    // Like a standby that takes over without having received the last transactions.
    const lost = await decidePart(intake, source, bets(1, 6), 6);
    expect([lost.answers, lost.undecided]).toEqual([[], expect.objectContaining({ decidedUpTo: 4 })]);

    await decidePart(intake, source, bets(8, 4), 4);
    expect(await howFar()).toEqual([[12], [['12', '12']]]);
  });

  test('a replay after a gap does not move the position, so workers still notice the gap [U1]', async () => {
    const { intake, pool } = store.writer();
    const source = { topic: 'acme', partition: 0 };
    await decidePart(intake, source, [anEnvelope(aBet(), 0)], 0);
    await decidePart(intake, source, [anEnvelope(aBet(), 5)]);
    expect(await readDecidedUpTo(pool, [source])).toEqual([1]);
    expect((await decidePart(intake, source, [anEnvelope(aBet(), 6)], 6)).undecided).toMatchObject({
      decidedUpTo: 1,
    });
    await decidePart(intake, source, [anEnvelope(aBet(), 1), anEnvelope(aBet(), 2)]);
    expect(await readDecidedUpTo(pool, [source])).toEqual([3]);
  });

  test('the same offset of another partition or topic is not the same record [K3]', async () => {
    const bet = aBet({ event_id: 'e' });
    await store.partition('acme', 0).readAt(0, bet);

    expect(await store.partition('acme', 1).readAt(0, bet)).toEqual(['duplicate of accepted']);
    expect(await store.partition('acme.second', 0).readAt(0, bet)).toEqual(['duplicate of accepted']);
    expect(await store.partition('acme', 0).readAt(0, bet)).toEqual(['accepted, again']);
  });
});

describe('records without a verdict row', () => {
  test('events without key are counted once by their coordinates, and redelivered ones as redeliveries [V3] [D3]', async () => {
    const partition = store.partition('acme');
    const records = [null, Buffer.from('not json'), { ...aBet(), event_id: '' }, Buffer.from('[]')];
    expect(await partition.readAt(0, ...records)).toEqual(records.map(() => 'without key'));
    expect(await partition.readAt(0, ...records)).toEqual(records.map(() => 'without key, again'));

    expect(await store.balance('acme')).toEqual({ records_read: 8, events_without_key: 4, redeliveries: 4 });
    expect(await store.value('select count(*) from promo_store.unstored')).toBe('4');
    expect(await store.value('select count(*) from promo.verdicts')).toBe('0');
  });

  test('dead letters are counted once by their coordinates, and sent again when redelivered [S4] [S5] [D3]', async () => {
    const partition = store.partition('shared');
    const bet = aBet();
    expect((await partition.attempt(0, [bet])).answers.map(brief)).toEqual(['dead letter unclaimed']);
    expect((await partition.attempt(0, [bet])).answers.map(brief)).toEqual(['dead letter unclaimed, again']);

    expect(await store.balance('shared')).toEqual({ records_read: 2, dead_letters: 1, redeliveries: 1 });
    expect(store.deadLetters.map(({ envelope, reason }) => [envelope.offset, reason])).toEqual([
      [0, 'unclaimed'],
      [0, 'unclaimed'],
    ]);
  });

  test('each reason of a dead letter is stored by its number [S4]', async () => {
    const { intake } = store.writer();
    const schemaUnknown = {
      ...anEnvelope(aBet(), 0),
      payload: { type: 'schema_unknown' as const, schemaId: 7 },
    };
    const result = await decidePart(intake, { topic: 'acme', partition: 0 }, [schemaUnknown]);
    expect(result.answers.map(brief)).toEqual(['dead letter schema_unknown']);
    await store.partition('nobody').read(aBet());

    expect(
      await store.rows(
        `select p.topic, u.dead_letter, c.connection_id from promo_store.unstored u join promo_store.partitions p using (partition_no)
         left join promo_store.connections c using (connection_no) order by 1`,
      ),
    ).toEqual([
      ['acme', '2', 'acme-stream'],
      ['nobody', '1', null],
    ]);
  });

  test('where the dead-letter topic refuses one letter, the records before it are decided, with their letters [S6]', async () => {
    const sent: number[] = [];
    const worker = store.writer({
      sendDeadLetters: async (letters) => {
        sent.push(...letters.map(({ envelope }) => envelope.offset));
        const refused = letters.filter(({ envelope }) => envelope.offset === 2);
        if (refused.length > 0) throw new LettersRefused('too large', refused);
      },
    });
    const source = { topic: 'shared', partition: 0 };
    const envelopes = [0, 1, 2, 3].map((offset) =>
      anEnvelope(aBet({ event_id: `e-${offset}` }), offset, offset === 1 ? ['acme-shared'] : []),
    );
    const { answers, undecided } = await decidePart(worker.intake, source, envelopes);
    expect(answers.map(brief)).toEqual(['dead letter unclaimed', 'accepted']);
    expect(undecided?.message).toMatch(/dead-letter topic refused: too large/);
    expect(sent).toEqual([0, 2, 3, 0]);
    expect(await store.balance('shared')).toEqual({ records_read: 2, accepted: 1, dead_letters: 1 });
  });

  test('while the dead-letter topic refuses, the record and later ones stay undecided, and leave no trace [S6] [U1]', async () => {
    const worker = store.writer({
      sendDeadLetters: async () => {
        throw new Error('broker says no');
      },
    });
    const source = { topic: 'shared', partition: 0 };
    const envelopes = [
      anEnvelope(aBet({ event_id: 'before' }), 0, ['acme-shared']),
      anEnvelope(aBet({ event_id: 'unclaimed' }), 1),
      anEnvelope(aBet({ event_id: 'behind' }), 2, ['acme-shared']),
    ];
    const refused = await decidePart(worker.intake, source, envelopes);

    expect(refused.answers.map(brief)).toEqual(['accepted']);
    expect(refused.undecided?.message).toMatch(/dead-letter topic refused: broker says no/);
    expect(await store.rows('select event_id from promo.verdicts')).toEqual([['before']]);
    expect(await store.balance('shared')).toEqual({ records_read: 1, accepted: 1 });
    expect(await store.value('select count(*) from promo_store.unstored')).toBe('0');

    const later = await decidePart(store.writer().intake, source, envelopes.slice(1));
    expect(later.answers.map(brief)).toEqual(['dead letter unclaimed', 'accepted']);
  });
});
