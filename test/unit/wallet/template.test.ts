/** Templates of payloads, and amounts in both forms. */
import fc from 'fast-check';
import { readAmount, renderPayload, writeAmount } from '../../../src/wallet/template';
import { withoutFields } from '../../../src/wallet-check/play';
import { withField, withUnknownFields } from '../../../src/wallet-check/written-call';

const VALUES = { op_id: 'op-1', player: 'p"1', currency: 'EUR', amount: '9223372036854775807', round: 'r' };
const TEMPLATE = {
  text: 'player {{player}} in {{ currency }}',
  amount: '{{amount|number}}',
  as_text: '{{amount}}',
  nested: [{ round: '{{round}}', win: '{{win}}' }, '{{token}}', 1, true, null],
  left_out: '{{token}} of {{player}}',
  meta: { op_id: '{{op_id}}' },
};

test('places get their values, numbers have any length, and fields without a value are left out', () => {
  expect(renderPayload(TEMPLATE, VALUES)).toEqual({
    type: 'payload',
    json: '{"text":"player p\\"1 in EUR","amount":9223372036854775807,"as_text":"9223372036854775807","nested":[{"round":"r"},1,true,null],"meta":{"op_id":"op-1"}}',
  });
});

test('a value that is no number is refused where a number has to be', () => {
  expect(renderPayload(TEMPLATE, { ...VALUES, amount: '1,5' })).toEqual({
    type: 'malformed',
    faults: ['the value amount is not a number'],
  });
});

test('a payload stays JSON of the same form, whatever a value contains', () => {
  fc.assert(
    fc.property(fc.string(), fc.string(), (player, round) => {
      const rendered = renderPayload(TEMPLATE, { ...VALUES, player, round });
      if (rendered.type !== 'payload') throw new Error('no payload');
      const read = JSON.parse(rendered.json);
      expect(read.text).toBe(`player ${player} in EUR`);
      expect(read.nested).toEqual([{ round }, 1, true, null]);
      expect(Object.keys(read)).toEqual(['text', 'amount', 'as_text', 'nested', 'meta']);
    }),
  );
});

test('a value is never read as a template again', () => {
  expect(renderPayload({ a: '{{player}}' }, { player: '{{token}}', token: 'secret' })).toEqual({
    type: 'payload',
    json: '{"a":"{{token}}"}',
  });
});

test('a value of a prototype is no value', () => {
  expect(renderPayload({ a: '{{constructor}}', b: 1 }, {})).toEqual({ type: 'payload', json: '{"b":1}' });
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

test('fields are set, added and removed by their paths', () => {
  expect(withField({ a: { b: 1 } }, 'a.c', 'x')).toEqual({ a: { b: 1, c: 'x' } });
  expect(withoutFields({ a: { b: 1, c: 2 }, d: 3 }, ['a.b', 'd', 'e.f'])).toEqual({ a: { c: 2 } });
  const unknown = { since: 'a later version' };
  expect(withUnknownFields({ a: [{ b: 1 }] })).toEqual({
    a: [{ b: 1, x_wallet_check: unknown }],
    x_wallet_check: unknown,
  });
});
