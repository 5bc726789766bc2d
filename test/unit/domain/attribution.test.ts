/** The launch attribute promo_player_ref, and the attributions that name it. */
import { promoPlayerFault, readAttribution } from '../../../src/domain/attribution';

describe('promo_player_ref [B1]', () => {
  test.each([
    ['one character', 'p'],
    ['255 characters', 'p'.repeat(255)],
    ['255 characters of four bytes each', '\u{1F3B2}'.repeat(255)],
    ['signs that are no white space', 'a-b_c:d/é\u200b\u2060'],
    ['a byte order mark inside, which is no white space of Unicode', 'a\uFEFFb'],
  ])('is valid: %s', (_, value) => {
    expect(promoPlayerFault(value)).toBeUndefined();
  });

  test.each([
    ['missing', undefined, 'is missing'],
    ['null', null, 'is null, not a text'],
    ['a number', 7, 'is a number, not a text'],
    ['empty', '', 'is empty'],
    ['256 characters', 'p'.repeat(256), 'has 256 characters'],
    ['256 characters of two units each', '\u{1F3B2}'.repeat(256), 'has 256 characters'],
    ['U+0000', 'a\0b', 'has U+0000 or half of a surrogate pair'],
    ['half of a surrogate pair', 'a\uD800', 'has U+0000 or half of a surrogate pair'],
  ])('is an InvalidArgument: %s', (_, value, problem) => {
    expect(promoPlayerFault(value)).toMatchObject({ field: 'promo_player_ref', problem });
  });

  /** Every character with the property White_Space. */
  const WHITE_SPACE = [
    ...[0x09, 0x0a, 0x0b, 0x0c, 0x0d, 0x20, 0x85, 0xa0, 0x1680],
    ...Array.from({ length: 11 }, (_, index) => 0x2000 + index),
    ...[0x2028, 0x2029, 0x202f, 0x205f, 0x3000],
  ];
  test('is an InvalidArgument with each of the 25 characters of white space, and with no other character', () => {
    const found: number[] = [];
    // All of the first 65,536 characters, and every 31st of the others, none of which is white space.
    for (let code = 1; code <= 0x10ffff; code += code < 0x10000 ? 1 : 31)
      if (!(code >= 0xd800 && code <= 0xdfff) && promoPlayerFault(`a${String.fromCodePoint(code)}`))
        found.push(code);
    expect(found).toEqual(WHITE_SPACE);
  });

  test('no fault repeats the value, which names a player', () => {
    for (const value of ['secret name', `secret${'x'.repeat(300)}`, 'secret\0'])
      expect(JSON.stringify(promoPlayerFault(value))).not.toContain('secret');
  });
});

describe('a line of attributions', () => {
  const faultsOf = (json: unknown) => {
    const read = readAttribution(json, 'acme');
    return 'faults' in read ? read.faults.map(({ field, problem }) => `${field} ${problem}`) : [];
  };

  test('has a round and a player, and names feed and brand where needed [B2]', () => {
    expect(readAttribution({ round_id: 'r', promo_player_ref: 'p' }, 'acme')).toEqual({
      roundId: 'r',
      promoPlayerRef: 'p',
      feedId: null,
      brand: null,
    });
    const all = { round_id: 'r', promo_player_ref: 'p', feed_id: 'acme/live', brand: 'main' };
    expect(readAttribution({ ...all, operator_id: 'acme' }, 'acme')).toEqual({
      roundId: 'r',
      promoPlayerRef: 'p',
      feedId: 'acme/live',
      brand: 'main',
    });
  });

  test('names all its faults at once [B1] [B2]', () => {
    expect(
      faultsOf({
        round_id: '',
        promo_player_ref: 'a b',
        feed_id: 7,
        brand: null,
        operator_id: 'bravo',
        feed: 'acme',
      }),
    ).toEqual([
      'round_id is empty',
      'promo_player_ref has white space',
      'feed_id is a number, not a text',
      'brand is null, not a text',
      'operator_id is another operator',
      'feed is no field of an attribution',
    ]);
  });

  test.each([[null], [[]], ['text'], [7], [undefined]])('is an object, and not %j', (json) => {
    expect(faultsOf(json)).toHaveLength(1);
  });

  test('suggests the field that a misspelt one was meant to be', () => {
    const read = readAttribution(
      { round_id: 'r', promo_player_ref: 'p', feedid: 'x', other_words: 1 },
      'acme',
    );
    expect('faults' in read && read.faults.map(({ remedy }) => remedy)).toEqual([
      'Did you mean feed_id?',
      'The fields are round_id, promo_player_ref, feed_id, brand, operator_id',
    ]);
  });
});
