/** Keys that represent ids, and hashes of content (K1, K2, K4, K5, V6). */

import { createHash } from 'node:crypto';
import fc from 'fast-check';
import { contentHashOf } from '../../../../src/domain/event/content-hash';
import { ContentHash, hash64OfBytes } from '../../../../src/domain/event/id-key';
import { judge } from '../../../../src/domain/verdict/judge';
import {
  aBet,
  aConnection,
  aDeposit,
  aLogin,
  anEvent,
  bytesOf,
  type EventJson,
  without,
} from '../../../support/builders';
import { idKey } from '../../../support/id-key';
import { anyCharacter } from '../../../support/texts';
import { judgeBytes, judged, ONE_BRAND } from '../world';

/** Keys as texts of hexadecimal digits, two a byte. */
const hexOf = (id: string) => idKey(id).toString('hex');
const sha160 = (id: string) =>
  createHash('sha256').update(id, 'utf8').digest().subarray(0, 20).toString('hex');

describe('the key of an id [K5] [K1] [V3]', () => {
  it('a short id is its own key, by its bytes', () => {
    for (const id of ['e-1', 'é€😀', 'x'.repeat(15), ' ', '\uffff'])
      expect([id, idKey(id)]).toEqual([id, Buffer.from(id)]);
  });

  it('a lower-case UUID is its 16 bytes', () => {
    expect(hexOf('0192f0c1-7f3e-7cc0-b9a5-2f1d8a4c9e01')).toBe('0192f0c17f3e7cc0b9a52f1d8a4c9e01');
    expect(hexOf('09af09af-09af-09af-09af-09af09af09af')).toBe('09af'.repeat(8));
    expect(hexOf('00000000-0000-0000-0000-000000000000')).toBe('00'.repeat(16));
    fc.assert(fc.property(fc.uuid(), (id) => expect(hexOf(id)).toBe(id.replaceAll('-', ''))));
  });

  it.each([
    ['16 bytes', 'x'.repeat(16)],
    ['15 characters of 16 bytes', `${'x'.repeat(14)}é`],
    ['a UUID in upper case', '0192F0C1-7F3E-7CC0-B9A5-2F1D8A4C9E01'],
    ['a UUID with one letter in upper case', '0192f0c1-7f3e-7cc0-b9a5-2f1d8a4c9e0A'],
    ['a UUID in braces', '{0192f0c1-7f3e-7cc0-b9a5-2f1d8a4c9e01}'],
    ['a UUID without dashes', '0192f0c17f3e7cc0b9a52f1d8a4c9e01'],
    ['a UUID with a dash at another place', '0192f0c17-f3e-7cc0-b9a5-2f1d8a4c9e01'],
    ['a UUID with a dash for a digit', '0192f0c1-7f3e-7cc0-b9a5-2f1d8a4c9e0-'],
    ['a UUID with g', '0192f0c1-7f3e-7cc0-b9a5-2f1d8a4c9e0g'],
    ['a UUID with the character before a', '0192f0c1-7f3e-7cc0-b9a5-2f1d8a4c9e0`'],
    ['a UUID with the character before 0', '0192f0c1-7f3e-7cc0-b9a5-2f1d8a4c9e0/'],
    ['a UUID with the character behind 9', '0192f0c1-7f3e-7cc0-b9a5-2f1d8a4c9e0:'],
    ['a UUID with a digit for its first dash', '0192f0c1a7f3e-7cc0-b9a5-2f1d8a4c9e01'],
    ['a UUID with a digit for its second dash', '0192f0c1-7f3ea7cc0-b9a5-2f1d8a4c9e01'],
    ['a UUID with a digit for its third dash', '0192f0c1-7f3e-7cc0ab9a5-2f1d8a4c9e01'],
    ['a UUID with a digit for its fourth dash', '0192f0c1-7f3e-7cc0-b9a5a2f1d8a4c9e01'],
    ['a UUID and one character', '0192f0c1-7f3e-7cc0-b9a5-2f1d8a4c9e01 '],
    ['a megabyte', 'x'.repeat(1024 * 1024)],
  ])('%s: 160 bits of SHA-256', (_, id) => {
    expect(hexOf(id)).toBe(sha160(id));
    expect(idKey(id)).toHaveLength(20);
  });

  it('the three classes of keys never meet: their lengths differ', () => {
    const short = fc.string({ unit: anyCharacter, maxLength: 15 }).filter((id) => Buffer.byteLength(id) < 16);
    const uuid = fc.uuid();
    const long = fc
      .string({ unit: anyCharacter, minLength: 16, maxLength: 40 })
      .filter((id) => !/^[0-9a-f-]{36}$/.test(id));
    fc.assert(
      fc.property(short, uuid, long, (a, b, c) => {
        expect(idKey(a).length).toBeLessThan(16);
        expect(idKey(b)).toHaveLength(16);
        expect(idKey(c)).toHaveLength(20);
      }),
    );
  });

  it('a short id that looks like the key of another id is another key', () => {
    const uuid = '0192f0c1-7f3e-7cc0-b9a5-2f1d8a4c9e01';
    expect(hexOf(idKey(uuid).toString('latin1'))).not.toBe(hexOf(uuid));
    expect(hexOf(idKey('x'.repeat(16)).toString('latin1'))).not.toBe(hexOf('x'.repeat(16)));
  });

  it('different ids have different keys', () => {
    const id = fc.oneof(
      fc.uuid(),
      fc.string({ unit: anyCharacter }),
      fc.string({ unit: anyCharacter, minLength: 14, maxLength: 18 }),
    );
    fc.assert(fc.property(id, id, (a, b) => expect(hexOf(a) === hexOf(b)).toBe(a === b)));
    expect(hexOf('Ä')).not.toBe(hexOf('A\u0308'));
    expect(hexOf('E-1')).not.toBe(hexOf('e-1'));
  });

  it('a UUID with a character of another script is no UUID, for any code of the character', () => {
    const uuid = '0192f0c1-7f3e-7cc0-b9a5-2f1d8a4c9e01';
    for (const other of ['\u0130', '\u0161', '\uff11', '\u{1f3b0}', '\u0080', '\u007f']) {
      const id = uuid.slice(0, 36 - other.length) + other;
      expect([other, hexOf(id)]).toEqual([other, sha160(id)]);
    }
  });

  it('time-ordered UUIDs keep their order', () => {
    const uuids = fc.array(fc.uuid({ version: 7 }), { minLength: 2, maxLength: 8 });
    const byBytes = (a: string, b: string) => Buffer.compare(idKey(a), idKey(b));
    fc.assert(fc.property(uuids, (ids) => expect([...ids].sort(byBytes)).toEqual([...ids].sort())));
  });
});

it('the hash of bytes is the first 8 of their SHA-256, signed', () => {
  const first8 = (text: string) => createHash('sha256').update(text).digest().readBigInt64BE(0);
  for (const text of ['', 'a', 'é', 'x'.repeat(10_000)])
    expect(hash64OfBytes(Buffer.from(text))).toBe(first8(text));
  expect(hash64OfBytes(Buffer.alloc(0))).toBe(-2039914840885289964n);
});

describe('the hash of values [K4]', () => {
  type Value = string | number;
  const hashOf = (...values: readonly Value[]) => {
    const hash = new ContentHash();
    for (const value of values) {
      if (typeof value === 'string') hash.text(value);
      else hash.integer(value);
    }
    return hash.value();
  };
  const integer = fc.oneof(fc.maxSafeInteger(), fc.integer(), fc.integer({ min: -3, max: 3 }));
  const text = fc.oneof(fc.string({ unit: anyCharacter }), fc.string({ maxLength: 2 }));
  const values = fc.array(fc.oneof(text, integer), { maxLength: 5 });

  it('is a whole number of 53 bits, the same for the same values', () => {
    fc.assert(
      fc.property(values, (list) => {
        const hash = hashOf(...list);
        expect(Number.isSafeInteger(hash) && hash >= 0).toBe(true);
        expect(hashOf(...list)).toBe(hash);
      }),
    );
  });

  it('differs with the values, their order, and where one ends', () => {
    fc.assert(
      fc.property(values, values, (a, b) =>
        expect(hashOf(...a) === hashOf(...b)).toBe(JSON.stringify(a) === JSON.stringify(b)),
      ),
    );
    const lists: Value[][] = [
      [],
      [''],
      ['', ''],
      ['ab'],
      ['a', 'b'],
      ['b', 'a'],
      ['ab', ''],
      ['', 'ab'],
      ['a', 'bc'],
      ['ab', 'c'],
      ['0'],
      [0],
      [1],
      [-1],
      [2 ** 32],
      [-(2 ** 32)],
      [2 ** 32 + 1],
      [2 ** 53 - 1],
      [-(2 ** 53 - 1)],
      [0, 1],
      [1, 0],
      ['\0'],
      ['\0\0'],
      ['\ud800'],
      ['\ud801'],
      ['\uffff'],
    ];
    expect(new Set(lists.map((list) => hashOf(...list))).size).toBe(lists.length);
  });

  it('separates many similar values, in each of its bits', () => {
    // Of two million choices of this many values, about one has two equal hashes of 53 bits. These values are
    // the same in each run.
    const count = 100_000;
    const hashes = Array.from({ length: count }, (_, n) =>
      hashOf(1.7e15 + (n % 400) * 1e6, 'r-1', Math.floor(n / 400) * 10),
    );
    expect(new Set(hashes).size).toBe(count);
    const sample = hashes.filter((_, n) => n % 20 === 0);
    for (let bit = 0; bit < 53; bit++) {
      const ones = sample.filter((hash) => Math.floor(hash / 2 ** bit) % 2 === 1).length;
      expect([bit, Math.abs(ones / sample.length - 0.5) < 0.03]).toEqual([bit, true]);
    }
  });
});

describe('content is the fields that are read, by value [K4] [K2]', () => {
  const hashOf = (event: EventJson, connection?: Parameters<typeof judged>[1]) =>
    contentHashOf(judged(event, connection));
  const bet = aBet({ amount: '10.50', occurred_at: '2026-11-21T12:00:00.250Z' });

  it.each<[string, EventJson]>([
    ['the id, which is the key', { event_id: 'another' }],
    ['an amount with other zeros', { amount: '10.5' }],
    ['a currency in other letters', { currency: 'eur' }],
    ['an instant in another zone', { occurred_at: '2026-11-21T13:00:00.25+01:00' }],
    ['an instant with digits beyond the microsecond', { occurred_at: '2026-11-21T12:00:00.2500001Z' }],
    ['fields that are not read', { more: 1, game: { id: 'g1', name: 'Book of Tests' } }],
  ])('is the same with a change of %s', (_, changes) => {
    expect(hashOf({ ...bet, ...changes })).toBe(hashOf(bet));
  });

  it('the order of the fields and blanks are not content', () => {
    const reversed = Object.fromEntries(Object.entries(bet).reverse());
    expect(hashOf(reversed)).toBe(hashOf(bet));
    const spaced = judgeBytes(JSON.stringify(bet, null, 2));
    expect(spaced).toMatchObject({ contentHash: hashOf(bet) });
  });

  it('a brand of the connection equals the same brand in the event of another connection', () => {
    expect(hashOf(without(bet, 'brand'), ONE_BRAND)).toBe(hashOf(bet));
  });

  it('unread fields of account kinds are not content', () => {
    expect(hashOf(aLogin({ amount: '1', currency: 7, round_id: 'r', game: 'g' }))).toBe(hashOf(aLogin()));
    expect(hashOf(aDeposit({ round_id: 'r', game: 'g' }))).toBe(hashOf(aDeposit()));
  });

  it.each<[string, EventJson]>([
    ['spec', { spec: 'promo.event.v2' }],
    ['brand', { brand: 'other' }],
    ['player_ref', { player_ref: 'p-2' }],
    ['kind', { kind: 'win' }],
    ['an unknown kind', { kind: 'bonus' }],
    ['round_id', { round_id: 'another' }],
    ['game', { game: { id: 'g2' } }],
    ['amount', { amount: '10.51' }],
    ['currency', { currency: 'USD' }],
    ['an unknown currency', { currency: 'XXX' }],
    ['occurred_at', { occurred_at: '2026-11-21T12:00:00.250001Z' }],
  ])('differs by %s', (_, changes) => {
    expect(hashOf({ ...bet, ...changes })).not.toBe(hashOf(bet));
  });

  it('a missing field, null, and each wrong type are different content', () => {
    const wrong = [null, true, false, 7, 8, 'wrong', 'bad', [], {}];
    for (const field of [
      'spec',
      'brand',
      'player_ref',
      'kind',
      'occurred_at',
      'round_id',
      'amount',
      'currency',
      'game',
    ]) {
      // The cases above cover texts that are valid for these fields.
      const values = wrong.filter((value) => !(field === 'game' && JSON.stringify(value) === '{}'));
      const events = [bet, without(bet, field), ...values.map((value) => ({ ...bet, [field]: value }))];
      expect([field, new Set(events.map((event) => hashOf(event))).size]).toEqual([field, events.length]);
    }
    const games = [null, true, 7, 'g1', 'g2', [], {}].map((id) => hashOf({ ...bet, game: { id } }));
    expect(new Set(games).size).toBe(games.length);
  });

  it('with an unknown kind, fields that only some kinds read are not content', () => {
    const unknown = { ...bet, kind: 'bonus' };
    const read = { round_id: 'another', game: { id: 'g2' }, amount: '99', currency: 'USD' };
    expect(hashOf({ ...unknown, ...read })).toBe(hashOf(unknown));
  });

  it('the hash is stored forever: the form of the content never changes [K2]', () => {
    const event = {
      ...bet,
      event_id: 'e-1',
      round_id: 'r-1',
      player_ref: 'p-1',
      occurred_at: '2026-11-21T12:00:00Z',
    };
    // The store is new in this version, and nothing was released before. So these are the first numbers that
    // are stored.
    expect(hashOf(event)).toBe(6621900199448631);
    expect(hashOf(without({ ...event, player_ref: [1] }, 'spec'))).toBe(2011333768292389);
    expect(hashOf({ ...event, player_ref: { a: 1 } })).toBe(2498805990217525);
    expect(hashOf({ ...event, currency: 'XXX' })).toBe(5732775687886884);
    expect(hashOf({ ...event, currency: 'ETH', amount: '9.223372036854775807' })).toBe(1246002439567947);
    expect(hashOf({ ...event, occurred_at: '1969-12-31T23:59:59.999999Z' })).toBe(624485814941465);
    expect(hashOf(aLogin({ ...event, kind: 'login' }))).toBe(1107881742750506);
  });

  it('the amount is content by value, also if its currency is unknown or cannot hold it', () => {
    const amounts = (currency: unknown, ...texts: readonly string[]) =>
      new Set(texts.map((amount) => hashOf({ ...bet, currency, amount }))).size;
    expect(amounts('XXX', '10.5', '10.50', '10.500000')).toBe(1);
    expect(amounts('XXX', '10', '10.0', '10.00')).toBe(1);
    expect(amounts('XXX', '0', '0.0', '0.000')).toBe(1);
    expect(amounts(undefined, '10.5', '10.50')).toBe(1);
    expect(amounts('XXX', '10.5', '105', '1050', '10.05', '1.05', '100.5', '10', '100', '0.5')).toBe(9);
    // Three decimals are refused for EUR. A refused amount is still compared by value.
    expect(amounts('EUR', '10.505', '10.5050')).toBe(1);
    expect(amounts('EUR', '99999999999999999999', '99999999999999999999.00')).toBe(1);
    expect(amounts('EUR', '99999999999999999999', '99999999999999999998')).toBe(2);
    // A text that is no plain decimal is compared as it is written.
    expect(amounts('XXX', '010', '10', '10.', '+10', '1e1', ' 10', '')).toBe(7);
  });

  it('a game without id is no game', () => {
    expect(hashOf({ ...bet, game: {} })).toBe(hashOf(without(bet, 'game')));
    expect(hashOf({ ...bet, game: [] })).not.toBe(hashOf(without(bet, 'game')));
  });

  it('a value differs from its text, and a wrong value from a valid one', () => {
    expect(hashOf({ ...bet, player_ref: 7 })).not.toBe(hashOf({ ...bet, player_ref: '7' }));
    expect(hashOf({ ...bet, amount: 10.5 })).not.toBe(hashOf(bet));
    expect(hashOf({ ...bet, player_ref: '["p"]' })).not.toBe(hashOf({ ...bet, player_ref: ['p'] }));
    expect(hashOf({ ...bet, amount: '1050', currency: 'XXX' })).not.toBe(
      hashOf({ ...bet, amount: '10.50', currency: 'XXX' }),
    );
  });

  it('a 64-bit integer of a decoded value is content too', () => {
    const hashOfValue = (amount: unknown) => judge({ type: 'value', value: { ...bet, amount } }, undefined);
    expect(hashOfValue(7n)).not.toEqual(hashOfValue(8n));
  });
});

describe('a refused event keeps each field that is valid by itself [V6]', () => {
  const bet = aBet({
    round_id: 'r-1',
    amount: '10.50',
    currency: 'eur',
    occurred_at: '2026-11-21T12:00:00Z',
    game: { id: 'g1' },
  });
  const all = {
    kind: 'bet',
    brand: 'main',
    playerRef: 'p-1',
    roundId: 'r-1',
    gameId: 'g1',
    amountMinor: 1050n,
    currency: { code: 'EUR', scale: 2 },
    occurredAtMicros: 1_795_262_400_000_000n,
  };

  it('all fields of a valid event', () => {
    expect(judged(bet)).toMatchObject({ eventId: bet.event_id, fields: all, brandNo: expect.any(Number) });
    expect(judged({ ...bet, spec: 'x' }).fields).toMatchObject(all);
  });

  it.each<[string, EventJson, object]>([
    ['brand', { brand: 7 }, { brand: null }],
    ['brand', { brand: '\0' }, { brand: null }],
    ['brand', { brand: 'é'.repeat(128) }, { brand: null }],
    ['brand', { brand: 'a'.repeat(256) }, { brand: null }],
    ['player_ref', { player_ref: '' }, { playerRef: null }],
    ['player_ref', { player_ref: '\ud800' }, { playerRef: null }],
    ['player_ref', { player_ref: 'é'.repeat(128) }, { playerRef: null }],
    ['round_id', { round_id: '' }, { roundId: null }],
    ['round_id', { round_id: 7 }, { roundId: null }],
    ['round_id', { round_id: '\0' }, { roundId: null }],
    ['game', { game: 'g1' }, { gameId: null }],
    ['game', { game: null }, { gameId: null }],
    ['game.id', { game: { id: 7 } }, { gameId: null }],
    ['game.id', { game: { id: '\0' } }, { gameId: null }],
    ['amount', { amount: '1,5' }, { amountMinor: null }],
    ['amount', { amount: 10.5 }, { amountMinor: null }],
    ['currency, which an amount needs', { currency: 'XXX' }, { currency: null, amountMinor: null }],
    ['currency', { currency: null }, { currency: null, amountMinor: null }],
    ['occurred_at', { occurred_at: 'today' }, { occurredAtMicros: null }],
    ['occurred_at', { occurred_at: 7 }, { occurredAtMicros: null }],
    [
      'kind, which the other fields need',
      { kind: 'bonus' },
      { kind: null, roundId: null, gameId: null, amountMinor: null, currency: null },
    ],
    ['kind', { kind: 7 }, { kind: null, roundId: null, gameId: null, amountMinor: null, currency: null }],
  ])('but not the wrong %s', (_, changes, missing) => {
    expect(judged({ ...bet, ...changes }).fields).toMatchObject({ ...all, ...missing });
  });

  it('but no field that its kind does not read', () => {
    const { fields } = judged({ ...bet, kind: 'login' });
    expect(fields).toMatchObject({
      ...all,
      kind: 'login',
      roundId: null,
      gameId: null,
      amountMinor: null,
      currency: null,
    });
    expect(judged({ ...bet, kind: 'deposit' }).fields).toMatchObject({
      ...all,
      kind: 'deposit',
      roundId: null,
      gameId: null,
    });
  });

  it('the brand of a connection with one brand is kept', () => {
    expect(judged(without(bet, 'brand'), ONE_BRAND)).toMatchObject({
      fields: { brand: 'main' },
      brandNo: ONE_BRAND.onlyBrand?.no,
    });
    expect(judged({ ...bet, brand: 'x' }, ONE_BRAND)).toMatchObject({
      fields: { brand: 'x' },
      brandNo: null,
    });
  });

  it('a registered brand of a refused event is known by its number', () => {
    const connection = aConnection({ active: false });
    const main = connection.operator.brands.get('main')?.no;
    expect(main).toBeGreaterThan(0);
    expect(judged(bet, connection).brandNo).toBe(main);
    expect(judged({ ...bet, brand: 'nobody' }).brandNo).toBeNull();
  });

  it('the bytes of an event of any kind are read as sent', () => {
    for (const kind of ['bet', 'win', 'settled', 'refund', 'deposit', 'withdrawal', 'login'])
      expect(judgeBytes(bytesOf(anEvent(kind)))).toMatchObject({
        fields: { kind },
      });
  });
});
