/** The format of an event, field by field (F1-F9), and the reason for each broken field (V4, V5). */
import fc from 'fast-check';
import { CURRENCIES } from '../../../../src/domain/event/money';
import { judge } from '../../../../src/domain/verdict/judge';
import {
  aBet,
  aDeposit,
  aLogin,
  anEvent,
  aWin,
  bytesOf,
  type EventJson,
  without,
} from '../../../support/builders';
import { anyCharacter } from '../../../support/texts';
import { faultsOf, judgeBytes, ONE_BRAND, verdictOf } from '../world';

const ROUND_KINDS = ['bet', 'win', 'settled', 'refund'];
const MONEY_KINDS = [...ROUND_KINDS, 'deposit', 'withdrawal'];
const KINDS = [...MONEY_KINDS, 'login'];

const MALFORMED = 'rejected/malformed';

/** One value of each JSON type. */
const VALUES: readonly unknown[] = [null, true, false, 0, 1.5, '', 'text', [], ['x'], {}, { id: 'g1' }];
const isObject = (value: unknown) => typeof value === 'object' && value !== null && !Array.isArray(value);

describe('each kind with its required fields is accepted', () => {
  it.each([
    ['bet', 'bet'],
    ['win', 'win'],
    ['settled', 'settled'],
    ['refund', 'refund'],
    ['deposit', 'deposit'],
    ['withdrawal', 'withdrawal'],
    ['login', 'login'],
  ])('%s [F5] [V1]', (_, kind) => {
    expect(verdictOf(anEvent(kind))).toBe('accepted');
  });

  it.each(['Bet', 'BET', 'bet ', 'bets', 'bonus', 'loss', '', 'constructor', '\ufeffbet', 'bét'])(
    'the kind "%s" is op_unknown [V5] [F5]',
    (kind) => {
      expect(verdictOf(aBet({ kind }))).toBe('rejected/op_unknown');
    },
  );

  it('account kinds need neither round nor game [F8]', () => {
    expect(verdictOf(without(aDeposit(), 'round_id', 'game'))).toBe('accepted');
    expect(verdictOf(without(aLogin(), 'round_id', 'game', 'amount', 'currency'))).toBe('accepted');
  });

  it('a round event needs no game [F7]', () => {
    for (const kind of ROUND_KINDS) {
      expect(verdictOf(without(anEvent(kind), 'game'))).toBe('accepted');
      expect(verdictOf(anEvent(kind, { game: {} }))).toBe('accepted');
      expect(verdictOf(anEvent(kind, { game: { name: 'no id' } }))).toBe('accepted');
    }
  });
});

describe('a missing field', () => {
  it.each([
    ['spec', MALFORMED, KINDS],
    ['kind', MALFORMED, KINDS],
    ['occurred_at', MALFORMED, KINDS],
    ['player_ref', 'rejected/no_player', KINDS],
    ['round_id', MALFORMED, ROUND_KINDS],
    ['amount', 'rejected/bad_amount', MONEY_KINDS],
    ['currency', 'skipped/currency_unknown', MONEY_KINDS],
  ])('%s makes %s [V4] [V5] [F8]', (field, expected, kinds) => {
    for (const kind of kinds) expect(verdictOf(without(anEvent(kind), field))).toBe(expected);
  });

  it('player_ref makes no_player, an empty one too [F4] [V5]', () => {
    expect(verdictOf(without(aLogin(), 'player_ref'))).toBe('rejected/no_player');
    expect(verdictOf(aLogin({ player_ref: '' }))).toBe('rejected/no_player');
  });

  it('amount makes bad_amount [V5] [F8]', () => {
    expect(verdictOf(without(aDeposit(), 'amount'))).toBe('rejected/bad_amount');
  });

  it('round_id of a round kind makes malformed, an empty one too [F7]', () => {
    for (const kind of ROUND_KINDS) {
      expect(verdictOf(without(anEvent(kind), 'round_id'))).toBe(MALFORMED);
      expect(verdictOf(anEvent(kind, { round_id: '' }))).toBe(MALFORMED);
    }
  });

  it('empty is not missing: an empty occurred_at is malformed, an empty currency is unknown', () => {
    expect(verdictOf(aLogin({ occurred_at: '' }))).toBe(MALFORMED);
    expect(verdictOf(aBet({ currency: '' }))).toBe('skipped/currency_unknown');
    expect(verdictOf(aBet({ amount: '' }))).toBe('rejected/bad_amount');
    expect(verdictOf(aBet({ game: { id: '' } }))).toBe('accepted');
  });
});

describe('a field of a wrong type', () => {
  /** The reason that a value of a wrong type gives, for the kinds that read the field. */
  it.each([
    ['spec', MALFORMED, KINDS],
    ['brand', MALFORMED, KINDS],
    ['player_ref', MALFORMED, KINDS],
    ['kind', MALFORMED, KINDS],
    ['occurred_at', MALFORMED, KINDS],
    ['round_id', MALFORMED, ROUND_KINDS],
    ['currency', MALFORMED, MONEY_KINDS],
    ['amount', 'rejected/bad_amount', MONEY_KINDS],
  ])('%s makes %s, null included [V4] [V5]', (field, expected, kinds) => {
    for (const kind of kinds)
      for (const value of VALUES.filter((candidate) => typeof candidate !== 'string'))
        expect([kind, value, verdictOf(anEvent(kind, { [field]: value }))]).toEqual([kind, value, expected]);
  });

  it('a game that is no object makes malformed [F7] [V4]', () => {
    for (const kind of ROUND_KINDS)
      for (const game of VALUES.filter((value) => !isObject(value)))
        expect([kind, game, verdictOf(anEvent(kind, { game }))]).toEqual([kind, game, MALFORMED]);
  });

  it('a game.id that is no string makes malformed [F7] [V4]', () => {
    for (const kind of ROUND_KINDS)
      for (const id of VALUES.filter((value) => typeof value !== 'string'))
        expect([kind, id, verdictOf(anEvent(kind, { game: { id } }))]).toEqual([kind, id, MALFORMED]);
  });

  it('a number as amount is refused, even a whole number [M1]', () => {
    for (const amount of [0, 10, 10.5, -1, 1e300]) {
      expect(verdictOf(anEvent('bet', { amount }))).toBe('rejected/bad_amount');
      expect(verdictOf(aDeposit({ amount, currency: 'JPY' }))).toBe('rejected/bad_amount');
    }
  });

  it('a spec other than promo.event.v1 makes malformed [F2] [V4]', () => {
    for (const spec of ['promo.event.v2', 'promo.event.v1 ', 'Promo.Event.V1', 'promo.event', ''])
      expect(verdictOf(aBet({ spec }))).toBe(MALFORMED);
  });
});

describe('fields that a kind does not read are ignored [F8]', () => {
  const unreadOf = (kind: string) => [
    ...(ROUND_KINDS.includes(kind) ? [] : ['round_id', 'game']),
    ...(kind === 'login' ? ['amount', 'currency'] : []),
  ];

  it.each(['deposit', 'withdrawal', 'login'])('%s [F7]', (kind) => {
    for (const field of unreadOf(kind))
      for (const value of [...VALUES, '\0', '\ud800', '0', 'JPY', '1.234', { id: 7 }, { id: '\0' }])
        expect([field, value, verdictOf(anEvent(kind, { [field]: value }))]).toEqual([
          field,
          value,
          'accepted',
        ]);
  });

  it('with an unknown kind, only the fields that all kinds share are read', () => {
    const unknown = aBet({ kind: 'bonus' });
    for (const field of ['round_id', 'game', 'amount', 'currency']) {
      expect(verdictOf(without(unknown, field))).toBe('rejected/op_unknown');
      for (const value of [...VALUES, '\0', '1.234'])
        expect(verdictOf({ ...unknown, [field]: value })).toBe('rejected/op_unknown');
    }
    for (const field of ['spec', 'brand', 'player_ref', 'occurred_at'])
      expect(verdictOf({ ...unknown, [field]: 7 })).toBe(MALFORMED);
  });

  it('with a missing kind, or a kind that is no string, likewise', () => {
    const kindless = without(anEvent('bet', { amount: 7, currency: 7, round_id: 7, game: 7 }), 'kind');
    expect(faultsOf(kindless)).toEqual(['malformed /kind']);
  });

  it('fields that are not listed are ignored, at the top level and inside game [F1]', () => {
    for (const value of VALUES) {
      expect(verdictOf(aBet({ more: value, event: value, Kind: value }))).toBe('accepted');
      expect(verdictOf(aBet({ game: { id: 'g1', name: value, ID: value } }))).toBe('accepted');
    }
  });
});

describe('an object with a key `events` is a batch, not an event [F9] [V4]', () => {
  it.each(VALUES.map((value) => [JSON.stringify(value), value]))('events: %s', (_, events) => {
    for (const kind of KINDS) expect(verdictOf(anEvent(kind, { events }))).toBe(MALFORMED);
  });

  it('only at the top level', () => {
    expect(verdictOf(aBet({ game: { id: 'g1', events: [] } }))).toBe('accepted');
  });
});

describe('brand and player_ref have up to 255 bytes of UTF-8 [F3] [F4] [V4]', () => {
  const withPlayer = (player: string) => verdictOf(aBet({ player_ref: player }));

  it.each([
    ['a', 255],
    ['é', 127],
    ['€', 85],
    ['😀', 63],
  ])('as many "%s" as fit (%i) are accepted', (character, count) => {
    expect(withPlayer(character.repeat(count))).toBe('accepted');
    expect(withPlayer(character.repeat(count) + 'a'.repeat(255 - Buffer.byteLength(character) * count))).toBe(
      'accepted',
    );
  });

  it.each([
    ['256 letters', 'a'.repeat(256)],
    ['257 letters', 'a'.repeat(257)],
    ['100,000 letters', 'a'.repeat(100_000)],
    ['254 letters and one of two bytes', `${'a'.repeat(254)}é`],
    ['128 of two bytes', 'é'.repeat(128)],
    ['86 of three bytes', '€'.repeat(86)],
    ['64 of four bytes', '😀'.repeat(64)],
    ['255 of four bytes', '😀'.repeat(255)],
    ['128 of four bytes, which are 256 UTF-16 units', '😀'.repeat(128)],
    ['255 of two bytes', 'é'.repeat(255)],
    ['256 of two bytes', 'é'.repeat(256)],
  ])('%s are malformed', (_, name) => {
    for (const kind of KINDS) {
      expect(verdictOf(anEvent(kind, { player_ref: name }))).toBe(MALFORMED);
      expect(verdictOf(anEvent(kind, { brand: name }))).toBe(MALFORMED);
      expect(verdictOf(anEvent(kind, { brand: name }), ONE_BRAND)).toBe(MALFORMED);
    }
  });

  it('a brand of 255 bytes is not malformed', () => {
    expect(verdictOf(aBet({ brand: 'a'.repeat(255) }))).toBe('rejected/brand_unmapped');
    expect(verdictOf(aBet({ brand: `${'😀'.repeat(63)}abc` }))).toBe('rejected/brand_unmapped');
  });

  it('bytes decide, for any text', () => {
    const nearLimit = fc
      .tuple(fc.integer({ min: 200, max: 256 }), fc.string({ unit: anyCharacter, maxLength: 20 }))
      .map(([letters, rest]) => 'a'.repeat(letters) + rest)
      .filter((player) => !player.includes('\0'));
    fc.assert(
      fc.property(nearLimit, (player) => {
        expect(withPlayer(player)).toBe(Buffer.byteLength(player) <= 255 ? 'accepted' : MALFORMED);
      }),
    );
  });

  it('no other field has a limit', () => {
    const long = 'x'.repeat(100_000);
    expect(verdictOf(aBet({ round_id: long, event_id: long, game: { id: long } }))).toBe('accepted');
    expect(verdictOf(aBet({ kind: long }))).toBe('rejected/op_unknown');
    expect(verdictOf(aBet({ currency: long }))).toBe('skipped/currency_unknown');
  });
});

describe('a text that the store cannot hold, in a field that is read [V4] [V5]', () => {
  const UNSTORABLE = ['\0', 'a\0b', '\ud83d', '\ude00', 'a\ude00\ud83db', '\udfff'];

  it.each([
    ['brand', KINDS, MALFORMED],
    ['player_ref', KINDS, MALFORMED],
    ['kind', KINDS, MALFORMED],
    ['spec', KINDS, MALFORMED],
    ['occurred_at', KINDS, MALFORMED],
    ['round_id', ROUND_KINDS, MALFORMED],
    ['currency', MONEY_KINDS, MALFORMED],
    ['amount', MONEY_KINDS, 'rejected/bad_amount'],
  ])('%s', (field, kinds, expected) => {
    for (const kind of kinds)
      for (const text of UNSTORABLE) expect(verdictOf(anEvent(kind, { [field]: text }))).toBe(expected);
  });

  it('game.id', () => {
    for (const kind of ROUND_KINDS)
      for (const id of UNSTORABLE) expect(verdictOf(anEvent(kind, { game: { id } }))).toBe(MALFORMED);
  });

  it('a valid text with one such character is refused too', () => {
    expect(verdictOf(aBet({ amount: '10.50\0' }))).toBe('rejected/bad_amount');
    expect(verdictOf(aBet({ currency: 'EUR\0' }))).toBe(MALFORMED);
    expect(verdictOf(aBet({ kind: 'bet\0' }))).toBe(MALFORMED);
  });

  it('fields that are not listed may hold it', () => {
    expect(verdictOf(aBet({ more: '\0', game: { id: 'g1', more: '\ud800' } }))).toBe('accepted');
  });
});

describe('the faults list everything that an operator has to correct', () => {
  it('each once, the deciding fault first', () => {
    const event: EventJson = {
      event_id: 'e-1',
      spec: 'v1',
      player_ref: '',
      kind: 'bet',
      round_id: '',
      game: { id: 7 },
      amount: '1,50',
      currency: 'XXX',
      occurred_at: 'today',
    };
    const faults = faultsOf(event);
    expect([...faults].sort()).toEqual([
      'bad_amount /amount',
      'currency_unknown /currency',
      'malformed /game/id',
      'malformed /occurred_at',
      'malformed /round_id',
      'malformed /spec',
      'no_brand /brand',
      'no_player /player_ref',
    ]);
    expect(faults.map((fault) => fault.split(' ')[0])).toEqual([
      ...Array(4).fill('malformed'),
      'no_player',
      'bad_amount',
      'no_brand',
      'currency_unknown',
    ]);
  });

  it.each([
    ['malformed', '/spec', 'spec is the text "x", and must be "promo.event.v1"', aBet({ spec: 'x' })],
    ['malformed', '/spec', 'spec is missing', without(aBet(), 'spec')],
    [
      'malformed',
      '/occurred_at',
      'occurred_at "now" is not an RFC 3339 date-time with a zone, such as "2026-11-21T12:00:00Z"',
      aBet({ occurred_at: 'now' }),
    ],
    ['malformed', '/round_id', 'round_id is empty', aBet({ round_id: '' })],
    ['malformed', '/game/id', 'game.id is the number 1, and must be a text', aBet({ game: { id: 1 } })],
    [
      'malformed',
      '/events',
      'the object has a key "events", so it is a batch of 0 events. A record holds one event, and only the webhook accepts batches',
      aBet({ events: [] }),
    ],
    ['malformed', '/round_id', 'round_id holds U+0000: "\\u0000"', aBet({ round_id: '\0' })],
    [
      'malformed',
      '/player_ref',
      'player_ref is longer than 255 bytes of UTF-8: it has 256',
      aBet({ player_ref: 'é'.repeat(128) }),
    ],
    [
      'op_unknown',
      '/kind',
      'kind "bonus" is none of bet, win, settled, refund, deposit, withdrawal, login',
      aBet({ kind: 'bonus' }),
    ],
    [
      'op_unknown',
      '/kind',
      'kind "Settle" is none of bet, win, settled, refund, deposit, withdrawal, login; did you mean "settled"?',
      aBet({ kind: 'Settle' }),
    ],
    [
      'malformed',
      '/kind',
      'kind is missing; there is "type": did you mean kind?',
      { ...without(aBet(), 'kind'), type: 'bet' },
    ],
    [
      'malformed',
      '/occurred_at',
      'occurred_at is missing; there is "occuredAt": did you mean occurred_at?',
      { ...without(aBet(), 'occurred_at'), occuredAt: '' },
    ],
    ['malformed', '/player_ref', 'player_ref is a number, and must be a text', { ...aBet(), player_ref: 5 }],
    ['malformed', '/game', 'game is the text "g1", and must be an object', aBet({ game: 'g1' })],
    ['bad_amount', '/amount', 'amount is the number 10.5, and must be a text', { ...aBet(), amount: 10.5 }],
    [
      'bad_amount',
      '/amount',
      `amount "\\u001b[31m${'1'.repeat(55)}"... (1005 characters) is not a plain decimal such as "10.50"`,
      aBet({ amount: `\u001b[31m${'1'.repeat(1_000)}` }),
    ],
    ['no_player', '/player_ref', 'player_ref is missing', without(aBet(), 'player_ref')],
    [
      'bad_amount',
      '/amount',
      'amount "-1.50" has a sign, and must be a plain decimal such as "10.50"',
      aBet({ amount: '-1.50' }),
    ],
    ['bad_amount', '/amount', 'amount "1,5" is not a plain decimal such as "10.50"', aBet({ amount: '1,5' })],
    ['bad_amount', '/amount', 'amount "1.505" has 3 decimals, EUR has 2', aBet({ amount: '1.505' })],
    [
      'bad_amount',
      '/amount',
      'amount "92233720368547758.08" does not fit 64 bits in minor units of EUR',
      aBet({ amount: '92233720368547758.08' }),
    ],
    [
      'bad_amount',
      '/amount',
      'amount "10" does not fit 64 bits in minor units of ETH',
      aBet({ amount: '10', currency: 'ETH' }),
    ],
    ['currency_unknown', '/currency', 'currency is missing', without(aBet(), 'currency')],
    [
      'currency_unknown',
      '/currency',
      `currency "XXX" is not in the table: ${CURRENCIES.map(({ code }) => code).join(', ')}`,
      aBet({ currency: 'XXX' }),
    ],
    ['zero_amount', '/amount', 'an amount of zero has no effect', aBet({ amount: '0' })],
  ])('%s at %s: %s', (reason, field, detail, event) => {
    expect(judgeBytes(bytesOf(event)).faults).toEqual([{ reason, field, detail }]);
  });

  it.each([
    ['brand', '/brand', aBet({ brand: '\0' }), ['brand_unmapped /brand']],
    ['kind', '/kind', aBet({ kind: '\0' }), ['op_unknown /kind']],
    ['game.id', '/game/id', aBet({ game: { id: '\0' } }), []],
    ['currency', '/currency', aBet({ currency: '\0' }), ['currency_unknown /currency']],
  ])('a %s that the store cannot hold is malformed at %s', (_, field, event, more) => {
    expect(faultsOf(event)).toEqual([`malformed ${field}`, ...more]);
  });

  it.each([
    ['1e400', 'a number above 1.8e308'],
    ['-1e400', 'a number below -1.8e308'],
    ['1'.repeat(400), 'a number above 1.8e308'],
    ['12345678901234567891', 'a number near 12345678901234567000'],
    ['-9007199254740993', 'a number near -9007199254740992'],
    ['9007199254740991', 'the number 9007199254740991'],
    ['-0.5', 'the number -0.5'],
  ])('a number that JSON.parse changes is not shown as what was written: %s is %s', (written, shown) => {
    const json = JSON.stringify(aBet()).replace('"10.50"', written);
    expect(judgeBytes(Buffer.from(json)).faults).toEqual([
      { reason: 'bad_amount', field: '/amount', detail: `amount is ${shown}, and must be a text` },
    ]);
  });

  it('a name that is too long is one fault, in characters as in bytes', () => {
    expect(faultsOf(aBet({ player_ref: 'a'.repeat(256) }))).toEqual(['malformed /player_ref']);
    expect(faultsOf(aBet({ player_ref: 'é'.repeat(128) }))).toEqual(['malformed /player_ref']);
  });

  it('an accepted event has no faults', () => {
    expect(faultsOf(aWin())).toEqual([]);
  });
});

describe('without a connection, an event is judged only by the contract', () => {
  it('brand, games and catalogue are left out', () => {
    const judgedAlone = (event: EventJson) => judge({ type: 'json', bytes: bytesOf(event) }, undefined);
    expect(judgedAlone(without(aBet(), 'brand'))).toMatchObject({ refusal: null, brandNo: null, faults: [] });
    expect(judgedAlone(aBet({ brand: 'nobody' }))).toMatchObject({
      refusal: null,
      brandNo: null,
      faults: [],
    });
    expect(judgedAlone(aBet({ amount: '0' })).faults).toMatchObject([{ reason: 'zero_amount' }]);
    expect(judgedAlone(aBet({ spec: 'x' })).faults).toMatchObject([{ reason: 'malformed' }]);
  });
});
