/**
 * The fold over a batch: duplicates, records that are read again, and deliveries without a verdict row (V1,
 * K3, K4, D2).
 */
import { decide, deliveryKey, type KeyedItem, unstoredKey } from '../../../../src/domain/verdict/decide';
import { ACCEPTED, outcomeOf } from '../../../../src/domain/verdict/reasons';
import {
  type AnEvent,
  aBet,
  aDeposit,
  aLogin,
  aRefund,
  aSettledOf,
  nothingKnown,
} from '../../../support/builders';
import { itemOf, judged, SEVERAL } from '../world';

const at = (offset: number, partitionNo = 1) => ({ partitionNo, offset });
const item = (event: AnEvent, source: KeyedItem['source']) => itemOf(judged(event), SEVERAL, source);
const fresh = (counted: boolean, outcome = ACCEPTED) => ({
  type: 'decided',
  outcome,
  counted,
  redelivered: false,
});

describe('an event gets one verdict [V1]', () => {
  const bet = aBet();

  it('the second of two equal events in a batch is a duplicate', () => {
    const { decisions } = decide([item(bet, at(0)), item(bet, at(1))], nothingKnown());
    expect(decisions).toEqual([
      fresh(true),
      {
        type: 'duplicate',
        first: ACCEPTED,
        firstTransport: 'kafka',
        contentDiffers: false,
        redelivered: false,
      },
    ]);
  });

  it('the same event in a later batch, or in another partition', () => {
    const known = nothingKnown();
    decide([item(bet, at(0))], known);
    for (const source of [at(7), at(0, 2), at(1)])
      expect(decide([item(bet, source)], known).decisions).toMatchObject([{ type: 'duplicate' }]);
  });

  it('by a webhook, which has no coordinates', () => {
    const known = nothingKnown();
    const twice = decide([item(bet, null), item(bet, null)], known).decisions;
    const byWebhook = { type: 'duplicate', firstTransport: 'webhook', redelivered: false };
    expect(twice).toMatchObject([{ type: 'decided' }, byWebhook]);
    expect(decide([item(bet, at(0))], known).decisions).toMatchObject([byWebhook]);
    const other = aBet();
    decide([item(other, at(1))], known);
    const byKafka = { type: 'duplicate', firstTransport: 'kafka' };
    expect(decide([item(other, null)], known).decisions).toMatchObject([byKafka]);
  });

  it('a duplicate of a rejected or skipped event is a duplicate, and names the first verdict', () => {
    for (const [changes, reason] of [
      [{ spec: 'x' }, 'malformed'],
      [{ amount: '0' }, 'zero_amount'],
    ] as const) {
      const known = nothingKnown();
      decide([item(aBet({ event_id: 'e-1', ...changes }), at(0))], known);
      expect(decide([item(aBet({ event_id: 'e-1' }), at(1))], known).decisions).toEqual([
        {
          type: 'duplicate',
          first: outcomeOf(reason),
          firstTransport: 'kafka',
          contentDiffers: true,
          redelivered: false,
        },
      ]);
    }
  });

  it('a duplicate has a mark for content that differs from the first [K4]', () => {
    const again = (changes: object) =>
      decide([item(bet, at(0)), item({ ...bet, ...changes }, at(1))], nothingKnown()).decisions[1];
    expect(again({})).toMatchObject({ contentDiffers: false });
    expect(again({ amount: '10.5', more: 1 })).toMatchObject({ contentDiffers: false });
    expect(again({ amount: '10.51' })).toMatchObject({ contentDiffers: true });
  });

  it('later deliveries are compared with the first [K2]', () => {
    const known = nothingKnown();
    const changed = { ...bet, amount: '99' };
    const { decisions } = decide([item(bet, at(0)), item(changed, at(1)), item(bet, at(2))], known);
    expect(decisions).toMatchObject([{}, { contentDiffers: true }, { contentDiffers: false }]);
  });
});

describe('a record that is read again is no duplicate [K3]', () => {
  const bet = aBet();

  it('it gets its verdict again, and counts nothing more', () => {
    const known = nothingKnown();
    decide([item(bet, at(3))], known);
    expect(decide([item(bet, at(3))], known).decisions).toEqual([
      { type: 'decided', outcome: ACCEPTED, counted: false, redelivered: true },
    ]);
  });

  it('the same offset of another partition is another record', () => {
    const known = nothingKnown();
    decide([item(bet, at(3, 1))], known);
    expect(decide([item(bet, at(3, 2))], known).decisions).toMatchObject([{ type: 'duplicate' }]);
  });

  it('another event at the same coordinates means a topic that was created again: it is decided', () => {
    const known = nothingKnown();
    decide([item(bet, at(0))], known);
    expect(decide([item(aBet(), at(0))], known).decisions).toEqual([fresh(true)]);
  });

  it('a duplicate that is read again makes no second delivery, and has the same answer', () => {
    const duplicate = item({ ...bet, amount: '99' }, at(5));
    const resends = new Map([[deliveryKey(duplicate.feedNo, duplicate.eventId, at(5)), true]]);
    const known = nothingKnown({ resends });
    const { decisions } = decide([item(bet, at(0)), duplicate, item(bet, at(6))], known);
    expect(decisions[1]).toEqual({
      type: 'duplicate',
      first: ACCEPTED,
      firstTransport: 'kafka',
      contentDiffers: true,
      redelivered: true,
    });
    expect(decisions[2]).toEqual({
      type: 'duplicate',
      first: ACCEPTED,
      firstTransport: 'kafka',
      contentDiffers: false,
      redelivered: false,
    });
  });

  it('a recorded duplicate keeps whether its content differed', () => {
    const duplicate = item({ ...bet, amount: '99' }, at(5));
    const resends = new Map([[deliveryKey(duplicate.feedNo, duplicate.eventId, at(5)), false]]);
    const { decisions } = decide([item(bet, at(0)), duplicate], nothingKnown({ resends }));
    expect(decisions[1]).toMatchObject({ contentDiffers: false, redelivered: true });
  });

  it('deliveries differ by partition, offset, feed and event', () => {
    const keys = [
      deliveryKey(1, 'a', at(1, 1)),
      deliveryKey(1, 'b', at(1, 1)),
      deliveryKey(2, 'a', at(1, 1)),
      deliveryKey(11, 'a', at(1, 1)),
      deliveryKey(1, 'a', at(2, 1)),
      deliveryKey(1, 'a', at(1, 2)),
      deliveryKey(1, 'a', at(11, 1)),
      deliveryKey(1, 'a', at(1, 11)),
      deliveryKey(1, '1/a', at(1, 1)),
      deliveryKey(1, '', at(1, 1)),
    ];
    expect(new Set(keys).size).toBe(keys.length);
    expect(deliveryKey(1, 'a', at(1, 1))).toBe(keys[0]);
  });
});

describe('a delivery without a verdict row [V3] [S4]', () => {
  const unstored = (offset: number, deadLetter: 'unclaimed' | null = null) => ({
    type: 'unstored' as const,
    source: at(offset),
    connectionNo: null,
    valueHash: 42n,
    deadLetter,
  });

  it('an event without key, or a dead letter, is answered and changes nothing [V3]', () => {
    const known = nothingKnown();
    const { decisions, changedRounds } = decide([unstored(0), unstored(1, 'unclaimed')], known);
    expect(decisions).toEqual([
      { type: 'unstored', deadLetter: null, redelivered: false },
      { type: 'unstored', deadLetter: 'unclaimed', redelivered: false },
    ]);
    expect(known).toEqual(nothingKnown());
    expect(changedRounds.size).toBe(0);
  });

  it('is recognized when it is read again, by its coordinates and bytes', () => {
    const known = nothingKnown({ unstored: new Set([unstoredKey(at(0), 42n)]) });
    const items = [
      unstored(0),
      { ...unstored(0), valueHash: 43n },
      unstored(1),
      { ...unstored(0), source: at(0, 2) },
    ];
    expect(decide(items, known).decisions.map(({ redelivered }) => redelivered)).toEqual([
      true,
      false,
      false,
      false,
    ]);
    expect(decide([{ ...unstored(0), source: null }], known).decisions).toMatchObject([
      { redelivered: false },
    ]);
  });
});

describe('a batch is decided in the order of arrival, each event by itself [D2] [S1]', () => {
  it('an invalid event does not affect the others', () => {
    const { decisions } = decide(
      [item(aBet(), at(0)), item(aBet({ spec: 'x' }), at(1)), item(aLogin(), at(2))],
      nothingKnown(),
    );
    expect(decisions).toEqual([fresh(true), fresh(false, outcomeOf('malformed')), fresh(true)]);
  });

  it('a skipped account event is not counted', () => {
    const deposit = item(aDeposit({ currency: 'XXX' }), at(0));
    expect(decide([deposit], nothingKnown()).decisions).toEqual([
      fresh(false, outcomeOf('currency_unknown')),
    ]);
  });

  it('an earlier refund or settled of the same batch takes effect', () => {
    const bet = aBet();
    const { decisions } = decide(
      [
        item(aSettledOf(bet), at(0)),
        item(aSettledOf(bet), at(1)),
        item(aRefund(bet), at(2)),
        item(bet, at(3)),
      ],
      nothingKnown(),
    );
    expect(decisions).toEqual([
      { ...fresh(true), anomalies: ['settled_mismatch'] },
      { ...fresh(false), anomalies: ['second_settled'] },
      fresh(false),
      fresh(false, outcomeOf('round_refunded')),
    ]);
  });

  it('the changed rounds are listed, to be stored', () => {
    const bet = item(aBet({ event_id: 'e-1' }), at(0));
    const known = nothingKnown();
    const { changedRounds } = decide(
      [bet, item(aBet({ event_id: 'e-1' }), at(1)), item(aBet({ brand: 'x' }), at(2)), item(aLogin(), at(3))],
      known,
    );
    expect(changedRounds).toEqual(new Set(known.rounds.values()));
    expect([...changedRounds]).toEqual([known.rounds.get(bet.feedNo, bet.fields.roundId!)]);
  });

  it('a known round changes in place, and an unchanged round is not listed', () => {
    const [mine, other] = [item(aBet(), at(0)), item(aBet(), at(1))];
    const known = nothingKnown();
    decide([mine, other], known);
    const rounds = known.rounds.values();
    const settled = aSettledOf(aBet({ round_id: mine.fields.roundId! }));
    const { changedRounds } = decide([item(settled, at(2))], known);
    expect(rounds.map((round) => [round.settled, changedRounds.has(round)])).toEqual([
      [true, true],
      [false, false],
    ]);
    expect(known.rounds.values()).toHaveLength(2);
  });

  it('a stored round continues from its state', () => {
    const bet = aBet();
    const { feedNo } = SEVERAL;
    const earlier = nothingKnown();
    decide([item(aRefund(bet), at(0))], earlier);
    const known = nothingKnown();
    known.rounds.set(feedNo, bet.round_id, earlier.rounds.get(feedNo, bet.round_id)!);
    const { decisions } = decide([item(bet, at(1))], known);
    expect(decisions).toEqual([fresh(false, outcomeOf('round_refunded'))]);
  });

  it('events and rounds of two feeds stay separate, for any ids [K1] [C3]', () => {
    const bet = aBet();
    const elsewhere = { ...SEVERAL, feedNo: SEVERAL.feedNo + 1 };
    const known = nothingKnown();
    const { decisions } = decide(
      [
        item(aRefund(bet, { event_id: 'r' }), at(0)),
        itemOf(judged(bet), elsewhere, at(1)),
        itemOf(judged({ ...bet, event_id: 'r' }), elsewhere, at(2)),
        item(bet, at(3)),
      ],
      known,
    );
    expect(decisions).toEqual([
      fresh(false),
      fresh(true),
      fresh(true),
      fresh(false, outcomeOf('round_refunded')),
    ]);
    expect(known.rounds.values()).toHaveLength(2);
  });

  it.each([
    ['kind', { fields: { ...judged(aBet()).fields, kind: null } }],
    ['kind of a round', { fields: { ...judged(aBet()).fields, kind: 'login' as const } }],
    ['player', { fields: { ...judged(aBet()).fields, playerRef: null } }],
    ['brand', { brandNo: null }],
  ])('an event of a round without %s is a defect of judging, and fails by itself [V9]', (_, lacking) => {
    const broken = { ...item(aBet(), at(0)), ...lacking };
    expect(() => decide([broken], nothingKnown())).toThrow('a round event lacks kind, player or brand');
  });
});
