/** Templates of payloads, and amounts in both forms. */
import fc from 'fast-check';
import {
  fill,
  readAmount,
  valueAt,
  withField,
  withoutFields,
  withUnknownFields,
  writeAmount,
} from '../../../src/wallet-check/template';

test('places get their values, as texts or numbers, and fields without a value are left out', () => {
  const template = {
    meta: { op_id: 'x-{{op_id}}' },
    n: '{{exponent|number}}',
    t: '{{token}}',
    list: ['{{win}}', 1],
  };
  expect(fill(template, { op_id: 'a', exponent: '2' })).toEqual({ meta: { op_id: 'x-a' }, n: 2, list: [1] });
});

test('a value is never read as a template again', () => {
  expect(fill('{{player}}', { player: '{{token}}', token: 'secret' })).toBe('{{token}}');
});

test('an amount is read as it was written, in every currency', () => {
  fc.assert(
    fc.property(
      fc.bigInt(),
      fc.integer({ min: 0, max: 18 }),
      fc.constantFrom('minor', 'major'),
      (minor, exponent, form) => {
        expect(readAmount(writeAmount(minor, form, exponent), form, exponent)).toBe(minor);
      },
    ),
  );
});

test.each([
  ['12.34', 'major', 2, 1234n],
  ['12.3', 'major', 2, 1230n],
  ['12.340', 'major', 2, 1234n],
  [12.34, 'major', 2, 1234n],
  ['-0.05', 'major', 2, -5n],
  ['12', 'minor', 2, 12n],
  ['12.00', 'minor', 2, 12n],
  ['12.345', 'major', 2, undefined],
  ['1e3', 'minor', 2, undefined],
  ['', 'minor', 2, undefined],
  [null, 'minor', 2, undefined],
  [Number.NaN, 'minor', 2, undefined],
] as const)('%p in %s units with %i decimals is %p', (value, form, exponent, minor) => {
  expect(readAmount(value, form, exponent)).toBe(minor);
});

test('fields are found, set, added and removed by their paths', () => {
  expect(valueAt({ a: { b: 1 } }, 'a.b')).toBe(1);
  expect(valueAt({ a: [] }, 'a.length')).toBeUndefined();
  expect(valueAt({}, 'constructor.name')).toBeUndefined();
  expect(withField({ a: { b: 1 } }, 'a.c', 'x')).toEqual({ a: { b: 1, c: 'x' } });
  expect(withoutFields({ a: { b: 1, c: 2 }, d: 3 }, ['a.b', 'd', 'e.f'])).toEqual({ a: { c: 2 } });
  const unknown = { since: 'a later version' };
  expect(withUnknownFields({ a: [{ b: 1 }] })).toEqual({
    a: [{ b: 1, x_wallet_check: unknown }],
    x_wallet_check: unknown,
  });
});
