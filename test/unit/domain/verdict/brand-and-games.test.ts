/** The brand of an event (V8), and the promotion rules of the brand (G1-G5). */
import type { OperatorEntry } from '../../../../src/domain/reference';
import {
  aBet,
  aBrand,
  aConnection,
  aDeposit,
  aLogin,
  anEvent,
  aRefund,
  aSettled,
  aWin,
  type EventJson,
  without,
} from '../../../support/builders';
import { faultsOf, judged, ONE_BRAND, SEVERAL, verdictOf } from '../world';

const KINDS = ['bet', 'win', 'settled', 'refund', 'deposit', 'withdrawal', 'login'];
const verdictsOf = (kinds: readonly string[], changes: EventJson, operator: Partial<OperatorEntry>) =>
  Object.fromEntries(kinds.map((kind) => [kind, verdictOf(anEvent(kind, changes), aConnection(operator))]));
const each = (kinds: readonly string[], verdict: string) =>
  Object.fromEntries(kinds.map((kind) => [kind, verdict]));

describe('the brand of an event [V8]', () => {
  it('a connection with several brands needs a brand [C2]', () => {
    for (const kind of KINDS) expect(verdictOf(without(anEvent(kind), 'brand'))).toBe('rejected/no_brand');
    expect(verdictOf(aBet({ brand: 'main' }))).toBe('accepted');
  });

  it('a connection with one brand forbids it, even the right or an empty brand [C2]', () => {
    for (const kind of KINDS)
      for (const brand of ['main', 'nobody', ''])
        expect(verdictOf(anEvent(kind, { brand }), ONE_BRAND)).toBe('rejected/brand_unexpected');
    expect(verdictOf(without(aBet(), 'brand'), ONE_BRAND)).toBe('accepted');
  });

  it('a brand that the operator does not have is unmapped, also an empty brand', () => {
    for (const brand of ['nobody', 'Main', 'main ', '', 'acme', '__proto__', 'constructor'])
      expect(verdictOf(aBet({ brand }))).toBe('rejected/brand_unmapped');
  });

  it("a brand of another operator is unmapped, and an operator's only brand is not supplied", () => {
    const other = aConnection({ id: 'borealis', brands: [aBrand({ id: 'north' })] });
    expect(verdictOf(aBet({ brand: 'main' }), other)).toBe('rejected/brand_unmapped');
    expect(verdictOf(without(aBet(), 'brand'), other)).toBe('rejected/no_brand');
  });

  it('an inactive brand, or a brand of an inactive operator, accepts no event', () => {
    const brandOff = { brands: [aBrand({ active: false }), aBrand({ id: 'other' })] };
    const operatorOff = { active: false };
    expect(verdictsOf(KINDS, {}, brandOff)).toEqual(each(KINDS, 'rejected/operator_inactive'));
    expect(verdictsOf(KINDS, {}, operatorOff)).toEqual(each(KINDS, 'rejected/operator_inactive'));
    expect(verdictsOf(KINDS, { brand: 'other' }, brandOff)).toEqual(each(KINDS, 'accepted'));
    for (const operator of [brandOff, operatorOff])
      expect(verdictOf(without(aBet(), 'brand'), aConnection(operator, { brand: 'main' }))).toBe(
        'rejected/operator_inactive',
      );
  });

  it('each fault is at /brand and explains itself', () => {
    const faultOf = (event: EventJson, connection = SEVERAL) => judged(event, connection).faults;
    expect(faultOf(without(aBet(), 'brand'))).toEqual([
      {
        reason: 'no_brand',
        field: '/brand',
        detail: 'the connection carries several brands, but brand is missing',
      },
    ]);
    expect(faultOf(aBet(), ONE_BRAND)).toEqual([
      {
        reason: 'brand_unexpected',
        field: '/brand',
        detail:
          'the connection carries one brand, "main", so brand must be absent, but it is the text "main"',
      },
    ]);
    expect(faultOf(aBet({ brand: 'x' }))).toEqual([
      {
        reason: 'brand_unmapped',
        field: '/brand',
        detail: 'the brand "x" is not registered for the operator; registered: "main"',
      },
    ]);
    expect(faultOf(aBet({ brand: 'Mian' }))[0]?.detail).toMatch(/registered: "main"; did you mean "main"\?$/);
    expect(faultOf({ ...without(aBet(), 'brand'), brand_id: 'main' })[0]?.detail).toMatch(
      /brand is missing; there is "brand_id": did you mean brand\?$/,
    );
    expect(faultOf(aBet(), aConnection({ active: false }))).toEqual([
      { reason: 'operator_inactive', field: '/brand', detail: 'the operator is not active' },
    ]);
    expect(faultOf(aBet(), aConnection({ brands: [aBrand({ active: false })] }))[0]?.detail).toBe(
      'the brand "main" is not active',
    );
  });
});

describe('zero [G1]', () => {
  it('a bet or settled of zero is skipped, every other kind with zero is decided [G5]', () => {
    const moneyKinds = KINDS.filter((kind) => kind !== 'login');
    expect(verdictsOf(moneyKinds, { amount: '0' }, {})).toEqual({
      ...each(['bet', 'settled'], 'skipped/zero_amount'),
      ...each(['win', 'refund', 'deposit', 'withdrawal'], 'accepted'),
    });
  });

  it('one minor unit is not zero', () => {
    expect(verdictOf(aBet({ amount: '0.01' }))).toBe('accepted');
    expect(verdictOf(aSettled({ amount: '0.01' }))).toBe('accepted');
  });
});

describe('games [G2]', () => {
  const withGames = (games: { deny?: string[]; allow?: string[] }) => ({
    brands: [aBrand({ games: { deny: [], ...games } })],
  });
  const READ = ['bet', 'win', 'settled'];
  const NOT_READ = ['refund', 'deposit', 'withdrawal', 'login'];

  it('a denied game is skipped for bet, win and settled, never for refund', () => {
    expect(verdictsOf(KINDS, { game: { id: 'g9' } }, withGames({ deny: ['g8', 'g9'] }))).toEqual({
      ...each(READ, 'skipped/game_denied'),
      ...each(NOT_READ, 'accepted'),
    });
  });

  it('with a list of games, another game is skipped', () => {
    expect(verdictsOf(KINDS, { game: { id: 'g3' } }, withGames({ allow: ['g1', 'g2'] }))).toEqual({
      ...each(READ, 'skipped/game_not_allowed'),
      ...each(NOT_READ, 'accepted'),
    });
    expect(verdictsOf(KINDS, { game: { id: 'g2' } }, withGames({ allow: ['g1', 'g2'] }))).toEqual(
      each(KINDS, 'accepted'),
    );
  });

  it('with a list of games, an event without a game is skipped', () => {
    const connection = aConnection(withGames({ allow: ['g1'] }));
    expect(verdictOf(without(aBet(), 'game'), connection)).toBe('skipped/game_not_allowed');
    expect(verdictOf(aWin({ game: {} }), connection)).toBe('skipped/game_not_allowed');
    expect(verdictOf(without(aRefund(), 'game'), connection)).toBe('accepted');
  });

  it('an empty list allows nothing', () => {
    const connection = aConnection(withGames({ allow: [] }));
    expect(verdictOf(aBet(), connection)).toBe('skipped/game_not_allowed');
    expect(verdictOf(without(aBet(), 'game'), connection)).toBe('skipped/game_not_allowed');
  });

  it('a game in both lists is denied', () => {
    const connection = aConnection(withGames({ deny: ['g1'], allow: ['g1'] }));
    expect(verdictOf(aBet(), connection)).toBe('skipped/game_denied');
  });

  it('a list of denied games accepts an event without a game', () => {
    const connection = aConnection(withGames({ deny: ['g9', ''] }));
    expect(verdictOf(without(aBet(), 'game'), connection)).toBe('accepted');
    expect(verdictOf(aBet({ game: { id: '' } }), connection)).toBe('skipped/game_denied');
  });

  it('the rules come from the brand of the event or of the connection', () => {
    const brands = [aBrand({ games: { deny: ['g1'] } }), aBrand({ id: 'other' })];
    const connection = aConnection({ brands });
    expect(verdictOf(aBet({ brand: 'main' }), connection)).toBe('skipped/game_denied');
    expect(verdictOf(aBet({ brand: 'other' }), connection)).toBe('accepted');
    expect(verdictOf(without(aBet(), 'brand'), aConnection({ brands }, { brand: 'main' }))).toBe(
      'skipped/game_denied',
    );
  });
});

describe('the smallest bet [G3]', () => {
  const brands = [aBrand({ minBet: { EUR: '0.10', BTC: '0.00001', jpy: '10' } })];
  const connection = aConnection({ brands });

  it.each([
    ['0.09', 'EUR', 'skipped/below_min_bet'],
    ['0.10', 'EUR', 'accepted'],
    ['0.1', 'EUR', 'accepted'],
    ['0.11', 'eur', 'accepted'],
    ['0.01', 'eur', 'skipped/below_min_bet'],
    ['0.01', 'USD', 'accepted'],
    ['0.00000999', 'BTC', 'skipped/below_min_bet'],
    ['0.00001', 'BTC', 'accepted'],
    ['9', 'JPY', 'skipped/below_min_bet'],
    ['10', 'JPY', 'accepted'],
  ])('a bet of %s %s is %s', (amount, currency, expected) => {
    expect(verdictOf(aBet({ amount, currency }), connection)).toBe(expected);
  });

  it('applies only to bets [G5]', () => {
    expect(verdictsOf(KINDS, { amount: '0.01' }, { brands })).toEqual({
      ...each(KINDS, 'accepted'),
      bet: 'skipped/below_min_bet',
    });
  });

  it('does not apply to an invalid amount', () => {
    expect(faultsOf(aBet({ amount: '1,5' }), connection)).toEqual(['bad_amount /amount']);
  });

  it('belongs to the brand', () => {
    const two = aConnection({ brands: [...brands, aBrand({ id: 'other' })] });
    expect(verdictOf(aBet({ amount: '0.01', brand: 'other' }), two)).toBe('accepted');
  });
});

describe('the catalogue [G4]', () => {
  const catalogue = [
    { id: 'g1', active: true },
    { id: 'g2', active: false },
  ];

  it('a bet or settled needs an active game of it', () => {
    expect(verdictsOf(KINDS, { game: { id: 'g1' } }, { catalogue })).toEqual(each(KINDS, 'accepted'));
    for (const game of [{ id: 'g2' }, { id: 'g3' }, { id: '' }, { id: 'constructor' }, {}])
      expect(verdictsOf(KINDS, { game }, { catalogue })).toEqual({
        ...each(KINDS, 'accepted'),
        ...each(['bet', 'settled'], 'skipped/game_unknown'),
      });
    expect(verdictOf(without(aBet(), 'game'), aConnection({ catalogue }))).toBe('skipped/game_unknown');
  });

  it('a single inactive entry is a catalogue', () => {
    const connection = aConnection({ catalogue: [{ id: 'g2', active: false }] });
    expect(verdictOf(aBet(), connection)).toBe('skipped/game_unknown');
    expect(verdictOf(without(aSettled(), 'game'), connection)).toBe('skipped/game_unknown');
  });

  it('without a catalogue, any game counts, and also an event without a game', () => {
    expect(verdictOf(aBet({ game: { id: 'whatever' } }))).toBe('accepted');
    expect(verdictOf(without(aBet(), 'game'))).toBe('accepted');
  });
});

describe('account kinds read no promotion rule [G5]', () => {
  it('for any brand and catalogue', () => {
    const strict = {
      brands: [aBrand({ games: { deny: ['g1'], allow: [] }, minBet: { EUR: '1000' } })],
      catalogue: [{ id: 'g2', active: true }],
    };
    const account = ['deposit', 'withdrawal', 'login'];
    expect(verdictsOf(account, { game: { id: 'g1' } }, strict)).toEqual(each(account, 'accepted'));
    expect(verdictOf(aDeposit({ amount: '0' }), aConnection(strict))).toBe('accepted');
    expect(verdictOf(aLogin(), aConnection(strict))).toBe('accepted');
  });
});

describe('the fault of a skipped event has a place and a reason', () => {
  const strict = (games: { deny: string[]; allow?: string[] }) =>
    aConnection({ brands: [aBrand({ games })] });
  const catalogue = aConnection({ catalogue: [{ id: 'g2', active: true }] });
  const NO_GAME = 'the event names no game, but the catalogue holds games';
  const minimum = aConnection({ brands: [aBrand({ minBet: { EUR: '100' } })] });

  it.each([
    ['game_denied', '/game/id', 'the brand excludes the game "g1"', aBet(), strict({ deny: ['g1'] })],
    [
      'game_not_allowed',
      '/game/id',
      'the game "g1" is not on the list of games that the brand allows',
      aBet(),
      strict({ deny: [], allow: [] }),
    ],
    [
      'game_not_allowed',
      '/game',
      'the event names no game, but the brand lists the games that it allows',
      without(aBet(), 'game'),
      strict({ deny: [], allow: [] }),
    ],
    [
      'below_min_bet',
      '/amount',
      "the bet of 10.50 EUR is below the brand's minimum of 100.00 EUR",
      aBet(),
      minimum,
    ],
    ['game_unknown', '/game/id', NO_GAME, aBet({ game: {} }), catalogue],
    ['game_unknown', '/game', NO_GAME, without(aBet(), 'game'), catalogue],
    [
      'game_unknown',
      '/game/id',
      `${NO_GAME}; game has "game_id": did you mean id?`,
      aBet({ game: { provider: 'x', game_id: 'g1' } }),
      catalogue,
    ],
    [
      'game_unknown',
      '/game/id',
      `${NO_GAME}; game has "ID": did you mean id?`,
      aBet({ game: { ID: 'g1' } }),
      catalogue,
    ],
    [
      'game_unknown',
      '/game',
      `${NO_GAME}; there is "gameId": did you mean "game": {"id": ...}?`,
      { ...without(aBet(), 'game'), gameId: 'g1' },
      catalogue,
    ],
    ['game_unknown', '/game/id', 'the catalogue has no active game "g1"', aBet(), catalogue],
    [
      'game_unknown',
      '/game/id',
      'the catalogue has no active game "g1": it lists the game as inactive',
      aBet(),
      aConnection({ catalogue: [{ id: 'g1', active: false }] }),
    ],
  ])('%s at %s', (reason, field, detail, event, connection) => {
    expect(judged(event, connection).faults).toEqual([{ reason, field, detail }]);
    expect(faultsOf(event, connection)).toEqual([`${reason} ${field}`]);
  });

  it.each([
    ['a text', '/game', 'g1'],
    ['a list', '/game', ['g1']],
    ['null', '/game', null],
    ['an id of another type', '/game/id', { id: 1 }],
    ['an id that the store cannot hold', '/game/id', { id: '\0' }],
  ])('a game with a fault of its own has that fault alone: %s', (_, field, game) => {
    for (const connection of [catalogue, strict({ deny: [], allow: [] })])
      expect(faultsOf(aBet({ game }), connection)).toEqual([`malformed ${field}`]);
    expect(faultsOf(aBet({ game }), minimum)).toEqual([`malformed ${field}`, 'below_min_bet /amount']);
  });

  it('a brand of the wrong type has one fault', () => {
    for (const brand of [5, null, ['main']])
      expect(faultsOf({ ...aBet(), brand }, SEVERAL)).toEqual(['malformed /brand']);
  });
});
