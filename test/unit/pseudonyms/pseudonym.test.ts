/** The pseudonym of a player. Views and the change of keys: test/ledger/pseudonyms.test.ts. */
import { createHmac } from 'node:crypto';
import { asPseudonymKey, pseudonymOf } from '../../../src/pseudonyms/pseudonym';

const KEY = asPseudonymKey(Buffer.alloc(32, 1));
const OTHER = asPseudonymKey(Buffer.alloc(32, 2));

test('is a keyed hash of the operator and the player [Y2]', () => {
  const expected = createHmac('sha256', KEY.key).update('promo-intake player\0acme\0p-1').digest('hex');
  expect(pseudonymOf(KEY, 'acme', 'p-1')).toBe(expected.slice(0, 32));
});

test('differs by player, operator and key, and is the same each time [Y2]', () => {
  const all = [
    pseudonymOf(KEY, 'acme', 'p-1'),
    pseudonymOf(KEY, 'acme', 'p-2'),
    pseudonymOf(KEY, 'borealis', 'p-1'),
    pseudonymOf(OTHER, 'acme', 'p-1'),
  ];
  expect(new Set(all).size).toBe(4);
  expect(pseudonymOf(KEY, 'acme', 'p-1')).toBe(all[0]);
});

test('of an operator and a player that form the same text together are two [Y2]', () => {
  expect(pseudonymOf(KEY, 'ab', 'c')).not.toBe(pseudonymOf(KEY, 'a', 'bc'));
  expect(pseudonymOf(KEY, '', 'ab')).not.toBe(pseudonymOf(KEY, 'ab', ''));
});

test.each(['p-1', '', 'Müller', '😀', 'x'.repeat(300), 'erased:', 'erased:7x', ' erased:7'])(
  'of "%s" has 32 digits, and no part of the name [Y1]',
  (player) => {
    const pseudonym = pseudonymOf(KEY, 'acme', player);
    expect(pseudonym).toMatch(/^[0-9a-f]{32}$/);
    if (player !== '') expect(pseudonym).not.toContain(player);
  },
);

test('of an erased player is the name that the erasure gave, whatever the key [Y4]', () => {
  expect(pseudonymOf(KEY, 'acme', 'erased:7')).toBe('erased:7');
  expect(pseudonymOf(OTHER, 'acme', 'erased:7')).toBe('erased:7');
});

test('the id of a key has 8 digits, differs by key, and begins no pseudonym of an empty name [Y5]', () => {
  expect(KEY.id).toMatch(/^[0-9a-f]{8}$/);
  expect(KEY.id).not.toBe(OTHER.id);
  expect(pseudonymOf(KEY, '', '').startsWith(KEY.id)).toBe(false);
});
