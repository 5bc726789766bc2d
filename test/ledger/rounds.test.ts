/** Rounds in the store: counted sums, removal by a refund, and the views for analysts. */
import {
  aBet,
  aDeposit,
  aLogin,
  aRefund,
  aSettled,
  aWin,
  aWithdrawal,
  freshStore,
  type Json,
  type TestPartition,
  type TestStore,
} from '../support/ledger';

let store: TestStore;
let acme: TestPartition;
beforeEach(async () => {
  store = await freshStore();
  acme = store.partition('acme');
});
afterEach(() => store.close());

/** Sums of the ledger by round, kind and currency. */
const sums = () =>
  store.rows(
    `select round_id, kind, currency, sum(amount_minor) from promo.ledger group by 1, 2, 3 order by 1, 2, 3`,
  );

const anomalies = () => store.rows('select round_id, anomaly from promo.anomalies order by 1, 2');

describe('a refund', () => {
  test('removes the counted sums of its round exactly once, and names the reversed entries [R2] [L1]', async () => {
    expect(
      await acme.read(
        aBet({ event_id: 'b1', amount: '10.00' }),
        aBet({ event_id: 'b2', amount: '5.00' }),
        aWin({ event_id: 'w', amount: '7.00' }),
        aSettled({ event_id: 's', amount: '15.00' }),
        aRefund({ event_id: 'f', amount: '0.01' }),
        aRefund({ event_id: 'f2' }),
      ),
    ).toEqual(Array.from({ length: 6 }, () => 'accepted'));

    expect(
      await store.rows(
        `select e.event_id, e.kind, e.amount_minor, e.currency, o.event_id
         from promo.ledger e left join promo.ledger o on o.entry_id = e.reverses_entry_id order by e.entry_id`,
      ),
    ).toEqual([
      ['b1', 'bet', '1000', 'EUR', null],
      ['f', 'bet', '-1000', 'EUR', 'b1'],
      ['b2', 'bet', '500', 'EUR', null],
      ['f', 'bet', '-500', 'EUR', 'b2'],
      ['w', 'win', '700', 'EUR', null],
      ['f', 'win', '-700', 'EUR', 'w'],
      ['s', 'settled', '1500', 'EUR', null],
      ['f', 'settled', '-1500', 'EUR', 's'],
    ]);
    expect(await sums()).toEqual(['bet', 'settled', 'win'].map((kind) => ['r-1', kind, 'EUR', '0']));
  });

  test('skips every later bet and settled of its round, and accepts a win and a refund without counting [R3] [R7]', async () => {
    expect(await acme.read(aRefund(), aBet(), aSettled(), aWin(), aRefund())).toEqual([
      'accepted',
      'skipped/round_refunded',
      'skipped/round_refunded',
      'accepted',
      'accepted',
    ]);
    expect(await store.rows('select * from promo.ledger')).toEqual([]);
    expect(
      await store.rows('select verdict, reason, counted from promo.verdicts order by verdict_id'),
    ).toEqual([
      ['accepted', null, 'f'],
      ['skipped', 'round_refunded', 'f'],
      ['skipped', 'round_refunded', 'f'],
      ['accepted', null, 'f'],
      ['accepted', null, 'f'],
    ]);
  });

  test('by another connection of the feed removes the round, too [R9]', async () => {
    await acme.read(aBet(), aSettled());
    await store.partition('acme.solo').read(aRefund({ brand: undefined }));
    expect((await sums()).map((row) => row[3])).toEqual(['0', '0']);
  });

  test('in another feed does not [C3]', async () => {
    await acme.read(aBet());
    await store.partition('acme.apart').read(aRefund());
    await store.partition('bravo').read(aRefund());
    expect(await acme.read(aBet())).toEqual(['accepted']);
  });

  test.each<[string, Json, string]>([
    ['is rejected', { currency: 'EUR', amount: '1.001' }, 'rejected/bad_amount'],
    ['is skipped', { currency: 'XXX' }, 'skipped/currency_unknown'],
  ])('that %s refunds nothing [R5]', async (_, fields, verdict) => {
    expect(await acme.read(aBet(), aRefund(fields), aBet())).toEqual(['accepted', verdict, 'accepted']);
    expect(await sums()).toEqual([['r-1', 'bet', 'EUR', '2100']]);
  });

  test('of zero refunds its round, and no game rule prevents it [G1] [G2] [R2]', async () => {
    expect(await acme.read(aBet(), aRefund({ amount: '0', game: { id: 'g9' } }), aBet())).toEqual([
      'accepted',
      'accepted',
      'skipped/round_refunded',
    ]);
  });

  test('costs the same for any number of events in the round [R4]', async () => {
    const many = Array.from({ length: 5_000 }, () => aBet({ round_id: 'big', amount: '1' }));
    await acme.read(...many);
    await acme.read(aBet({ round_id: 'small' }));
    // Twenty thousand more decided events, without their keys: the refund must not touch them.
    store.damaged = true;
    await store.pool.query(`
      insert into promo_store.history select verdict_id + 8192 * n, decided_at, occurred_at, amount_minor, round_no, source_offset, feed_no,
        connection_no, partition_no, brand_no, reference_version, outcome, kind, currency_no, counted, event_id || '-' || n, player_ref, game_id, unmapped_brand
      from promo_store.history, generate_series(1, 4) n where event_id <> 'x';
      analyze promo_store.history`);
    const rowsWritten = async (event_id: string, round_id: string) => {
      expect(await acme.read(aRefund({ event_id, round_id }))).toEqual(['accepted']);
      const counts = ['event_keys', 'history', 'rounds', 'resends', 'unstored', 'partitions'].map(
        (table) => `select count(*) from promo_store.${table} where xmin = (select xmin from refund)`,
      );
      return store.value(
        `with refund as (select xmin from promo_store.history where event_id = $1)
         select sum(count) from (${counts.join(' union all ')}) c`,
        [event_id],
      );
    };
    // Its key, its verdict, the round, the counters of the partition.
    expect(await rowsWritten('small-refund', 'small')).toBe('4');
    const began = performance.now();
    expect(await rowsWritten('big-refund', 'big')).toBe('4');
    // Coarse, for a busy machine.
    expect(performance.now() - began).toBeLessThan(5_000);
    expect(
      await store.rows(`select count(*), sum(amount_minor) from promo.ledger where round_id = 'big'`),
    ).toEqual([[String(2 * 5_000 * 5), '0']]);
  });
});

describe('settled', () => {
  test('counts once for each round; a second one is accepted, counts nothing and is an anomaly [R6] [A1]', async () => {
    expect(
      await acme.read(aBet(), aSettled({ event_id: 's1' }), aSettled({ event_id: 's2', amount: '99' })),
    ).toEqual(['accepted', 'accepted', 'accepted']);
    expect(await sums()).toEqual([
      ['r-1', 'bet', 'EUR', '1050'],
      ['r-1', 'settled', 'EUR', '1050'],
    ]);
    expect(await anomalies()).toEqual([['r-1', 'second_settled']]);
  });

  test('must be the sum of the bets, with those below the minimum and without other skipped ones [A2]', async () => {
    await acme.read(
      ...[aBet({ round_id: 'even' }), aSettled({ round_id: 'even' })],
      ...[aBet({ round_id: 'odd' }), aSettled({ round_id: 'odd', amount: '1' })],
      ...[aBet({ round_id: 'low', amount: '0.09' }), aSettled({ round_id: 'low', amount: '0.09' })],
      ...[aBet({ round_id: 'denied', game: { id: 'g9' } }), aSettled({ round_id: 'denied' })],
      ...[aSettled({ round_id: 'before', amount: '3' }), aBet({ round_id: 'before', amount: '3' })],
      aBet({ round_id: 'open' }),
      ...[
        aBet({ round_id: 'gone' }),
        aSettled({ round_id: 'gone', amount: '1' }),
        aRefund({ round_id: 'gone' }),
      ],
    );
    expect(await anomalies()).toEqual([
      ['denied', 'settled_mismatch'],
      ['odd', 'settled_mismatch'],
    ]);
  });
});

test.each([
  ['small, whose rounds are locked at once', 500],
  ['large, whose decided rounds are read without a lock', 0],
])(
  'the answer names the anomaly of its event, and so do later answers, in a batch that is %s [A4] [K3]',
  async (_, fewEvents) => {
    const writer = store.writer({ fewEvents });
    const partition = writer.partition('acme');
    const read = async (offset: number, ...events: Json[]) => {
      const { answers, undecided } = await partition.attempt(offset, events);
      if (undecided !== null) throw undecided;
      return answers.map(({ decision }) =>
        decision.type === 'unstored' ? null : (decision.anomalies ?? []),
      );
    };
    const [bet, settled] = [aBet({ event_id: 'bet' }), aSettled({ event_id: 'settled' })];
    const second = aSettled({ event_id: 'second' });
    const stranger = aWin({ event_id: 'stranger', player_ref: 'p-2' });
    expect(await read(0, settled, aLogin())).toEqual([['settled_mismatch'], []]);
    expect(await read(0, settled, aLogin())).toEqual([['settled_mismatch'], []]);
    expect(await read(2, bet, second, stranger)).toEqual([[], ['second_settled'], ['player_mismatch']]);
    // Read again after a crash, and sent again, among events that are decided for the first time.
    expect(await read(2, bet, second, stranger, aBet({ round_id: 'r-2' }))).toEqual([
      ...[[], ['second_settled'], ['player_mismatch']],
      [],
    ]);
    expect(await read(6, stranger, bet, aDeposit())).toEqual([['player_mismatch'], [], []]);
    expect(await anomalies()).toEqual([
      ['r-1', 'player_mismatch'],
      ['r-1', 'second_settled'],
    ]);
  },
);

test('a round whose events disagree on player, brand or currency is an anomaly; rejected events do not count [A3]', async () => {
  await acme.read(
    ...[aBet({ round_id: 'player' }), aWin({ round_id: 'player', player_ref: 'p-2' })],
    ...[aBet({ round_id: 'brand' }), aWin({ round_id: 'brand', brand: 'second' })],
    ...[aBet({ round_id: 'currency' }), aWin({ round_id: 'currency', currency: 'USD' })],
    ...[aBet({ round_id: 'skipped' }), aBet({ round_id: 'skipped', amount: '0', player_ref: 'p-2' })],
    ...[aBet({ round_id: 'fine' }), aWin({ round_id: 'fine', currency: 'eur' })],
    ...[aBet({ round_id: 'rejected' }), aWin({ round_id: 'rejected', player_ref: 'p-2', brand: 'nobody' })],
    ...[aRefund({ round_id: 'late' }), aWin({ round_id: 'late', player_ref: 'p-2' })],
  );
  expect(await anomalies()).toEqual([
    ['brand', 'brand_mismatch'],
    ['currency', 'currency_mismatch'],
    ['late', 'player_mismatch'],
    ['player', 'player_mismatch'],
    ['skipped', 'player_mismatch'],
  ]);
});

test('a round is the same in one batch, in batches of one, and over two partitions, in any order of the same events [R1] [R8]', async () => {
  const events = (round_id: string) => [
    aBet({ event_id: `${round_id}-b`, round_id, amount: '3' }),
    aBet({ event_id: `${round_id}-c`, round_id, amount: '4', currency: 'JPY' }),
    aWin({ event_id: `${round_id}-w`, round_id, amount: '2' }),
    aSettled({ event_id: `${round_id}-s`, round_id, amount: '3' }),
    aBet({ event_id: `${round_id}-l`, round_id, amount: '0.01' }),
  ];
  await acme.read(...events('whole'));
  for (const event of events('single')) await acme.read(event);
  for (const event of events('backwards').reverse()) await acme.read(event);
  const [first = {}, ...others] = events('spread');
  await store.partition('acme.second', 3).read(...others);
  await acme.read(first);

  const states = await store.rows(
    `select round_id, currency, counted_bet, counted_win, counted_settled, below_min_bet, net_bet_minor, net_win_minor, net_settled_minor, settled
     from promo.rounds order by round_id, currency`,
  );
  const of = (round: string) => states.filter((row) => row[0] === round).map((row) => row.slice(1));
  expect(of('whole')).toEqual([
    ['EUR', '3.00', '2.00', '3.00', '0.01', '300', '200', '300', 't'],
    ['JPY', '0', '0', '0', '0', '0', '0', '0', 't'].map((text, i) => (i === 1 || i === 5 ? '4' : text)),
  ]);
  for (const round of ['single', 'backwards', 'spread']) expect(of(round)).toEqual(of('whole'));
});

test('a round that one batch opens has the same row as a round that several batches change step by step [R1]', async () => {
  const uuid = '0192f0c1-7f3e-7cc0-b9a5-2f1d8a4c9e01';
  const events = (round: string): Json[] => [
    aBet({ round_id: round, amount: '3.00' }),
    aBet({ round_id: round, amount: '0.05' }),
    aBet({ round_id: round, amount: '9.223372036854775807', currency: 'ETH' }),
    aBet({ round_id: round, amount: '9.223372036854775807', currency: 'ETH' }),
    aWin({ round_id: round, amount: '7', currency: 'JPY', player_ref: 'p-2', brand: 'second' }),
    aSettled({ round_id: round, amount: '4.00' }),
    aSettled({ round_id: round, amount: '5.00' }),
    aRefund({ event_id: `refund of ${round}`, round_id: round }),
  ];
  const ids = ['short', uuid, 'longer than sixteen bytes', 'é€🎰'];
  // Half of the batch belongs to existing rounds, in other orders, so that one transaction meets both.
  const atOnce = ids.map((id) => `${id} 1`);
  const stepByStep = ids.map((id) => `${id} 2`);
  for (const [position] of events('').entries())
    await acme.read(...stepByStep.map((round) => events(round)[position] ?? null));
  await acme.read(
    ...stepByStep.map((round) => aWin({ round_id: round })),
    ...atOnce.flatMap(events),
    ...atOnce.map((round) => aWin({ round_id: round })),
  );

  const rows = (n: number) =>
    store.rows(
      `select left(round_id, -2), left(refunded_by, -2), refunded_at is null, settled, second_settled, player_mismatch, brand_mismatch, feed_no, brand_no,
         currency_no, bet_minor, win_minor, settled_minor, below_min_bet_minor, other_sums, round_key = promo_store.id_key(round_id)
       from promo_store.rounds where right(round_id, 1) = '${n}' order by 1`,
    );
  const first = await rows(1);
  expect(first).toHaveLength(ids.length);
  expect(first).toEqual(await rows(2));
  expect(first[0]?.slice(1, 7)).toEqual([expect.stringMatching(/^refund of /), 'f', 't', 't', 't', 't']);
  expect(
    await store.rows(
      `select round_id, refunded_at = opened_at, refunded_at >= opened_at from promo_store.rounds where right(round_id, 1) = '1' order by 1`,
    ),
  ).toEqual([...atOnce].sort().map((round) => [round, 't', 't']));
  expect(await store.value('select count(*) - count(distinct round_no) from promo_store.rounds')).toBe('0');
});

test('a rejected event that names a round first is shown with it, and the round is as good as new [R5] [V6]', async () => {
  await acme.read(aBet({ event_id: 'x', spec: 'other', player_ref: 'p-9' }));
  expect(await store.rows('select event_id, verdict, round_id from promo.verdicts')).toEqual([
    ['x', 'rejected', 'r-1'],
  ]);
  const state = () =>
    store.rows('select round_id, refunded, settled, currency, net_bet_minor from promo.rounds');
  expect(await state()).toEqual([['r-1', 'f', 'f', null, '0']]);
  await acme.read(aBet());
  expect(await state()).toEqual([['r-1', 'f', 'f', 'EUR', '1050']]);
  expect(await anomalies()).toEqual([]);
});

test('sums may exceed 64 bits, in the ledger and in the rounds, for every scale [M5] [R7]', async () => {
  const max = '9223372036854775807';
  await acme.read(
    ...Array.from({ length: 3 }, () => aBet({ currency: 'JPY', amount: max })),
    ...Array.from({ length: 2 }, () => aWin({ currency: 'ETH', amount: '9.223372036854775807' })),
    ...Array.from({ length: 2 }, () => aDeposit({ currency: 'JPY', amount: max })),
  );
  expect(await sums()).toEqual([
    ['r-1', 'bet', 'JPY', '27670116110564327421'],
    ['r-1', 'win', 'ETH', '18446744073709551614'],
    [null, 'deposit', 'JPY', '18446744073709551614'],
  ]);
  // Read back as state, and added to.
  await acme.read(
    aBet({ currency: 'JPY', amount: '1' }),
    aWin({ currency: 'ETH', amount: '0.000000000000000001' }),
  );
  expect(
    await store.rows(
      'select currency, counted_bet, counted_win, net_bet_minor, net_win_minor from promo.rounds order by 1',
    ),
  ).toEqual([
    ['ETH', '0.000000000000000000', '18.446744073709551615', '0', '18446744073709551615'],
    ['JPY', '27670116110564327422', '0', '27670116110564327422', '0'],
  ]);
});

test('deposits, withdrawals and logins are entries without a round; a login has 0 and no currency [L1] [G5] [R7]', async () => {
  expect(
    await acme.read(
      aDeposit({ event_id: 'd', amount: '10.50', round_id: 5, game: 'x' }),
      aWithdrawal({ event_id: 'w', amount: '0', round_id: 'r-1' }),
      aLogin({ event_id: 'l', amount: 7, currency: null }),
      aRefund(),
    ),
  ).toEqual(Array.from({ length: 4 }, () => 'accepted'));
  expect(
    await store.rows(
      `select event_id, round_id, brand, player_ref, kind, currency, amount_minor, amount, reverses_entry_id from promo.ledger order by entry_id`,
    ),
  ).toEqual([
    ['d', null, 'main', 'p-1', 'deposit', 'EUR', '1050', '10.50', null],
    ['w', null, 'main', 'p-1', 'withdrawal', 'EUR', '0', '0.00', null],
    ['l', null, 'main', 'p-1', 'login', null, '0', '0', null],
  ]);
});

test('entries are only added: an entry that a later refund reverses keeps its entry_id and its amount [L2]', async () => {
  const entries = () =>
    store.rows('select t::text from promo.ledger t where reverses_entry_id is null order by entry_id');
  await acme.read(aBet(), aBet({ round_id: 'r-2' }), aDeposit());
  const before = await entries();
  await acme.read(aRefund(), aBet({ round_id: 'r-2' }));
  const reversed = await store.rows('select t::text from promo.ledger t order by entry_id');
  await acme.read(aRefund(), aWin());

  expect((await entries()).slice(0, 3)).toEqual(before);
  expect(await store.rows('select t::text from promo.ledger t order by entry_id')).toEqual(reversed);
  expect(await store.value('select count(*) - count(distinct entry_id) from promo.ledger')).toBe('0');
});

test('verdict ids ascend in the order in which events of a round were decided, by any worker [D2] [R8]', async () => {
  const writers = [0, 1, 2].map((n) => store.writer().partition('acme', n));
  for (let i = 0; i < 20; i++) {
    await Promise.all(
      writers.map((writer, n) =>
        writer.read(n === 2 ? aRefund({ round_id: `r${i}` }) : aBet({ round_id: `r${i}` })),
      ),
    );
  }
  // A counted bet was decided before the refund, and a skipped one after it.
  expect(
    await store.value(
      `select count(*) from promo.verdicts b join promo.verdicts f on f.round_id = b.round_id and f.kind = 'refund'
       where b.kind = 'bet' and b.counted <> (b.verdict_id < f.verdict_id)`,
    ),
  ).toBe('0');
});
