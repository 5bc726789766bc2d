/**
 * Rounds: the effect of each event on its round (R1-R9), in any order, and the anomalies of the round
 * (A1-A4).
 */
import fc from 'fast-check';
import { decide } from '../../../../src/domain/verdict/decide';
import {
  type ARoundEvent,
  aBet,
  aBrand,
  aConnection,
  aDeposit,
  aLogin,
  anotherBet,
  aRefund,
  aSettled,
  aSettledOf,
  aWin,
  aWinOf,
  without,
} from '../../../support/builders';
import { itemOf, judged, SEVERAL, World } from '../world';

const bet = aBet({ amount: '10.00' });
const win = aWinOf(bet, { amount: '25.00' });
const settled = aSettledOf(bet);
const refund = aRefund(bet);
const REFUNDED = 'skipped/round_refunded';

/** A world to which events were delivered. */
const after = (...events: Parameters<World['deliver']>[0]) => {
  const world = new World();
  world.deliver(events);
  return world;
};

describe('these events count [R7] [R1]', () => {
  it('a bet, a win and the settled of a round without a refund', () => {
    const world = new World();
    expect(world.deliver([bet, win, settled])).toEqual(['accepted', 'accepted', 'accepted']);
    expect(world.net()).toEqual({ 'bet EUR': 1000n, 'settled EUR': 1000n, 'win EUR': 2500n });
  });

  it('deposit, withdrawal and login, which belong to no round [G5]', () => {
    const world = new World();
    const events = [aDeposit({ round_id: bet.round_id }), aDeposit({ kind: 'withdrawal' }), aLogin()];
    expect(world.deliver(events)).toEqual(['accepted', 'accepted', 'accepted']);
    expect(world.known.rounds.values()).toEqual([]);
    expect(world.net()).toEqual({ 'deposit EUR': 10000n, login: 0n, 'withdrawal EUR': 10000n });
  });

  it('a refund has no entry of its own', () => {
    const world = new World();
    expect(world.deliver([refund])).toEqual(['accepted']);
    expect(world.entries).toEqual([]);
  });

  it('not a rejected or skipped event [V1]', () => {
    const world = after(aBet({ spec: 'x' }), aBet({ amount: '0' }), aBet({ currency: 'XXX' }));
    expect(world.entries).toEqual([]);
  });

  it('several bets of one round, each by itself [R7]', () => {
    const world = after(bet, anotherBet(bet, { amount: '2.50' }), anotherBet(bet, { amount: '0.01' }));
    expect(world.net()).toEqual({ 'bet EUR': 1251n });
  });

  it('sums may exceed 64 bits [M5]', () => {
    const largest = { currency: 'ETH', amount: '9.223372036854775807' };
    const world = after(
      aBet({ ...largest, round_id: 'r' }),
      aBet({ ...largest, round_id: 'r' }),
      aBet({ ...largest, round_id: 'r' }),
    );
    expect(world.net()).toEqual({ 'bet ETH': 3n * (2n ** 63n - 1n) });
  });
});

describe('a refund removes the whole round [R2]', () => {
  it.each([
    ['bet', [bet]],
    ['settled', [settled]],
    ['bet and settled', [bet, settled]],
    ['bet, win and settled', [bet, win, settled]],
    ['several bets', [bet, anotherBet(bet), anotherBet(bet)]],
  ])('that held %s', (_, events) => {
    const world = after(...events, refund);
    expect(world.round.refundedBy).toBe(refund.event_id);
    expect(Object.values(world.net()).every((sum) => sum === 0n)).toBe(true);
    expect(world.entries).toHaveLength(2 * events.length);
  });

  it.each(['0', '0.01', '10.00', '1000000'])('whatever its amount (%s)', (amount) => {
    const world = after(bet, aRefund(bet, { amount }));
    expect(world.net()).toEqual({ 'bet EUR': 0n });
  });

  it('in any other currency, of another player or brand', () => {
    const brands = [aBrand(), aBrand({ id: 'other' })];
    const world = new World();
    const odd = aRefund(bet, { currency: 'JPY', amount: '5', player_ref: 'p-2', brand: 'other' });
    expect(world.deliver([bet, odd], aConnection({ brands }))).toEqual(['accepted', 'accepted']);
    expect(world.net()).toEqual({ 'bet EUR': 0n });
  });

  it('once: a second refund is accepted and reverses nothing [R3]', () => {
    const world = after(bet, refund);
    expect(world.deliver([aRefund(bet)])).toEqual(['accepted']);
    expect(world.round.refundedBy).toBe(refund.event_id);
    expect(world.net()).toEqual({ 'bet EUR': 0n });
    expect(world.entries).toHaveLength(2);
  });

  it('and no other round', () => {
    const world = after(bet, aBet({ amount: '3.00' }), refund);
    expect(world.net()).toEqual({ 'bet EUR': 300n });
  });
});

describe('after the refund [R3]', () => {
  it('a bet that comes later is skipped as round_refunded', () => {
    expect(after(refund).deliver([bet])).toEqual([REFUNDED]);
  });

  it('a settled that comes later is skipped as round_refunded', () => {
    expect(after(bet, refund).deliver([settled])).toEqual([REFUNDED]);
  });

  it('a win that comes later is accepted and counts nothing', () => {
    const world = after(refund);
    expect(world.deliver([win])).toEqual(['accepted']);
    expect(world.entries).toEqual([]);
  });

  it('a bet that is skipped for an earlier reason of V2 keeps that reason [V2]', () => {
    const catalogue = [{ id: 'g1', active: false }];
    const world = after(refund);
    expect(world.deliver([anotherBet(bet, { amount: '0' })])).toEqual(['skipped/zero_amount']);
    expect(world.deliver([anotherBet(bet)], aConnection({ catalogue }))).toEqual(['skipped/game_unknown']);
  });

  it('a skipped bet leaves no trace in the sums', () => {
    const world = after(refund, bet, settled, win);
    expect([...world.round.sums.values()]).toEqual([{ bet: 0n, win: 0n, settled: 0n, belowMinBet: 0n }]);
    expect(world.round.settled).toBe(false);
  });
});

describe('no effect on the round has [R5]', () => {
  it.each([
    ['rejected', aRefund(bet, { amount: '1,5' })],
    ['rejected for its brand', aRefund(bet, { brand: 'nobody' })],
    ['of an unknown currency', aRefund(bet, { currency: 'XXX' })],
  ])('a refund that is %s', (_, ineffective) => {
    const world = after(bet, ineffective);
    expect(world.round.refundedBy).toBeNull();
    expect(world.deliver([settled])).toEqual(['accepted']);
    expect(world.net()).toEqual({ 'bet EUR': 1000n, 'settled EUR': 1000n });
  });

  it('a duplicate whose kind is refund [V1]', () => {
    const world = after(bet);
    expect(world.deliver([aRefund(bet, { event_id: bet.event_id })])).toEqual(['duplicate']);
    expect(world.round.refundedBy).toBeNull();
  });

  it('a rejected event: the round does not begin', () => {
    expect(after(aBet({ brand: 'nobody' })).known.rounds.values()).toEqual([]);
  });
});

describe('one settled a round [R6]', () => {
  it('a second one is accepted, counts nothing, and is an anomaly [A1]', () => {
    const world = after(bet, settled);
    expect(world.round.secondSettled).toBe(false);
    expect(world.deliver([aSettledOf(bet, { amount: '99' })])).toEqual(['accepted']);
    expect(world.net()).toEqual({ 'bet EUR': 1000n, 'settled EUR': 1000n });
    expect(world.round).toMatchObject({ settled: true, secondSettled: true });
  });

  it('the same settled again is a duplicate and no anomaly', () => {
    const world = after(bet, settled);
    expect(world.deliver([settled])).toEqual(['duplicate']);
    expect(world.round.secondSettled).toBe(false);
  });

  it('a settled that is not accepted is not the first', () => {
    const world = after(bet, aSettledOf(bet, { amount: '0' }), aSettledOf(bet, { amount: '1,5' }));
    expect(world.round.settled).toBe(false);
    expect(world.deliver([settled])).toEqual(['accepted']);
    expect(world.round.secondSettled).toBe(false);
  });

  it('another round has its own settled', () => {
    const world = after(settled, aSettled());
    expect(world.known.rounds.values().map(({ secondSettled }) => secondSettled)).toEqual([false, false]);
  });
});

describe('anomalies of a round [A2]', () => {
  it('settled is compared with the sum of bets that are accepted or below the minimum, by currency [A2]', () => {
    const world = new World();
    const connection = aConnection({ brands: [aBrand({ minBet: { EUR: '1.00' } })] });
    const small = anotherBet(bet, { amount: '0.40' });
    const zero = anotherBet(bet, { amount: '0' });
    expect(
      world.deliver([bet, small, small, zero, aSettledOf(bet, { amount: '10.40' })], connection),
    ).toEqual(['accepted', 'skipped/below_min_bet', 'duplicate', 'skipped/zero_amount', 'accepted']);
    expect([...world.round.sums].map(([{ code }, sums]) => [code, sums])).toEqual([
      ['EUR', { bet: 1000n, win: 0n, settled: 1040n, belowMinBet: 40n }],
    ]);
  });

  it('a bet that another rule skips is not part of the sum [A2]', () => {
    const world = new World();
    const catalogue = [{ id: 'g2', active: true }];
    world.deliver([bet], aConnection({ catalogue }));
    expect([...world.round.sums.values()]).toEqual([{ bet: 0n, win: 0n, settled: 0n, belowMinBet: 0n }]);
  });

  it('an event with an unknown currency has no currency [A3]', () => {
    expect([...after(aBet({ currency: 'XXX' })).round.sums]).toEqual([]);
  });

  const brands = [aBrand(), aBrand({ id: 'other' })];
  const connection = aConnection({ brands });
  const noted = (...events: readonly ARoundEvent[]) => {
    const world = new World();
    world.deliver(events, connection);
    const { playerMismatch, brandMismatch, sums } = world.round;
    return { playerMismatch, brandMismatch, currencies: [...sums.keys()].map(({ code }) => code).sort() };
  };
  const none = { playerMismatch: false, brandMismatch: false, currencies: ['EUR'] };

  it('matching events are no anomaly [A3]', () => {
    expect(noted(bet, win, settled, refund)).toEqual(none);
  });

  it.each([
    ['another player', { player_ref: 'p-2' }, { ...none, playerMismatch: true }],
    ['another brand', { brand: 'other' }, { ...none, brandMismatch: true }],
    ['another currency', { currency: 'USD' }, { ...none, currencies: ['EUR', 'USD'] }],
  ])('%s in any event that was not rejected [A3]', (_, changes, expected) => {
    for (const odd of [
      anotherBet(bet, changes),
      aWinOf(bet, changes),
      aSettledOf(bet, changes),
      aRefund(bet, changes),
    ]) {
      expect(noted(bet, odd)).toEqual(expected);
      expect(noted(odd, bet)).toEqual(expected);
      expect(noted(bet, odd, win)).toEqual(expected);
      expect(noted(refund, bet, odd)).toEqual(expected);
    }
    expect(noted(bet, anotherBet(bet, { ...changes, amount: '0' }))).toEqual(expected);
    expect(noted(bet, anotherBet(bet, { ...changes, spec: 'x' }))).toEqual(none);
  });
});

describe('the answer of an event has the anomalies that it makes [A4]', () => {
  const other = aBrand({ id: 'other' });
  const connection = aConnection({ brands: [aBrand({ minBet: { EUR: '1.00' } }), other] });
  /** The anomalies that each answer names. */
  const named = (world: World, ...events: readonly ARoundEvent[]) =>
    events.map((event) => {
      const source = world.nextSource();
      const [decision] = world.decide([itemOf(judged(event, connection), connection, source)]);
      if (decision === undefined || decision.type === 'unstored') throw new Error('a keyed event is decided');
      return decision.anomalies ?? [];
    });

  it('every settled after the first is an anomaly, but not a skipped one [A1]', () => {
    const more = [aSettledOf(bet), aSettledOf(bet, { amount: '0' }), aSettledOf(bet, { amount: '7' })];
    expect(named(new World(), bet, settled, ...more)).toEqual([
      ...[[], []],
      ...[['second_settled'], [], ['second_settled']],
    ]);
  });

  it('settled before its bets is a mismatch until they come; a bet beyond the sum makes one [A2]', () => {
    const half = () => anotherBet(bet, { amount: '5.00' });
    expect(named(new World(), settled, half(), half(), half())).toEqual([
      ['settled_mismatch'],
      ...[[], []],
      ['settled_mismatch'],
    ]);
    expect(named(new World(), bet, settled, anotherBet(bet, { amount: '0.40' }))).toEqual([
      ...[[], []],
      ['settled_mismatch'],
    ]);
    expect(named(new World(), bet, refund, settled, half())).toEqual([[], [], [], []]);
  });

  it.each([
    ['player_mismatch', { player_ref: 'p-2' }],
    ['brand_mismatch', { brand: 'other' }],
    ['currency_mismatch', { currency: 'USD' }],
  ])(
    '%s is in the answer of each event that differs from the first of its round, also of a skipped one [A3]',
    (anomaly, changes) => {
      const [odd, zero] = [aWinOf(bet, changes), anotherBet(bet, { ...changes, amount: '0' })];
      expect(named(new World(), bet, odd, win, zero, aRefund(bet, changes))).toEqual([
        ...[[], [anomaly], []],
        ...[[anomaly], [anomaly]],
      ]);
      expect(named(new World(), bet, anotherBet(bet, { ...changes, spec: 'x' }))).toEqual([[], []]);
    },
  );

  it('several anomalies have a fixed order', () => {
    const odd = aSettledOf(bet, { player_ref: 'p-2', brand: 'other', currency: 'USD' });
    expect(named(new World(), bet, odd)).toEqual([
      [],
      ['settled_mismatch', 'player_mismatch', 'brand_mismatch', 'currency_mismatch'],
    ]);
  });

  it('a redelivery and a duplicate have the current anomalies of the round that the event takes part in [K3]', () => {
    const world = new World();
    const stranger = aWinOf(bet, { player_ref: 'p-2' });
    expect(named(world, settled, stranger)).toEqual([['settled_mismatch'], ['player_mismatch']]);
    const again = (event: ARoundEvent, offset: number) =>
      decide([itemOf(judged(event, connection), connection, { partitionNo: 1, offset })], world.known)
        .decisions[0];
    const redelivery = { type: 'decided', redelivered: true };
    expect(again(settled, 0)).toMatchObject({ ...redelivery, anomalies: ['settled_mismatch'] });
    expect(again(stranger, 1)).toMatchObject({ ...redelivery, anomalies: ['player_mismatch'] });
    expect(again(stranger, 90)).toMatchObject({ type: 'duplicate', anomalies: ['player_mismatch'] });
    // The bet resolves the mismatch that its settled made.
    expect(named(world, bet)).toEqual([[]]);
    expect(again(settled, 0)).not.toHaveProperty('anomalies');
    // Where the content differs, the decided content is not known.
    const changed = { ...stranger, amount: '1.00' };
    expect(again(changed, 91)).toMatchObject({ type: 'duplicate', contentDiffers: true });
    expect(again(changed, 91)).not.toHaveProperty('anomalies');
    named(world, aSettledOf(bet));
    expect(again(settled, 92)).toMatchObject({ type: 'duplicate', anomalies: ['second_settled'] });
  });

  it('the answers of a round have all anomalies of its final state, except resolved sums', () => {
    const event = fc
      .record({
        kind: fc.constantFrom('bet', 'bet', 'win', 'settled', 'refund'),
        amount: fc.constantFrom('0', '0.50', '2', '4'),
        player_ref: fc.constantFrom('p-1', 'p-1', 'p-2'),
        brand: fc.constantFrom('main', 'main', 'other'),
        currency: fc.constantFrom('EUR', 'EUR', 'USD'),
      })
      .map((changes) => anotherBet(bet, changes));
    fc.assert(
      fc.property(fc.array(event, { minLength: 1, maxLength: 8 }), (events) => {
        const world = new World();
        const all = new Set<string>(named(world, ...events).flat());
        const { round } = world;
        const mismatch = [...round.sums.values()].some(
          ({ settled, bet, belowMinBet }) => settled !== bet + belowMinBet,
        );
        expect(all.has('second_settled')).toBe(round.secondSettled);
        expect(all.has('player_mismatch')).toBe(round.playerMismatch);
        expect(all.has('brand_mismatch')).toBe(round.brandMismatch);
        expect(all.has('currency_mismatch')).toBe(round.sums.size > 1);
        if (round.settled && !round.refunded && mismatch) expect(all).toContain('settled_mismatch');
      }),
    );
  });
});

describe('the order of arrival does not matter [R1] [R8]', () => {
  const amount = fc.integer({ min: 0, max: 5_000 }).map((minor) => (minor / 100).toFixed(2));
  const currency = fc.constantFrom('EUR', 'USD');
  const player = fc.constantFrom('p-1', 'p-1', 'p-2');
  /** A round with at most one settled, some of whose bets are below the minimum of 1.00 EUR. */
  const roundOf = (mayRefund: boolean) =>
    fc
      .record({
        bets: fc.array(fc.record({ amount, currency, player_ref: player }), { maxLength: 4 }),
        wins: fc.array(fc.record({ amount, currency, player_ref: player }), { maxLength: 3 }),
        settled: fc.option(fc.record({ amount, currency })),
        refunds: fc.array(fc.record({ amount }), { maxLength: mayRefund ? 2 : 0 }),
      })
      .map((round) => [
        ...round.bets.map((changes) => aBet({ ...changes, round_id: 'r-1' })),
        ...round.wins.map((changes) => aWin({ ...changes, round_id: 'r-1' })),
        ...(round.settled === null ? [] : [aSettled({ ...round.settled, round_id: 'r-1' })]),
        ...round.refunds.map((changes) => aRefund(aBet({ round_id: 'r-1' }), changes)),
      ]);
  const inAnyOrder = (mayRefund: boolean) =>
    roundOf(mayRefund).chain((events) =>
      fc.record({
        events: fc.constant(events),
        shuffled: fc.shuffledSubarray(events, { minLength: events.length }),
      }),
    );
  const connection = aConnection({ brands: [aBrand({ minBet: { EUR: '1.00' } })] });
  /** Everything that the order must not change. */
  const outcomeOf = (events: readonly ARoundEvent[]) => {
    const world = new World();
    const verdicts = world.deliver(events, connection);
    const [round] = world.known.rounds.values();
    const byEvent = events.map(({ event_id }, i) => `${event_id} ${verdicts[i]}`).sort();
    const sums = [...(round?.sums ?? [])].map(([{ code }, value]) => ({ code, ...value }));
    return {
      byEvent,
      net: world.net(),
      sums: sums.sort((a, b) => (a.code < b.code ? -1 : 1)),
      mismatch: [round?.playerMismatch, round?.brandMismatch, round?.secondSettled],
    };
  };

  it('a round without a refund ends in the same state for any order', () => {
    fc.assert(
      fc.property(inAnyOrder(false), ({ events, shuffled }) => {
        expect(outcomeOf(shuffled)).toEqual(outcomeOf(events));
      }),
    );
  });

  it('a refunded round ends at zero in any order of its bets and its refund', () => {
    const refunded = inAnyOrder(true).filter(({ events }) => events.some(({ kind }) => kind === 'refund'));
    fc.assert(
      fc.property(refunded, ({ events, shuffled }) => {
        const [one, other] = [outcomeOf(events), outcomeOf(shuffled)];
        expect(Object.values(other.net).filter((sum) => sum !== 0n)).toEqual([]);
        expect(other.mismatch).toEqual(one.mismatch);
        const belowMinBet = (outcome: typeof one) =>
          outcome.sums.map((sums) => [sums.code, sums.belowMinBet]);
        expect(belowMinBet(other)).toEqual(belowMinBet(one));
      }),
    );
  });

  it('batch boundaries do not matter', () => {
    const cut = inAnyOrder(true).chain(({ shuffled }) =>
      fc.record({ events: fc.constant(shuffled), at: fc.nat({ max: shuffled.length }) }),
    );
    fc.assert(
      fc.property(cut, ({ events, at }) => {
        const items = events.map((event, offset) =>
          itemOf(judged(event, connection), connection, { partitionNo: 1, offset }),
        );
        const whole = new World();
        const parts = new World();
        const atOnce = decide(items, whole.known).decisions;
        const inTwo = [
          ...decide(items.slice(0, at), parts.known).decisions,
          ...decide(items.slice(at), parts.known).decisions,
        ];
        expect(inTwo).toEqual(atOnce);
        expect(parts.known.rounds).toEqual(whole.known.rounds);
      }),
    );
  });
});

describe('one feed, several connections [R9] [C3]', () => {
  const stream = SEVERAL;
  const solo = { ...aConnection({}, { id: 'acme-solo', brand: 'main' }), feedNo: stream.feedNo };

  it('an event that came by one connection is a duplicate by the other, in any brand mode', () => {
    const world = after(bet);
    expect(world.deliver([bet], solo)).toEqual(['duplicate']);
    expect(world.deliver([without(bet, 'brand')], solo)).toEqual(['duplicate']);
  });

  it('a refund by one connection reverses events of the other', () => {
    const world = after(bet);
    expect(world.deliver([without(refund, 'brand')], solo)).toEqual(['accepted']);
    expect(world.net()).toEqual({ 'bet EUR': 0n });
  });

  it('brands of one feed that use one round id share the round', () => {
    const connection = aConnection({ brands: [aBrand(), aBrand({ id: 'other' })] });
    const world = new World();
    world.deliver([bet, aRefund(bet, { brand: 'other' })], connection);
    expect(world.net()).toEqual({ 'bet EUR': 0n });
  });

  it('another feed has other ids and rounds [K1]', () => {
    const elsewhere = { ...SEVERAL, feedNo: SEVERAL.feedNo + 1 };
    const world = after(bet);
    expect(world.deliver([bet, refund], elsewhere)).toEqual(['accepted', 'accepted']);
    expect(world.known.rounds.values()).toHaveLength(2);
    expect(world.deliver([settled])).toEqual(['accepted']);
  });
});
