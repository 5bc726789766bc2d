/** The views and functions for analysts: facts, faults, rounds, months, erasures, reasons, explanations. */
import { remedyOfDuplicate } from '../../src/console/pages/event';
import { DEAD_LETTER_REASONS, REASONS, usesIdUp } from '../../src/domain/verdict/reasons';
import { erasePlayer } from '../../src/ledger/erasure';
import {
  aBet,
  aDeposit,
  aLogin,
  anEnvelope,
  aRefund,
  aSettled,
  aWin,
  type Content,
  decidePart,
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

describe('promo.faults', () => {
  const FAULTS =
    'select event_id, verdict, place, reason, field from promo.faults order by verdict_id, place';

  test('has each fault of an event with its field, as the answer to the sender has it [V2] [V7]', async () => {
    const events = [
      aBet({ event_id: 'spec', spec: 'x' }),
      aBet({ event_id: 'kind', kind: 'x' }),
      aBet({ event_id: 'player', player_ref: '' }),
      aBet({ event_id: 'amount', amount: 'x' }),
      aBet({ event_id: 'brand', brand: 'nobody' }),
      aBet({ event_id: 'closed', brand: 'closed' }),
      aBet({ event_id: 'none', brand: undefined }),
      aBet({ event_id: 'currency', currency: 'XXX' }),
      aBet({ event_id: 'zero', amount: '0' }),
      aBet({ event_id: 'denied', game: { id: 'g9' } }),
      aBet({ event_id: 'small', amount: '0.09' }),
      aBet({ event_id: 'many', spec: 'x', occurred_at: 'now', amount: 'x', brand: 'nobody', player_ref: '' }),
      aBet({ event_id: 'no game', game: {}, brand: 'nobody', currency: 'XXX' }),
      aBet({ event_id: 'fine' }),
    ];
    const { answers } = await acme.attempt(0, events);
    const expected = answers.flatMap(({ eventId, faults, decision }) =>
      faults.map(({ reason, field }, index) => [
        eventId,
        decision.type === 'decided' ? decision.outcome.verdict : null,
        String(index + 1),
        reason,
        field,
      ]),
    );
    expect(expected.filter(([id]) => id === 'many').length).toBeGreaterThan(4);
    expect(new Set(expected.map(([id]) => id)).size).toBe(13);
    expect(await store.rows(FAULTS)).toEqual(expected);
  });

  test('costs no row for an event with one fault that its reason names, and none for an accepted one', async () => {
    await acme.read(aBet(), aBet({ event_id: 'a', amount: '0' }), aBet({ event_id: 'b', player_ref: '' }));
    expect(await store.value('select count(*) from promo_store.faults')).toBe('0');
    await acme.read(aBet({ event_id: 'c', spec: 'x' }));
    await acme.readAt(3, aBet({ event_id: 'c', spec: 'x' }));
    expect(await store.value('select count(*) from promo_store.faults')).toBe('1');
  });

  test('has no field of an event that an older worker decided', async () => {
    await acme.read(aBet({ event_id: 'old', spec: 'x' }));
    await store.pool.query('delete from promo_store.faults');
    expect(await store.rows(FAULTS)).toEqual([['old', 'rejected', '1', 'malformed', null]]);
  });
});

describe('source_timestamp', () => {
  const sentAt = async (sentAtMs: number | undefined) => {
    const envelope = { ...anEnvelope(aBet({ event_id: `${sentAtMs}` }), 0), sentAtMs };
    await decidePart(store.writer().intake, { topic: 'acme', partition: 7 }, [envelope]);
    return store.rows(
      `select (extract(epoch from source_timestamp) * 1000)::bigint from promo.verdicts where event_id = $1`,
      [`${sentAtMs}`],
    );
  };

  test('is the timestamp of the record, to the millisecond', async () => {
    for (const sentAtMs of [Date.now() - 1_234_567, Date.now() + 4_321])
      expect(await sentAt(sentAtMs)).toEqual([[`${sentAtMs}`]]);
    expect(await store.value('select count(*) from promo.facts where source_timestamp < decided_at')).toBe(
      '1',
    );
  });

  test('is null for a record without one, and where the delay is too long to be kept', async () => {
    for (const sentAtMs of [-1, undefined, Date.now() - 2 ** 31 - 60_000])
      expect(await sentAt(sentAtMs)).toEqual([[null]]);
  });
});

describe('promo.explain', () => {
  const told = (sql: string) => store.rows(`select what_happened, why, what_next from ${sql}`);

  test('an accepted event that was delivered again, and whose round was refunded', async () => {
    await acme.read(aBet({ event_id: 'e', round_id: 'r', amount: '10', game: { id: 'g1' } }));
    await acme.read(aBet({ event_id: 'e', round_id: 'r', amount: '11', game: { id: 'g1' } }));
    expect((await told(`promo.explain('acme', 'e')`)).at(-1)).toEqual([
      'It counts: 10.00 EUR.',
      'Nothing has reversed it.',
      'Nothing to do.',
    ]);
    await acme.read(aRefund({ event_id: 'x', round_id: 'r' }));
    const story = await told(`promo.explain('acme', 'e')`);
    expect(story.map(([what]) => what)).toEqual([
      `Decided: accepted. A bet of 10.00 EUR in round 'r' on game 'g1' by connection 'acme-stream'${/, decided .* after its time/.exec(`${story[0]?.[0]}`)?.[0] ?? ''}.`,
      `Delivered again by connection 'acme-stream', at acme/0 offset 1.`,
      `Round 'r' was refunded by the event 'x'.`,
      'It counts nothing.',
    ]);
    expect(story[1]?.slice(1)).toEqual([
      'A duplicate whose content differs: two events share one event_id. The second one counts nothing.',
      'Give each event its own event_id.',
    ]);
    expect((await told(`promo.explain('acme', 'x')`))[0]?.[1]).toMatch(/^A refund reverses everything/);
  });

  test('a resend of each verdict has the remedy of the console', async () => {
    const contents: Readonly<Record<string, Content>> = {
      accepted: aBet({ event_id: 'accepted' }),
      malformed: aBet({ event_id: 'malformed', spec: 'x' }),
      zero_amount: aBet({ event_id: 'zero_amount', amount: '0' }),
      currency_unknown: aBet({ event_id: 'currency_unknown', currency: 'XXX' }),
    };
    const others = Object.keys(contents).map((event_id) => aBet({ event_id, amount: '77' }));
    await acme.read(...Object.values(contents), ...Object.values(contents), ...others);
    for (const name of Object.keys(contents)) {
      const resends = (await told(`promo.explain('acme', '${name}')`)).filter(([what]) =>
        /^Delivered/.test(`${what}`),
      );
      const reason = name === 'accepted' ? null : name;
      const remedies = [false, true].map((differs) => remedyOfDuplicate(reason, differs) ?? 'Nothing to do.');
      expect([name, ...resends.map(([, , next]) => next)]).toEqual([name, ...remedies]);
    }
    expect((await told(`promo.explain('acme', 'malformed')`)).at(1)?.[2]).toBe(
      'It was rejected under this id. Fix the field and send the event with a new event_id.',
    );
  });

  test('a rejected event, with its faults and the remedy', async () => {
    await acme.read(aBet({ event_id: 'bad', spec: 'x', amount: 'x' }));
    expect(await told(`promo.explain('acme', 'bad')`)).toEqual([
      [
        expect.stringMatching(/^Decided: rejected, malformed\. /),
        expect.stringMatching(/^At \/spec: a field has the wrong type/),
        'Fix the field and send the event with a new event_id.',
      ],
      [
        'Further fault: bad_amount.',
        expect.stringMatching(/^At \/amount: amount is missing/),
        'Correct it in the same new event.',
      ],
    ]);
  });

  test.each([
    [`promo.explain('acmee', 'e')`, `There is no feed 'acmee'.`, /^Use one of: 'acme', /],
    ['promo.explain(null, null)', 'There is no feed NULL.', /^Use one of: /],
    [`promo.explain('acme', 'never')`, `No event 'never' is decided in the feed 'acme'.`, /^Ask the sender/],
    [`promo.explain('acme', null)`, `No event NULL is decided in the feed 'acme'.`, /^Ask the sender/],
    [`promo.explain_round('none', 'r')`, `There is no feed 'none'.`, /^Use one of: /],
    [
      `promo.explain_round('acme', 'never')`,
      `No event of round 'never' is decided in the feed 'acme'.`,
      /^Explain one of its events/,
    ],
  ])('%s says that there is none, and the next step', async (call, what, next) => {
    await store.partition('acme').read(aBet());
    expect(await told(call)).toEqual([[what, expect.any(String), expect.stringMatching(next)]]);
  });

  test('an event whose month was dropped keeps its verdict', async () => {
    await acme.read(aBet({ event_id: 'e' }));
    store.damaged = true;
    await store.pool.query('delete from promo_store.history');
    expect((await told(`promo.explain('acme', 'e')`)).map(([what]) => what)).toEqual([
      'Decided: accepted.',
      'Whether it counts now is not known.',
    ]);
  });

  test('a round, with each event, its anomalies and its state', async () => {
    await acme.read(
      aBet({ event_id: 'b', round_id: 'r', amount: '10' }),
      aSettled({ event_id: 's', round_id: 'r', amount: '9' }),
    );
    await acme.read(
      aWin({ event_id: 'w', round_id: 'r', amount: '4' }),
      aBet({ event_id: 'z', round_id: 'r', amount: '0' }),
    );
    const story = (await told(`promo.explain_round('acme', 'r')`)).map(([what]) => what);
    expect(story).toEqual([
      `b: accepted. A bet of 10.00 EUR by connection 'acme-stream'.`,
      `s: accepted. A settled of 9.00 EUR by connection 'acme-stream'.`,
      `w: accepted. A win of 4.00 EUR by connection 'acme-stream'.`,
      `z: skipped, zero_amount. A bet of 0.00 EUR by connection 'acme-stream'.`,
      'It contradicts itself: settled_mismatch.',
      'The round is settled. Counted: bets 10.00, wins 4.00, settled 9.00 EUR.',
    ]);
    await acme.read(aRefund({ event_id: 'x', round_id: 'r' }));
    expect((await told(`promo.explain_round('acme', 'r')`)).at(-1)?.slice(1)).toEqual([
      'Nothing of it counts now.',
      'Nothing to do.',
    ]);
  });
});
