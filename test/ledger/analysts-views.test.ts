/** The views and functions for analysts: facts, faults, rounds, months, erasures, reasons, explanations. */
import { DEAD_LETTER_REASONS, REASONS, usesIdUp } from '../../src/domain/verdict/reasons';
import { erasePlayer } from '../../src/ledger/operations';
import {
  aBet,
  aDeposit,
  aLogin,
  aRefund,
  aSettled,
  aWin,
  freshStore,
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

describe('promo.facts', () => {
  test('has each counted event once, and nothing of a refunded round in its net amounts [R2] [R7]', async () => {
    await acme.read(
      aBet({ event_id: 'b1', round_id: 'r1', amount: '10', game: { id: 'g1' } }),
      aWin({ event_id: 'w1', round_id: 'r1', amount: '4' }),
      aBet({ event_id: 'b2', round_id: 'r2', amount: '7' }),
      aBet({ event_id: 'small', amount: '0' }),
      aLogin({ event_id: 'l' }),
    );
    await acme.read(
      aRefund({ event_id: 'x', round_id: 'r1' }),
      aDeposit({ event_id: 'd', amount: '2.50' }),
      aWin({ event_id: 'late', round_id: 'r1' }),
    );
    expect(
      await store.rows(
        `select event_id, kind, round_id, game_id, amount, net_amount, refunded, refunded_by, refunded_at is not null
         from promo.facts order by verdict_id`,
      ),
    ).toEqual([
      ['b1', 'bet', 'r1', 'g1', '10.00', '0', 't', 'x', 't'],
      ['w1', 'win', 'r1', null, '4.00', '0', 't', 'x', 't'],
      ['b2', 'bet', 'r2', null, '7.00', '7.00', 'f', null, 'f'],
      ['l', 'login', null, null, '0', '0', 'f', null, 'f'],
      ['d', 'deposit', null, null, '2.50', '2.50', 'f', null, 'f'],
    ]);
    const sums = 'select kind, currency, sum(%) from promo.@ group by 1, 2 having sum(%) <> 0 order by 1, 2';
    expect(await store.rows(sums.replaceAll('%', 'net_amount').replace('@', 'facts'))).toEqual(
      await store.rows(sums.replaceAll('%', 'amount').replace('@', 'ledger')),
    );
  });

  test('names the player to whom promotions credit the event', async () => {
    await acme.read(aBet({ event_id: 'b1', round_id: 'r1', player_ref: 'bonus' }), aBet({ round_id: 'r2' }));
    await store.value(`select promo.attribute_round('acme', 'r1', 'normal')`);
    expect(
      await store.rows('select player_ref, credited_player from promo.facts order by verdict_id'),
    ).toEqual([
      ['bonus', 'normal'],
      ['p-1', 'p-1'],
    ]);
  });
});

test('promo.reasons is the list that the service decides by [V2] [S4]', async () => {
  const sentence = (clause: string) => (clause.endsWith('.') ? clause : `${clause}.`);
  const rows = [
    ...REASONS.map(({ name, verdict, charge, meaning, remedy }) => [
      ...[name, verdict, charge, usesIdUp(name) ? 't' : 'f', sentence(meaning), remedy],
    ]),
    ...DEAD_LETTER_REASONS.map(({ name, meaning, remedy }) => [
      ...[name, 'dead_letter', 'service', 'f', sentence(meaning), remedy],
    ]),
  ];
  expect(
    await store.rows(
      'select precedence, reason, verdict, charge, needs_new_event_id, meaning, remedy from promo.reasons order by 1',
    ),
  ).toEqual(rows.map((row, index) => [String(index + 1), ...row]));
});

test('promo.records_without_verdict has each record that was counted, with its reason [S4] [V3] [D3]', async () => {
  await acme.read(null, aBet({ event_id: '' }), aBet());
  await acme.attempt(3, [aBet()], ['nobody']);
  await store.partition('nobody.reads.it').read(aBet());
  expect(
    await store.rows(
      `select operator_id, connection_id, result, reason, is_test, source_topic, source_partition, source_offset
       from promo.records_without_verdict order by source_topic, source_offset`,
    ),
  ).toEqual([
    ['acme', 'acme-stream', 'without_key', 'no_idempotency_key', 'f', 'acme', '0', '0'],
    ['acme', 'acme-stream', 'without_key', 'no_idempotency_key', 'f', 'acme', '0', '1'],
    [null, null, 'dead_letter', 'unclaimed', null, 'nobody.reads.it', '0', '0'],
  ]);
  const counted = 'select sum(dead_letters), sum(events_without_key) from promo.partitions';
  expect(await store.rows(counted)).toEqual(
    await store.rows(
      `select count(*) filter (where result = 'dead_letter'), count(*) filter (where result = 'without_key') from promo.records_without_verdict`,
    ),
  );
});

describe('rounds with their last event', () => {
  const ROUNDS = `select round_id, state, player_ref, credited_player, game_id, events, last_event_id, last_kind, last_verdict
    from % order by opened_at, round_id`;

  test('promo.round_details and promo.rounds_opened_with_players show the same [R6]', async () => {
    await acme.read(aBet({ event_id: 'b1', round_id: 'r1', game: { id: 'g1' } }));
    await acme.read(
      aBet({ event_id: 'b2', round_id: 'r2', player_ref: 'p-2' }),
      aBet({ event_id: 'b3', round_id: 'r3' }),
    );
    await acme.read(
      aSettled({ event_id: 's1', round_id: 'r1', amount: '10.50' }),
      aRefund({ event_id: 'x2', round_id: 'r2' }),
    );
    await acme.read(
      aWin({ event_id: 'bad', round_id: 'r3', amount: 'much' }),
      aBet({ event_id: 'alone', round_id: 'r4', amount: 'x' }),
    );
    await store.value(`select promo.attribute_round('acme', 'r1', 'normal')`);
    const expected = [
      ['r1', 'settled', 'p-1', 'normal', 'g1', '2', 's1', 'settled', 'accepted'],
      ['r2', 'refunded', 'p-2', 'p-2', null, '2', 'x2', 'refund', 'accepted'],
      ['r3', 'open', 'p-1', 'p-1', null, '2', 'bad', 'win', 'rejected'],
      ['r4', 'open', 'p-1', 'p-1', null, '1', 'alone', 'bet', 'rejected'],
    ];
    expect(await store.rows(ROUNDS.replace('%', 'promo.round_details'))).toEqual(expected);
    expect(
      await store.rows(ROUNDS.replace('%', `promo.rounds_opened_with_players(now() - interval '1 hour')`)),
    ).toEqual(expected);
    const named = 'select * from % order by opened_at, round_id';
    const all = await store.rows(named.replace('%', "promo.rounds_opened(now() - interval '1 hour')"));
    expect(all.map(([, , round]) => round)).toEqual(['r1', 'r2', 'r3', 'r4']);
    expect(
      await store.rows(named.replace('%', `promo.rounds_opened(now(), now() + interval '1 hour')`)),
    ).toEqual([]);
  });
});

test('a copy follows an erasure by the verdicts in which the player was replaced', async () => {
  await acme.read(
    aBet({ event_id: 'a', player_ref: 'gone' }),
    aBet({ event_id: 'b' }),
    aDeposit({ event_id: 'c', player_ref: 'gone' }),
  );
  expect(await store.rows('select * from promo.erasures')).toEqual([]);
  await erasePlayer(
    store.url,
    { requestedBy: 'ops@desk' },
    { operator: 'acme', player: 'gone', batch: 1_000 },
    () => undefined,
  );
  expect(
    await store.rows('select erasure_no, operator_id, erased_player, is_done, verdicts from promo.erasures'),
  ).toEqual([['1', 'acme', 'erased:1', 't', '2']]);
  expect(await store.rows('select event_id from promo.erased_verdicts(1) order by 1')).toEqual([
    ['a'],
    ['c'],
  ]);
  expect(await store.rows('select * from promo.erased_verdicts(2)')).toEqual([]);
});
