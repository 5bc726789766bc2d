/** The reader of promotions against their schema, value by value, and against damaged files. */
import { makeRandom } from '../../dev/random';
import { parsePromotions } from '../../src/promotion-file/promotion-file';
import { compilePromotion } from '../../src/promotions/terms';
import {
  documentOf,
  EXAMPLES,
  fullOf,
  isRead,
  isValid,
  REFERENCE,
  TYPES,
} from '../support/promotion-documents';

describe.each(Object.entries(TYPES))('the schema of %s [P19]', (type, own) => {
  const full = fullOf(type, own);

  test('marks no value as wrong that the reader takes', () => {
    const values: readonly unknown[] = [
      ...[
        '',
        'a',
        'once',
        'each',
        'bet',
        'UTC',
        'P7D',
        'PT0S',
        '2026-12-05',
        '2026-12-05T10:00Z',
        '5.00',
        'main',
      ],
      ...[0, 1, 28, 366, 367, 1.5, true, null, [], ['g1'], ['main'], {}, { EUR: '1' }, { every: 'day' }],
    ];
    for (const key of Object.keys(full))
      for (const value of values) {
        const changed = { ...full, [key]: value };
        if (isRead(changed) && !isValid(documentOf(changed)))
          throw new Error(`${key}: ${JSON.stringify(value)}: ${JSON.stringify(isValid.errors)}`);
      }
  });
});

test('a damaged file is read or refused, and each read one can be compiled [P19]', () => {
  const random = makeRandom(41);
  let valid = 0;
  for (let round = 0; round < 400; round++) {
    let text = EXAMPLES;
    for (let edits = random.between(1, 3); edits > 0; edits--) {
      const at = random.below(text.length);
      const word = random.pick([
        '',
        ' ',
        '\n',
        '0',
        '"',
        '{',
        ']',
        ': ',
        '- ',
        'null',
        'g9',
        '\u0000',
        '&a',
        '*a',
      ]);
      text = text.slice(0, at) + word + text.slice(at + random.below(4));
    }
    const parsed = parsePromotions(text, 'p', REFERENCE);
    if ('faults' in parsed) {
      expect(parsed.faults.length).toBeGreaterThan(0);
      for (const { line, message, remedy } of parsed.faults)
        expect([line > 0, message !== '', remedy !== '']).toEqual([true, true, true]);
      continue;
    }
    valid++;
    for (const definition of parsed.document.promotions) compilePromotion(definition);
  }
  expect(valid).toBeGreaterThan(20);
});
