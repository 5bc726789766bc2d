/**
 * The fast way from bytes to fields: the events that it accepts, and those that it leaves to the parser and
 * the schema.
 *
 * Every test of an event (world.ts) checks that both agree on an accepted event. test/fuzz/fast-scan.test.ts
 * checks it for any event.
 */
import { KINDS } from '../../../../src/domain/event/event';
import { scan } from '../../../../src/domain/event/fast-scan';
import { CURRENCIES, currencyOf } from '../../../../src/domain/event/money';
import { aBet, aLogin, anEvent, type EventJson, without } from '../../../support/builders';
import { judgeBytes } from '../world';

const scanned = (event: unknown, onlyBrand: string | null = null) => {
  const text = typeof event === 'string' ? event : JSON.stringify(event);
  judgeBytes(text);
  return scan(Buffer.from(text), onlyBrand);
};
const takes = (event: unknown) => scanned(event) !== undefined;

describe('the fast way takes [F1] [F8]', () => {
  it.each(KINDS)('a %s, with and without its optional fields', (one) => {
    const event = anEvent(one);
    expect(takes(event)).toBe(true);
    for (const field of ['brand', 'game']) expect(takes({ ...event, [field]: undefined })).toBe(true);
    // The scan also accepts a field that the kind does not read.
    expect(takes({ ...anEvent('bet'), kind: one })).toBe(true);
    expect(takes(Object.fromEntries(Object.entries(event).reverse()))).toBe(true);
  });

  it('the fields as they were sent, except fields that the kind does not read', () => {
    const event = aBet({
      event_id: 'e',
      round_id: 'r',
      game: { id: 'g' },
      amount: '10.5',
      currency: 'eur',
      player_ref: 'p',
    });
    const fields = {
      kind: 'bet',
      brand: 'main',
      playerRef: 'p',
      roundId: 'r',
      gameId: 'g',
      amountMinor: 1050n,
      currency: currencyOf('EUR'),
      occurredAtMicros: 1_795_262_400_250_000n,
    };
    expect(scanned(event)).toEqual({ eventId: 'e', brand: 'main', hasGame: true, fields });
    expect(scanned({ ...event, kind: 'deposit' })).toEqual({
      eventId: 'e',
      brand: 'main',
      hasGame: true,
      fields: { ...fields, kind: 'deposit', roundId: null, gameId: null },
    });
    expect(scanned({ ...event, kind: 'login' })).toEqual({
      eventId: 'e',
      brand: 'main',
      hasGame: true,
      fields: { ...fields, kind: 'login', roundId: null, gameId: null, amountMinor: null, currency: null },
    });
    expect(scanned(without(event, 'game', 'brand'))).toEqual({
      eventId: 'e',
      brand: undefined,
      hasGame: false,
      fields: { ...fields, brand: null, gameId: null },
    });
  });

  it('the brand of a connection that carries one, where the event names none [C2]', () => {
    expect(scanned(without(aBet(), 'brand'), 'only')).toMatchObject({
      brand: undefined,
      fields: { brand: 'only' },
    });
    expect(scanned(aBet(), 'only')).toMatchObject({ brand: 'main', fields: { brand: 'main' } });
    expect(scanned(aBet({ brand: '' }), 'only')).toMatchObject({ brand: '', fields: { brand: '' } });
  });

  it('every currency, in any letters, unless its amounts are beyond 15 digits', () => {
    for (const { code, scale } of CURRENCIES) {
      for (const written of [code, code.toLowerCase()]) {
        const amounts = ['0', '1', '12', ...(scale > 0 ? ['1.5', `0.${'0'.repeat(scale - 1)}7`] : [])];
        for (const text of amounts)
          expect([written, text, takes(anEvent('bet', { currency: written, amount: text }))]).toEqual([
            ...[written, text, scale < 18],
          ]);
      }
    }
  });

  it('instants in UTC, whole seconds and up to six digits of a fraction', () => {
    for (const fraction of ['', '.2', '.25', '.250', '.2500', '.25000', '.250000'])
      expect([fraction, takes(anEvent('login', { occurred_at: `2026-11-21T12:00:00${fraction}Z` }))]).toEqual(
        [...[fraction, true]],
      );
  });

  it('names of up to 255 letters, and ids of any length', () => {
    for (const field of ['brand', 'player_ref']) {
      expect(takes(anEvent('bet', { [field]: 'n'.repeat(255) }))).toBe(true);
      expect(takes(anEvent('bet', { [field]: 'n'.repeat(256) }))).toBe(false);
    }
    for (const field of ['event_id', 'round_id'])
      expect(takes(anEvent('bet', { [field]: 'n'.repeat(10_000) }))).toBe(true);
  });

  it('blanks between all of its parts', () => {
    const event = aBet({ event_id: 'e', round_id: 'r', occurred_at: '2026-11-21T12:00:00Z' });
    const spaced = JSON.stringify(event)
      .replaceAll(/"[^"]*"|[{}:,]/g, '  $&  ')
      .trim();
    expect(scanned(spaced)).toEqual(scanned(event));
    expect(takes(spaced)).toBe(true);
  });

  it('texts of any printable ASCII but quotes and backslashes', () => {
    const codes = Array.from({ length: 0x7e - 0x20 + 1 }, (_, index) => 0x20 + index);
    const printable = String.fromCharCode(...codes).replaceAll(/["\\]/g, '');
    for (const text of [printable, ...printable])
      expect(scanned(anEvent('login', { player_ref: text }))?.fields.playerRef).toBe(text);
  });

  it('a text unchanged, after any other text', () => {
    const playerOf = (text: string) =>
      scan(Buffer.from(JSON.stringify(anEvent('login', { player_ref: text }))), null)?.fields.playerRef;
    const letters = Array.from({ length: 26 }, (_, index) => String.fromCharCode(0x61 + index));
    // The scan caches texts. A text that begins or ends like a cached one must not be taken for it.
    const texts = letters
      .flatMap((first) => letters.map((last) => first + last))
      .flatMap((ends) => [`p${ends}`, 'p', `q${ends}`, `p${ends}`]);
    expect(texts.map(playerOf)).toEqual(texts);
  });
});

describe('the fast way leaves to the parser', () => {
  const bet = aBet({ event_id: 'e', round_id: 'r' });
  const text = JSON.stringify(bet);

  it.each(['spec', 'event_id', 'kind', 'player_ref', 'occurred_at', 'round_id', 'amount', 'currency'])(
    'a bet without %s, or with it twice, or in another type',
    (field) => {
      expect(takes(without(bet, field))).toBe(false);
      const again = JSON.stringify({ [field]: bet[field] }).slice(1);
      expect(takes(text.replace(/}$/, `,${again}`))).toBe(false);
      for (const other of [null, 7, true, [], {}, ['x']])
        expect(takes({ ...bet, [field]: other })).toBe(false);
    },
  );

  it.each<[string, EventJson]>([
    ['an empty event_id', { event_id: '' }],
    ['an empty player_ref', { player_ref: '' }],
    ['an empty round_id', { round_id: '' }],
    ['another spec', { spec: 'promo.event.v2' }],
    ['a longer spec', { spec: 'promo.event.v11' }],
    ['an unknown kind', { kind: 'bonus' }],
    ['an unknown currency', { currency: 'XXX' }],
    ['an empty currency', { currency: '' }],
    ['a currency of 18 decimals', { currency: 'ETH' }],
    ['an unknown field', { more: 'x' }],
    ['a batch', { events: [] }],
    ['a letter that is not ASCII', { player_ref: 'é' }],
    ['an escape', { player_ref: '"' }],
    ['a control character', { player_ref: '\n' }],
    ['DEL', { player_ref: '\u007f' }],
    ['a game of more than an id', { game: { id: 'g', name: 'x' } }],
    ['a game without id', { game: {} }],
    ['a game that is a text', { game: 'g' }],
    ['a game whose id is a number', { game: { id: 7 } }],
    ['a second that is none', { occurred_at: '2026-11-21T12:00:61Z' }],
    ['a zone', { occurred_at: '2026-11-21T12:00:00+01:00' }],
    ['a leading zero', { amount: '01' }],
    ['a leading zero', { amount: '00.5' }],
    ['a sign', { amount: '-1' }],
    ['an exponent', { amount: '1e2' }],
    ['too many decimals', { amount: '1.000' }],
    ['an empty amount', { amount: '' }],
    ['a dot alone', { amount: '.' }],
    ['a dot at the end', { amount: '1.' }],
    ['a dot in front', { amount: '.5' }],
    ['two dots', { amount: '1.5.0' }],
    ['a character before 0', { amount: '1/' }],
    ['a character behind 9', { amount: '1:' }],
  ])('a bet with %s', (_, changes) => {
    expect(takes({ ...bet, ...changes })).toBe(false);
  });

  it.each([
    ['nothing', ''],
    ['an array', `[${text}]`],
    ['a blank in front', ` ${text}`],
    ['a blank behind', `${text} `],
    ['a line feed behind', `${text}\n`],
    ['a line feed between its parts', text.replaceAll(',', ',\n')],
    ['a tab between its parts', text.replace(':', ':\t')],
    ['a comma at the end', text.replace(/}$/, ',}')],
    ['no end', text.slice(0, -1)],
    ['no end of a text', text.slice(0, -2)],
    ['a second object', `${text}${text}`],
    ['no colon', text.replace('":"', '" "')],
    ['no comma', text.replace(',', ' ')],
    ['no name', text.replace('"spec":', '')],
    ['a name that goes on', text.replace('"kind"', '"kinds"')],
    ['a name that breaks off', text.replace('"kind"', '"kin"')],
    ['a game without end', text.replace('"}', '"')],
    ['an empty object', '{}'],
    ['a control character as it is', text.replace('"main"', '"ma\u0001n"')],
    ['no value of the game', text.replace(/"game":{[^}]*}/, '"game":')],
    ['no content of the game', text.replace(/"game":{[^}]*}/, '"game":{')],
    ["no value of the game's id", text.replace(/"game":{[^}]*}/, '"game":{"id":')],
  ])('%s', (_, sent) => {
    expect(scanned(sent)).toBeUndefined();
  });

  it.each(['spec', 'event_id', 'kind', 'occurred_at', 'brand', 'round_id', 'amount', 'currency'])(
    'no value of %s, where the text before it is a valid value',
    (field) => {
      const value = JSON.stringify(bet[field]);
      const others = JSON.stringify({ player_ref: '?', ...without(bet, field, 'player_ref') }).slice(1);
      // As the player, it is accepted.
      expect(takes(`{${others.replace('"?"', value)}`.replace(/}$/, `,"${field}":${value}}`))).toBe(true);
      expect(takes(`{${others.replace('"?"', `${value},"${field}":`)}`)).toBe(false);
    },
  );

  it('a name of which one letter is another', () => {
    for (const name of [...Object.keys(bet), 'id']) {
      for (let place = 0; place < name.length; place++) {
        const other = `${name.slice(0, place)}X${name.slice(place + 1)}`;
        expect([other, takes(text.replace(`"${name}":`, `"${other}":`))]).toEqual([other, false]);
      }
    }
  });

  it('amounts beyond the precision of a double, and reads all others', () => {
    expect(scanned(aBet({ amount: '9999999999999.99' }))?.fields.amountMinor).toBe(999_999_999_999_999n);
    expect(takes(aBet({ amount: '9999999999999' }))).toBe(true);
    expect(takes(aBet({ amount: '10000000000000' }))).toBe(false);
    expect(takes(aBet({ amount: '10000000000000.00' }))).toBe(false);
    expect(scanned(aBet({ amount: '999999999999999', currency: 'JPY' }))?.fields.amountMinor).toBe(
      999_999_999_999_999n,
    );
    expect(takes(aBet({ amount: '1000000000000000', currency: 'JPY' }))).toBe(false);
    expect(scanned(aBet({ amount: '0.000000001', currency: 'SOL' }))?.fields.amountMinor).toBe(1n);
  });

  it('a login ignores fields that would stop a bet [F8]', () => {
    const login = aLogin({ amount: 'x', currency: 'x', round_id: '' });
    expect(scanned(login)).toMatchObject({
      fields: { kind: 'login', amountMinor: null, currency: null, roundId: null },
    });
  });
});
