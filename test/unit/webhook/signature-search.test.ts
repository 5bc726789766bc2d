/** `sign --verify` names the part of a request that differs from the signed one. */
import { createHmac, randomBytes } from 'node:crypto';
import { sign } from '../../../src/webhook/signature';
import { findDifferences } from '../../../src/webhook/signature-search';

const secret = randomBytes(32);
const old = randomBytes(32);
const foreign = randomBytes(32);
const secrets = new Map([
  ['other-hook', [foreign]],
  ['acme-hook', [secret, old]],
]);
const about = { id: 'msg_1', timestamp: '1790000000' };
const body = Buffer.from('{"spec": "promo.event.v1", "events": [1,\n2]}\n');
const compact = Buffer.from(JSON.stringify(JSON.parse(body.toString())));

function differences(signature: string, of = body) {
  return findDifferences({ connectionId: 'acme-hook', secrets }, { ...about, signatures: [signature] }, of);
}
const hmac = (content: string, key: Buffer | string = secret, algorithm = 'sha256') =>
  `v1,${createHmac(algorithm, key).update(content).digest('base64')}`;

test.each([
  ['the first secret', secret],
  ['the second secret, while one is replaced', old],
])('finds no difference in a right signature with %s [W4]', (_, key) => {
  expect(differences(sign(key, about, body))).toEqual([]);
});

test.each<[string, string, RegExp[]]>([
  [
    'the secret as a text',
    hmac(`msg_1.1790000000.${body}`, `whsec_${secret.toString('base64')}`),
    [/used as a text/],
  ],
  ['the secret of another connection', sign(foreign, about, body), [/that of other-hook/]],
  [
    'a body without its last line break',
    sign(secret, about, body.subarray(0, -1)),
    [/without the line break at its end/],
  ],
  ['a body that was written again', sign(secret, about, compact), [/written again as JSON/]],
  [
    'another time',
    sign(secret, { ...about, timestamp: '1790000007' }, body),
    [/was 1790000007 when it was signed/],
  ],
  [
    'a time in milliseconds',
    sign(secret, { ...about, timestamp: '1790000000042' }, body),
    [/in milliseconds when/],
  ],
  ['an empty id', sign(secret, { ...about, id: '' }, body), [/webhook-id was empty/]],
  ['the body alone', hmac(body.toString()), [/the body alone was signed/]],
  ['time and body, as others do', hmac(`1790000000.${body}`), [/the id was left out/]],
  ['SHA-512', hmac(`msg_1.1790000000.${body}`, secret, 'sha512'), [/SHA-512/]],
  ['two differences at once', hmac(`1790000000.${compact}`), [/written again/, /the id was left out/]],
])('names the difference: %s [W4]', (_, signature, expected) => {
  const found = differences(signature);
  expect(found).toHaveLength(expected.length);
  for (const [index, pattern] of expected.entries()) expect(found?.[index]).toMatch(pattern);
});

test('a right signature in hexadecimal digits has no other difference [W4]', () => {
  const digest = createHmac('sha256', secret).update(`msg_1.1790000000.${body}`).digest('hex');
  expect(differences(`v1,${digest}`)).toEqual([]);
});

test('says nothing of a signature that no mistake explains [W4]', () => {
  expect(differences(sign(randomBytes(32), about, body))).toBeNull();
});
