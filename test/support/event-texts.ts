/**
 * Events as the bytes that a sender may send. They are valid ones in the usual forms, with values changed,
 * left out, doubled and added. Fields come in any order, with any blanks, and bytes may be damaged in
 * transit.
 */
import fc from 'fast-check';
import { KINDS } from '../../src/domain/event/event';
import { CURRENCIES } from '../../src/domain/event/money';
import { anEvent } from './builders';
import { anyCharacter } from './texts';

/** One of these cases, each as often as its weight. */
export const weighted = <T>(...cases: readonly (readonly [weight: number, arbitrary: fc.Arbitrary<T>])[]) =>
  fc.oneof(...cases.map(([weight, arbitrary]) => ({ weight, arbitrary })));
const oneOf = (...texts: readonly string[]): fc.Arbitrary<string> => fc.constantFrom(...texts);
/** One of the words, which are separated by blanks. */
const word = (text: string) => oneOf(...text.trim().split(/\s+/));
const json = (value: unknown) => JSON.stringify(value);
const quoted = (text: string) => `"${text}"`;

// --- values as they stand in a JSON text

/** Values of another type where a text belongs, and texts that are no JSON at all. */
const wrongType = fc.oneof(
  word(
    `null true false 0 7 -0 1e400 10.50 [] {} [[]] ["bet"] {"id":"g1"} nul NaN 'bet' bet "a """" [ { } 1,2 // "a"//`,
  ),
  oneOf('', '"a" "b"', ' '),
);
const character = fc.oneof(
  word(`a Z 0 9 ! ~ / ' { } [ ] : , . - _ é ſ ı ß € 🎰 \u0130 \u0080 \u00ff \uffff`),
  oneOf(' ', '"', '\n', '\t', '\0', '\u0001', '\u001f', '\u007f', '\u2028', '\ufeff'),
  // Escapes as written, valid and invalid.
  word(String.raw`\" \\ \/ \n \t \b \u0041 \u00e9 \u0000 \ud83c\udfb0 \ud800 \udc00 \x \ \u12`),
);
const printable = fc.integer({ min: 0x20, max: 0x7e }).map((code) => String.fromCharCode(code));
const anyText = weighted(
  [4, fc.string({ unit: printable, maxLength: 45 }).map(json)],
  [2, fc.string({ unit: character, maxLength: 6 }).map(quoted)],
  [1, fc.string({ unit: anyCharacter, maxLength: 8 }).map(json)],
);
/** Around the 255 bytes of UTF-8 that a name may have, in letters of one byte to four. */
const longName = fc
  .tuple(word(String.raw`a ~ é € 🎰 \u0041 \u00e9`), fc.integer({ min: 250, max: 260 }), oneOf('', 'b', 'bc'))
  .map(([unit, bytes, more]) => {
    const size = unit.startsWith('\\') ? 1 : Buffer.byteLength(unit);
    return quoted(unit.repeat(Math.floor(bytes / size)) + more);
  });
const id = weighted(
  [6, fc.uuid().map(json)],
  [4, oneOf('e-1', 'r-1', 'g1', 'g9', 'p-1', 'x'.repeat(40), 'x'.repeat(41), 'bet', 'EUR').map(json)],
  [2, anyText],
  [1, longName],
  [1, fc.constant('""')],
  [1, wrongType],
);
const name = weighted(
  [8, oneOf('main', 'main', 'other', 'closed', 'nobody', '', 'p-1', 'p-2', '__proto__').map(json)],
  [2, anyText],
  [2, longName],
  [1, wrongType],
);
const kind = weighted(
  [20, fc.constantFrom(...KINDS).map(json)],
  [1, word(String.raw`bonus Bet be bets constructor \u0062et be\t`).map(quoted)],
  [1, oneOf('', 'bet ', ' bet').map(quoted)],
  [1, wrongType],
);
const spec = weighted(
  [30, fc.constant('"promo.event.v1"')],
  [
    2,
    word(String.raw`promo.event.v2 promo.event.v promo.event.v11 Promo.event.v1 promo\u002eevent.v1`).map(
      quoted,
    ),
  ],
  [1, fc.constant('""')],
  [1, wrongType],
);

const digits = (min: number, max: number) =>
  fc.string({ unit: oneOf(...'0123456789'), minLength: min, maxLength: max });
/** On both sides of 15 digits, of 2^53 and of 2^63. */
const limit = word(
  `999999999999999 1000000000000000 9007199254740991 9007199254740993 9223372036854775807 9223372036854775808`,
);
const amount = weighted(
  [
    6,
    fc
      .tuple(fc.nat(100_000), digits(0, 3))
      .map(([whole, rest]) => quoted(rest === '' ? `${whole}` : `${whole}.${rest}`)),
  ],
  [4, word('0 0.0 0.00 10 10.5 10.50 1.00 0.99 5 4 0.01').map(quoted)],
  [3, fc.tuple(digits(0, 20), digits(0, 20)).map((parts) => quoted(parts.join('.')))],
  [3, digits(0, 22).map(quoted)],
  [
    3,
    fc.tuple(limit, fc.nat(19)).map(([all, scale]) => {
      return quoted(scale === 0 ? all : `${all.slice(0, -scale) || '0'}.${all.slice(-scale)}`);
    }),
  ],
  [
    1,
    word('. 0. .5 00 00.5 01 -1 +1 -0 1e2 1E2 1,50 1_000 1..5 1.5.0 0x10 NaN 1/ 1: 1./ 1.: ٣ １').map(quoted),
  ],
  [1, oneOf('', ' 1', '1 ', String.raw`1\u0030`, String.raw`10\n`).map(quoted)],
  [1, wrongType],
);
const codes = CURRENCIES.map(({ code }) => code);
const currency = weighted(
  [6, word('EUR EUR JPY BTC USDT SOL ETH').map(quoted)],
  [6, oneOf(...codes).map(quoted)],
  [2, fc.mixedCase(oneOf(...codes)).map(quoted)],
  [
    2,
    oneOf(
      'XXX',
      'EURO',
      'EU',
      '',
      ' EUR',
      'EUR ',
      'eſr',
      'uſd',
      'ınr',
      String.raw`E\u0055R`,
      'x'.repeat(41),
    ).map(quoted),
  ],
  [1, wrongType],
);

const two = (value: number) => String(value).padStart(2, '0');
const upTo = (max: number) => weighted([6, fc.nat(max)], [1, fc.nat(99)]).map(two);
const year = weighted(
  [6, fc.integer({ min: 1969, max: 2027 })],
  // Years at which microseconds stop to be exact as a double, before 1970 and after.
  [1, fc.integer({ min: 2254, max: 2256 })],
  [1, fc.integer({ min: 1683, max: 1686 })],
  [2, fc.nat(9_999)],
  [1, fc.constantFrom(0, 1, 1600, 1900, 2000, 2100)],
).map((value) => String(value).padStart(4, '0'));
const date = fc
  .tuple(
    year,
    weighted([6, fc.integer({ min: 1, max: 12 }).map(two)], [1, upTo(13)]),
    weighted(
      [6, fc.integer({ min: 1, max: 28 }).map(two)],
      [4, fc.integer({ min: 28, max: 32 }).map(two)],
      [1, upTo(31)],
    ),
  )
  .map((parts) => parts.join('-'));
const time = fc.tuple(upTo(24), upTo(60), upTo(61)).map((parts) => parts.join(':'));
const fraction = weighted(
  [3, fc.constant('')],
  [4, digits(0, 8).map((text) => `.${text}`)],
  [1, oneOf('.', ',5', '.5x', '. 5', '.-1', '.1e3')],
);
const zone = weighted(
  [8, fc.constant('Z')],
  [3, word('z +00:00 -00:00 +01:00 -05:30 +23:59 -23:59')],
  [1, oneOf('', 'ZZ', 'Z ', '+24:00', '+01', '+0100', String.raw`\u005a`, 'A')],
);
const separator = weighted([8, fc.constant('T')], [1, oneOf('t', ' ', '_', '')]);
const instant = weighted(
  [6, word('2026-11-21T12:00:00Z 2026-11-21T12:00:00.250Z 2026-11-21T12:00:00.123456Z').map(quoted)],
  [6, fc.tuple(date, separator, time, fraction, zone).map((parts) => quoted(parts.join('')))],
  [
    1,
    word(
      '2016-12-31T23:59:60Z 0001-01-01T00:00:00Z 9999-12-31T23:59:59.999999Z 2255-12-31T23:59:59.999999Z 1684-01-01T00:00:00.000001Z today',
    ).map(quoted),
  ],
  [1, fc.constant('""')],
  [1, wrongType],
);

const blanks = weighted(
  [30, fc.constant('')],
  [3, oneOf(' ', '  ', '     ')],
  [2, oneOf('\n', '\t', '\r\n', ' \n ', '\r')],
  [1, oneOf('\u00a0', '\ufeff', '\v', '\f', '\0', '/**/', '\u2003')],
);
const game = weighted(
  [8, id.map((value) => `{"id":${value}}`)],
  [
    3,
    fc
      .tuple(blanks, blanks, blanks, blanks, id)
      .map(([a, b, c, d, value]) => `{${a}"id"${b}:${c}${value}${d}}`),
  ],
  [
    2,
    fc
      .tuple(id, id)
      .chain(([a, b]) =>
        oneOf(
          ...[`{"id":${a},"id":${b}}`, `{"id":${a},"name":${b}}`, `{"name":${b},"id":${a}}`, `{"ID":${a}}`],
          ...[
            `{"ids":${a}}`,
            `{"i":${a}}`,
            `{"\\u0069d":${a}}`,
            `{"id":${a},}`,
            `{,"id":${a}}`,
            `{"id" ${a}}`,
          ],
          ...[`{"id":{"id":${a}}}`, `["id",${a}]`],
        ),
      ),
  ],
  [2, oneOf('{}', 'null', '"g1"', '7', '[]', '{"name":"Book of Tests"}', '{"":"g1"}')],
  [1, wrongType],
);

const VALUES = {
  spec,
  event_id: id,
  brand: name,
  player_ref: name,
  kind,
  round_id: id,
  game,
  amount,
  currency,
  occurred_at: instant,
};

// --- events as lists of fields: valid ones, and mutated ones

type Field = readonly [name: string, value: string];
type Fields = readonly Field[];

/** A valid event of any kind, in the usual forms, perhaps with fields that its kind does not read. */
const validFields: fc.Arbitrary<Fields> = fc
  .record(
    {
      kind: fc.constantFrom(...KINDS),
      brand: fc.constantFrom('main', 'other', undefined),
      player_ref: fc.constantFrom('p-1', 'p-2'),
      game: fc.constantFrom({ id: 'g1' }, { id: 'g2' }, undefined),
      amount: fc.tuple(fc.nat(9_999), fc.nat(99)).map(([whole, cents]) => `${whole}.${two(cents)}`),
      currency: fc.constantFrom('EUR', 'USD', 'BTC'),
      occurred_at: fc.nat(4e9).map((ms) => new Date(1.7e12 + ms).toISOString()),
    },
    { requiredKeys: ['kind'] },
  )
  .map((changes) => {
    const present = Object.entries(anEvent(changes.kind, changes)).filter(([, value]) => value !== undefined);
    return present.map(([field, value]) => [field, json(value)]);
  });

const fieldName = fc.constantFrom(...Object.keys(VALUES));
const aField: fc.Arbitrary<Field> = fc.oneof(
  ...Object.entries(VALUES).map(([field, values]) => values.map((value): Field => [field, value])),
);
const otherName = fc.oneof(
  word(
    'events more i id e event event_ids specs spe SPEC Kind amount2 game_id gam __proto__ constructor toString é',
  ),
  oneOf('', 'currency ', ' brand'),
  word(String.raw`\u0073pec kin\u0064 event\u005fid`),
);
const anyValue = fc.oneof(
  id,
  amount,
  game,
  wrongType,
  fc.jsonValue({ maxDepth: 2 }).map((value) => json(value)),
);
const place = fc.nat(20);

const inserted = (fields: Fields, at: number, field: Field): Fields => {
  const index = at % (fields.length + 1);
  return [...fields.slice(0, index), field, ...fields.slice(index)];
};
const changed = (fields: Fields, field: Field): Fields =>
  fields.some(([other]) => other === field[0])
    ? fields.map((each) => (each[0] === field[0] ? field : each))
    : [...fields, field];

type Mutation = (fields: Fields) => Fields;
const mutation: fc.Arbitrary<Mutation> = weighted<Mutation>(
  [8, aField.map((field) => (fields) => changed(fields, field))],
  [2, fieldName.map((left) => (fields) => fields.filter(([other]) => other !== left))],
  [
    2,
    fc.tuple(aField, place).map(
      ([field, at]) =>
        (fields) =>
          inserted(fields, at, field),
    ),
  ],
  // The same field with the same value once more.
  [
    1,
    fc.tuple(place, place).map(([which, at]) => (fields) => {
      const field = fields[which % Math.max(1, fields.length)];
      return field === undefined ? fields : inserted(fields, at, field);
    }),
  ],
  [
    2,
    fc.tuple(otherName, anyValue, place).map(
      ([other, value, at]) =>
        (fields) =>
          inserted(fields, at, [other, value]),
    ),
  ],
  [
    1,
    fc.tuple(otherName, place).map(([other, which]) => (fields) => {
      return fields.map(([field, value], index) => [index === which ? other : field, value]);
    }),
  ],
  [
    3,
    fc.array(fc.nat(), { minLength: 16, maxLength: 16 }).map((ranks) => (fields) => {
      const ranked = fields.map((field, index) => ({ field, rank: ranks[index % ranks.length] ?? 0 }));
      return ranked.sort((a, b) => a.rank - b.rank).map(({ field }) => field);
    }),
  ],
);

/** The text of an event, with the `gaps` in the places where blanks are allowed. */
function textOf(
  fields: Fields,
  gaps: readonly string[],
  [before, behind]: readonly [string, string],
): string {
  let next = 0;
  const gap = () => gaps[next++ % gaps.length] ?? '';
  const parts = fields.map(([field, value]) => `${gap()}"${field}"${gap()}:${gap()}${value}${gap()}`);
  return `${before}{${parts.join(',')}}${behind}`;
}

const NONE = ['', ''] as const;
const gaps = weighted<readonly string[]>(
  [3, fc.constant(NONE)],
  [2, fc.array(oneOf('', ' ', '  '), { minLength: 1, maxLength: 9 })],
  [2, fc.array(blanks, { minLength: 1, maxLength: 9 })],
);
const around = weighted<readonly [string, string]>([9, fc.constant(NONE)], [1, fc.tuple(blanks, blanks)]);

export const validEvent: fc.Arbitrary<Buffer> = validFields.map((fields) =>
  Buffer.from(textOf(fields, NONE, NONE)),
);

/** A valid event with other values of some fields, each in its place. */
export const eventWith = (...fields: readonly (keyof typeof VALUES)[]): fc.Arbitrary<Buffer> =>
  fc.tuple(validFields, fc.tuple(...fields.map((field) => VALUES[field]))).map(([valid, values]) => {
    const all = fields.reduce<Fields>(
      (event, field, index) => changed(event, [field, values[index] ?? '']),
      valid,
    );
    return Buffer.from(textOf(all, NONE, NONE));
  });

/** A valid event with up to four mutations, and any blanks. */
export const mutatedEvent: fc.Arbitrary<Buffer> = fc
  .tuple(validFields, fc.array(mutation, { maxLength: 4 }), gaps, around)
  .map(([fields, mutations, between, outside]) => {
    const mutated = mutations.reduce((all, mutate) => mutate(all), fields);
    return Buffer.from(textOf(mutated, between, outside));
  });

// --- damage to bytes in transit, or by a sender that builds them by hand

export type Damage = (bytes: Buffer) => Buffer;

/** Bytes with a meaning in JSON. */
export const MEANING = [...Buffer.from('"\\{}[]:, \n\t/-+.eEtTzZ019aA\0\x1f\x7f\x80\xc3\xff', 'latin1')];
const anyByte = weighted([3, fc.nat(255)], [2, fc.constantFrom(...MEANING)]);

export const spliced = (bytes: Buffer, at: number, removed: number, ...more: readonly number[]): Buffer =>
  Buffer.concat([bytes.subarray(0, at), Buffer.from(more), bytes.subarray(at + removed)]);

export const damage: fc.Arbitrary<Damage> = weighted<Damage>(
  // Cut off, somewhere or near its end; without its beginning.
  [2, fc.nat().map((at) => (bytes) => bytes.subarray(0, at % Math.max(1, bytes.length)))],
  [1, fc.nat(5).map((count) => (bytes) => bytes.subarray(0, Math.max(0, bytes.length - count)))],
  [1, fc.nat(3).map((count) => (bytes) => bytes.subarray(count))],
  // With further bytes at its end, or at its beginning.
  [
    2,
    oneOf(' ', '\n', '\t', '}', ',', 'x', '\0', '{}', ',"a":1}', '\ufeff', '""').map(
      (more) => (bytes) => Buffer.concat([bytes, Buffer.from(more)]),
    ),
  ],
  [1, anyByte.map((byte) => (bytes) => spliced(bytes, bytes.length, 0, byte))],
  [
    1,
    oneOf(' ', '\n', '\ufeff', '\0', '[', 'x', '{').map(
      (more) => (bytes) => Buffer.concat([Buffer.from(more), bytes]),
    ),
  ],
  // A byte replaced, inserted or removed; a bit flipped.
  [
    3,
    fc.tuple(fc.nat(), anyByte).map(
      ([at, byte]) =>
        (bytes) =>
          spliced(bytes, at % Math.max(1, bytes.length), 1, byte),
    ),
  ],
  [
    1,
    fc.tuple(fc.nat(), anyByte).map(
      ([at, byte]) =>
        (bytes) =>
          spliced(bytes, at % (bytes.length + 1), 0, byte),
    ),
  ],
  [1, fc.nat().map((at) => (bytes) => spliced(bytes, at % Math.max(1, bytes.length), 1))],
  [
    2,
    fc.tuple(fc.nat(), fc.nat(7)).map(([place, bit]) => (bytes) => {
      const at = place % Math.max(1, bytes.length);
      return spliced(bytes, at, 1, (bytes[at] ?? 0) ^ (1 << bit));
    }),
  ],
);

export const damaged = (event: fc.Arbitrary<Buffer>, most: number): fc.Arbitrary<Buffer> =>
  fc
    .tuple(event, fc.array(damage, { minLength: 1, maxLength: most }))
    .map(([bytes, damages]) => damages.reduce((all, change) => change(all), bytes));
