import { readTokens } from '../../../src/config/console';
import { OperatorScope } from '../../../src/console/scope';
import {
  limitWrongTokens,
  makeSession,
  SESSION_SECONDS,
  scopeOfSession,
  scopeOfToken,
} from '../../../src/console/tokens';

const [ACME, NEW, BRAVO] = ['acme-', 'new--', 'bravo'].map(
  (begin) => `${begin}0123456789abcdefghijklmnopq`,
) as [string, string, string];
const TOKENS = new Map([
  ['acme', [ACME, NEW]],
  ['bravo', [BRAVO]],
]);
const NOW = 1_800_000_000;

test('a token names its operator, and no part or change of it does', () => {
  expect(scopeOfToken(NEW, TOKENS)?.operator).toBe('acme');
  expect(scopeOfToken(BRAVO, TOKENS)?.operator).toBe('bravo');
  for (const wrong of ['', ACME.slice(1), `${ACME} `, ACME.toUpperCase(), 'acme'])
    expect(scopeOfToken(wrong, TOKENS)).toBeUndefined();
});

describe('a session', () => {
  const session = makeSession(new OperatorScope('acme'), NEW, NOW);

  test('names its operator until it ends', () => {
    expect(scopeOfSession(session, TOKENS, NOW + SESSION_SECONDS - 1)?.operator).toBe('acme');
    expect(scopeOfSession(session, TOKENS, NOW + SESSION_SECONDS)).toBeUndefined();
  });

  test('ends with the token that made it', () => {
    expect(scopeOfSession(session, new Map([['acme', [ACME]]]), NOW)).toBeUndefined();
  });

  test('does not hold the token', () => {
    expect(session).not.toContain(NEW);
    expect(Buffer.from(session, 'base64').toString()).not.toContain(NEW);
  });

  test('of another operator, of a later end, or of a part is none', () => {
    const [operator = '', end = '', signature = ''] = session.split('.');
    const bravo = Buffer.from('bravo').toString('base64url');
    for (const forged of [
      ...[
        `${bravo}.${end}.${signature}`,
        `${operator}.${Number(end) + 1}.${signature}`,
        `${operator}.${end}.`,
      ],
      ...[`${operator}.${end}.${signature.slice(0, -1)}A`, `${session}.`, ` ${session}`, '', '..', 'a.1.b'],
    ])
      expect([forged, scopeOfSession(forged, TOKENS, NOW)]).toEqual([forged, undefined]);
  });
});

test('after ten wrong tokens an address has one try in six seconds, and others are free', () => {
  let now = 0;
  const wrong = limitWrongTokens(() => now);
  for (let tries = 0; tries < 10; tries++) {
    expect(wrong.waitOf('a')).toBe(0);
    wrong.note('a');
  }
  expect(wrong.waitOf('a')).toBe(6);
  expect(wrong.waitOf('b')).toBe(0);
  now = 6_000;
  expect(wrong.waitOf('a')).toBe(0);
  wrong.note('a');
  expect(wrong.waitOf('a')).toBe(6);
  now = 100_000;
  for (let tries = 0; tries < 10; tries++) wrong.note('a');
  expect(wrong.waitOf('a')).toBe(6);
});

test('the addresses that are counted have a limit', () => {
  const wrong = limitWrongTokens(() => 0);
  for (let tries = 0; tries < 10; tries++) wrong.note('first');
  for (let each = 0; each < 10_000; each++) wrong.note(`address ${each}`);
  expect(wrong.waitOf('first')).toBe(0);
});

test.each([
  ['no JSON', 'acme: x', /is not JSON/],
  ['a list', '[]', /is not a JSON object/],
  ['nobody', '{}', /names no operator/],
  ['a short token', JSON.stringify({ acme: ACME.slice(1) }), /wrong form in a token of "acme"/],
  ['a token with a space', JSON.stringify({ acme: `${ACME} x` }), /wrong form/],
  ['no token', '{"acme": []}', /has no token for "acme"/],
  ['a token that is easy to guess', JSON.stringify({ acme: 'ab'.repeat(20) }), /easy to guess/],
  [
    'one token of two operators',
    JSON.stringify({ acme: ACME, bravo: ACME }),
    /one token twice, for "acme" and "bravo"/,
  ],
  ['a token in the place of an id', JSON.stringify({ [ACME]: 'acme' }), /a token of entry 1/],
])('tokens of %s are refused, and the fault repeats none', (_, text, fault) => {
  const read = readTokens(text);
  if (!('problem' in read)) throw new Error('accepted');
  expect(read.problem).toMatch(fault);
  expect(read.problem).not.toContain(ACME.slice(1));
});

test('the faults of all operators are named at once, five at most', () => {
  const read = readTokens(JSON.stringify({ acme: 'short', bravo: [], cirrus: BRAVO }));
  expect(read).toMatchObject({
    problem: expect.stringMatching(/^has a wrong form in a token of "acme": .*; has no token for "bravo"/),
  });
  const many = Object.fromEntries(Array.from({ length: 8 }, (_, index) => [`op-${index}`, []]));
  expect(readTokens(JSON.stringify(many))).toMatchObject({
    problem: expect.stringMatching(/"op-4", or no operator; and 3 more$/),
  });
});

test('an operator may have several tokens', () => {
  expect(readTokens(JSON.stringify({ acme: [ACME, NEW], bravo: BRAVO }))).toEqual({
    value: TOKENS.set('bravo', [BRAVO]),
  });
});
