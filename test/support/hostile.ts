/**
 * Input of a malicious sender: bytes, JSON structure, and pieces to be repeated. For the judge alone, and for
 * a running worker.
 */
import fc from 'fast-check';
import { mutatedEvent, weighted } from './event-texts';
import { anyCharacter } from './texts';

/** Texts that break a reader who takes them for something else. */
const text = weighted(
  [4, fc.string({ unit: anyCharacter, maxLength: 12 }).map((value) => JSON.stringify(value))],
  [
    2,
    fc
      .constantFrom(
        ...[
          '\\ud800',
          '\\udc00\\ud800',
          '\\u0000',
          '\\uffff',
          '\\u202e',
          '',
          '%s',
          '{{7*7}}',
          "'; drop table x; --",
        ],
        ...['__proto__', 'constructor', 'toString', 'NaN', '1e309', '-0', '\\/', 'é\u0301', '\ud83c\udfb0'],
      )
      .map((value) => `"${value}"`),
  ],
);
const number = fc.constantFrom(
  ...[
    '0',
    '-0',
    '1e400',
    '-1e400',
    '1E-400',
    '9223372036854775808',
    `${'9'.repeat(400)}`,
    `0.${'0'.repeat(400)}1`,
  ],
  ...['01', '1.', '.5', '+1', '0x1f', 'Infinity', 'NaN', '1_000'],
);
const NAMES = [
  ...['spec', 'event_id', 'brand', 'player_ref', 'kind', 'round_id', 'game', 'id', 'amount', 'currency'],
  ...[
    'occurred_at',
    'events',
    '__proto__',
    'constructor',
    'hasOwnProperty',
    'toJSON',
    'length',
    '0',
    '-1',
    '',
  ],
];
const name = weighted([4, fc.constantFrom(...NAMES).map((value) => JSON.stringify(value))], [1, text]);

/** Any JSON, and texts that are nearly JSON: meaningful names, repeated, at any depth. */
export const hostileJson: fc.Arbitrary<string> = fc.letrec<{ value: string }>((tie) => ({
  value: fc.oneof(
    { maxDepth: 5, withCrossShrink: true },
    { weight: 3, arbitrary: fc.oneof(text, number, fc.constantFrom('null', 'true', 'false', '{}', '[]')) },
    {
      weight: 2,
      arbitrary: fc
        .array(fc.tuple(name, tie('value')), { maxLength: 6 })
        .map((members) => `{${members.map(([key, value]) => `${key}:${value}`).join(',')}}`),
    },
    {
      weight: 1,
      arbitrary: fc.array(tie('value'), { maxLength: 4 }).map((elements) => `[${elements.join(',')}]`),
    },
    {
      weight: 1,
      arbitrary: fc
        .tuple(fc.integer({ min: 1, max: 5_000 }), tie('value'))
        .map(([depth, value]) => '['.repeat(depth) + value + ']'.repeat(depth)),
    },
  ),
})).value;

/** Bytes that many kinds of readers begin to parse. */
export const hostileBytes: fc.Arbitrary<Buffer> = weighted(
  [3, fc.uint8Array({ maxLength: 200 }).map((bytes) => Buffer.from(bytes))],
  [
    2,
    fc
      .tuple(
        fc.constantFrom(
          '',
          '\0',
          '\0\0\0\0\x01',
          '\0\xff\xff\xff\xff',
          '\xef\xbb\xbf',
          '\xff\xfe',
          '\x1f\x8b',
          '{',
          '[',
        ),
        fc.uint8Array({ maxLength: 60 }),
      )
      .map(([begin, bytes]) => Buffer.concat([Buffer.from(begin, 'latin1'), bytes])),
  ],
  [2, mutatedEvent],
);

/** A piece of a text, to be repeated a hundred thousand times. */
export const hostileUnit: fc.Arbitrary<string> = fc
  .array(
    fc.constantFrom(
      ...[
        '{',
        '}',
        '[',
        ']',
        ',',
        ':',
        '"',
        '\\',
        ' ',
        '\n',
        '0',
        '9',
        '-',
        '.',
        'e',
        'a',
        'é',
        '🎰',
        '\0',
        '\u2028',
      ],
      ...[
        '\\u0000',
        '\\ud800',
        '\\"',
        '\\\\',
        '"a":1,',
        '"event_id":"e",',
        '{"a":',
        '[[',
        'null',
        'true,',
        '""',
      ],
    ),
    { minLength: 1, maxLength: 4 },
  )
  .map((parts) => parts.join(''));
