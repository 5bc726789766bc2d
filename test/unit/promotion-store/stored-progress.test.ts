/** Words for stored progress, and its damages. Counting again: test/ledger/promotion-recount.test.ts. */
import { DamageList, valuesText } from '../../../src/promotion-store/stored-progress';

const row = (value: bigint, more: { item?: string; currency?: string } = {}) => ({
  item: '',
  currency: '',
  value,
  ...more,
});

test.each([
  ['no row', [], 0n, 'nothing'],
  ['a value of 0, which a refund left', [row(0n)], 0n, 'nothing'],
  ['a count', [row(3n)], 0n, '3'],
  [
    'sums of two currencies, by name',
    [row(20n, { currency: 'USD' }), row(500n, { currency: 'EUR' })],
    0n,
    'EUR 500 and USD 20',
  ],
  ['an item with a currency', [row(2n, { item: 'ruby', currency: 'EUR' })], 0n, 'ruby EUR 2'],
  ['points alone', [], 7n, '7 points'],
  ['points of sums', [row(500n, { currency: 'EUR' })], -1n, 'EUR 500 and -1 points'],
])('%s', (_, rows, score, expected) => {
  expect(valuesText(rows, score)).toBe(expected);
});

test('the list of damages keeps the first hundred, and counts all', () => {
  const list = new DamageList();
  for (let no = 0; no < 250; no++) list.add({ source: 'acme/x/once', what: `damage ${no}` });
  const { damages, inAll } = list.listed();
  expect([damages.length, damages.at(-1)?.what, inAll]).toEqual([100, 'damage 99', 250]);
});
