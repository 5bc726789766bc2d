/**
 * The reason that an event gets where several apply (V2): the first one of the order in V2.
 *
 * Each fault below makes a valid bet wrong in one way. The tests try every pair of faults that one event can
 * have at once, and any set of them.
 */
import fc from 'fast-check';
import type { BrandEntry, OperatorEntry } from '../../../../src/domain/reference';
import { REASONS } from '../../../../src/domain/verdict/reasons';
import {
  type ARoundEvent,
  aBet,
  aBrand,
  aConnection,
  anEvent,
  aRefund,
  bytesOf,
  type EventJson,
  without,
} from '../../../support/builders';
import { judgeBytes, verdictOf, World } from '../world';

interface Fault {
  readonly verdict: string;
  /** The fields that the fault changes. */
  readonly changes?: EventJson;
  /** The field that the fault removes. */
  readonly lacks?: string;
  readonly brand?: Partial<BrandEntry>;
  readonly operator?: Partial<OperatorEntry>;
  readonly oneBrand?: true;
  readonly refundedBefore?: true;
  /** Faults that no event can have together with this one. */
  readonly excludes?: readonly string[];
}

/** The faults in the order of V2. `panic` is left out: it is no fault of the event. */
const FAULTS: readonly Fault[] = [
  { verdict: 'rejected/no_idempotency_key', lacks: 'event_id' },
  { verdict: 'rejected/malformed', changes: { spec: 'promo.event.v2' } },
  { verdict: 'rejected/op_unknown', changes: { kind: 'bonus' } },
  { verdict: 'rejected/no_player', lacks: 'player_ref' },
  {
    verdict: 'rejected/bad_amount',
    changes: { amount: '1,50' },
    excludes: ['skipped/zero_amount', 'skipped/below_min_bet'],
  },
  {
    verdict: 'rejected/no_brand',
    lacks: 'brand',
    excludes: ['rejected/brand_unexpected', 'rejected/brand_unmapped'],
  },
  { verdict: 'rejected/brand_unexpected', oneBrand: true },
  { verdict: 'rejected/brand_unmapped', changes: { brand: 'nobody' } },
  { verdict: 'rejected/operator_inactive', operator: { active: false } },
  { verdict: 'skipped/currency_unknown', changes: { currency: 'XXX' } },
  { verdict: 'skipped/zero_amount', changes: { amount: '0' } },
  { verdict: 'skipped/game_denied', brand: { games: { deny: ['g1'] } } },
  { verdict: 'skipped/game_not_allowed', brand: { games: { deny: [], allow: ['g2'] } } },
  { verdict: 'skipped/below_min_bet', brand: { minBet: { EUR: '100' } } },
  { verdict: 'skipped/game_unknown', operator: { catalogue: [{ id: 'g1', active: false }] } },
  { verdict: 'skipped/round_refunded', refundedBefore: true },
];

const areCompatible = (faults: readonly Fault[]) =>
  faults.every((one) => !faults.some((other) => one.excludes?.includes(other.verdict)));

/** The verdict of a bet that has all the faults. */
function verdictWith(faults: readonly Fault[]): string {
  const games = { deny: faults.flatMap((f) => f.brand?.games?.deny ?? []) };
  const allow = faults.map((f) => f.brand?.games?.allow).find((list) => list !== undefined);
  const brand = Object.assign({}, ...faults.map((f) => f.brand ?? {}), {
    games: allow === undefined ? games : { ...games, allow },
  });
  const operator = Object.assign({ brands: [aBrand(brand)] }, ...faults.map((f) => f.operator ?? {}));
  const oneBrand = faults.some((f) => f.oneBrand);
  const connection = aConnection(operator, oneBrand ? { brand: 'main' } : {});

  const bet: ARoundEvent = aBet(Object.assign({}, ...faults.map((f) => f.changes ?? {})));
  const lacking = faults.flatMap((f) => f.lacks ?? []);
  const world = new World();
  // Where no refund is accepted, as for an inactive operator, no round is refunded. The first reason is the
  // same.
  if (faults.some((f) => f.refundedBefore)) {
    const before = aConnection({}, oneBrand ? { brand: 'main' } : {});
    const refund = aRefund(aBet({ round_id: bet.round_id }));
    world.deliver([oneBrand ? without(refund, 'brand') : refund], before);
  }
  const [verdict] = [judgeBytes(bytesOf(without(bet, ...lacking)), connection)].map((judgement) =>
    world.decideJudged(judgement, connection),
  );
  return verdict!;
}

it.each(FAULTS.map((fault) => [fault.verdict, fault] as const))(
  'a bet with that one fault is %s [V2]',
  (verdict, fault) => {
    expect(verdictWith([fault])).toBe(verdict);
  },
);

const PAIRS = FAULTS.flatMap((first, i) =>
  FAULTS.slice(i + 1).map((second) => [first, second] as const),
).filter(areCompatible);

it.each(PAIRS.map(([first, second]) => [first.verdict, second.verdict, [first, second]] as const))(
  '%s comes before %s [V2]',
  (first, _, both) => {
    expect(verdictWith(both)).toBe(first);
    expect(verdictWith([...both].reverse())).toBe(first);
  },
);

it('any set of faults gives the reason of the first [V2]', () => {
  const sets = fc.subarray([...FAULTS], { minLength: 1 }).filter(areCompatible);
  fc.assert(fc.property(sets, (faults) => expect(verdictWith(faults)).toBe(faults[0]?.verdict)));
});

it('the faults above are all reasons of V2 except panic, in the order of REASONS [V2]', () => {
  const ofEvents = REASONS.filter(({ name }) => name !== 'panic');
  expect(FAULTS.map(({ verdict }) => verdict)).toEqual(
    ofEvents.map(({ verdict, name }) => `${verdict}/${name}`),
  );
});

it('a duplicate comes before every stored reason [V1] [V2]', () => {
  const faulty = [
    { spec: 'x' },
    { kind: 'bonus' },
    { player_ref: '' },
    { amount: '1,5' },
    { brand: 'nobody' },
    { currency: 'XXX' },
    { amount: '0' },
  ];
  for (const changes of faulty) {
    const world = new World();
    const first = aBet();
    expect(world.deliver([first, { ...first, ...changes }])).toEqual(['accepted', 'duplicate']);
  }
});

describe('an amount and its currency [V7]', () => {
  it.each([
    ['1,5', 'EUR', 'rejected/bad_amount'],
    ['1,5', 'XXX', 'rejected/bad_amount'],
    ['01', 'XXX', 'rejected/bad_amount'],
    ['', 'XXX', 'rejected/bad_amount'],
    ['-0', 'XXX', 'rejected/bad_amount'],
    ['1.505', 'EUR', 'rejected/bad_amount'],
    ['1.505', 'XXX', 'skipped/currency_unknown'],
    ['0.000', 'EUR', 'rejected/bad_amount'],
    ['0.000', 'XXX', 'skipped/currency_unknown'],
    ['0', 'XXX', 'skipped/currency_unknown'],
    ['0', 'EUR', 'skipped/zero_amount'],
    ['0.00', 'EUR', 'skipped/zero_amount'],
    ['9'.repeat(30), 'XXX', 'skipped/currency_unknown'],
    ['9'.repeat(30), 'EUR', 'rejected/bad_amount'],
  ])('"%s" %s is %s', (amount, currency, expected) => {
    expect(verdictOf(aBet({ amount, currency }))).toBe(expected);
    expect(verdictOf(aBet({ kind: 'settled', amount, currency }))).toBe(expected);
  });

  it('without a currency, an amount of wrong form is bad_amount, and any other is currency_unknown', () => {
    expect(verdictOf(without(aBet({ amount: '1,5' }), 'currency'))).toBe('rejected/bad_amount');
    expect(verdictOf(without(aBet({ amount: '0.000' }), 'currency'))).toBe('skipped/currency_unknown');
  });

  it('a currency of a wrong type is malformed, with any amount', () => {
    expect(verdictOf(anEvent('bet', { amount: '1,5', currency: null }))).toBe('rejected/malformed');
  });
});
