/**
 * The answer to a refused request names its mistake. Without the secret, a sender learns nothing beyond its
 * own headers.
 */
import { createHmac, randomBytes } from 'node:crypto';
import { sign } from '../../../src/webhook/signature';
import {
  describeSignature,
  describeSkew,
  describeType,
  missingHeaders,
} from '../../../src/webhook/signature-mistakes';

const secret = randomBytes(32);
const about = { id: 'msg_1', timestamp: '1790000000' };
const body = Buffer.from('{}');
const told = (signatures: readonly string[], of = body) =>
  describeSignature([randomBytes(32), secret], { ...about, signatures }, of);
const hmac = (key: Buffer | string) => createHmac('sha256', key).update(`msg_1.1790000000.{}`);
const written = secret.toString('base64');

test('names the headers that are missing, and those that are empty [W4]', () => {
  expect(missingHeaders({ 'webhook-id': 'a', 'webhook-signature': '' })).toBe(
    'missing: webhook-timestamp; empty: webhook-signature',
  );
  expect(missingHeaders({})).toBe('missing: webhook-id, webhook-timestamp, webhook-signature');
});

test.each([
  ['1789996400', 'it is 60 min behind the time here'],
  ['1789892000', 'it is 30 h behind the time here'],
  ['1790000301', 'it is 301 s ahead of the time here'],
  ['1790000000000', '"1790000000000" is in milliseconds'],
  ['2026-09-21', '"2026-09-21" is not a number of seconds'],
  ['\u001b[31m', '"\\u001b[31m" is not a number of seconds'],
])('names the difference of a time: %s [W2]', (timestamp, expected) => {
  expect(describeSkew({ ...about, timestamp, signatures: [] }, 1_790_000_000_999)).toBe(expected);
});

test.each<[string, string, RegExp]>([
  ['hex', `v1,${hmac(secret).digest('hex')}`, /hexadecimal digits/],
  ['base64url', `v1,${'ab-_'.repeat(11)}`, /base64url/],
  ['no version', hmac(secret).digest('base64'), /begins with "v1,"/],
  ['another version', `v1a,${hmac(secret).digest('base64')}`, /version is "v1a"/],
  ['too short', 'v1,abcd', /has 4 characters/],
  ['the secret as a text', `v1,${hmac(`whsec_${written}`).digest('base64')}`, /used as a text: decode/],
  ['its base64 as a text', `v1,${hmac(written).digest('base64')}`, /used as a text: decode/],
  ['another secret', `v1,${hmac('another').digest('base64')}`, /^check the secret/],
])('names the usual mistakes of a signature: %s [W4]', (_, signature, mistake) => {
  expect(told([signature])).toMatch(mistake);
});

test('of several signatures those in the right form are checked', () => {
  expect(told(['v1,abcd', sign(randomBytes(32), about, body)])).toMatch(/^check the secret/);
});

test('a large body is not hashed again', () => {
  const large = Buffer.alloc(65_537);
  expect(told([sign(Buffer.from(written), about, large)], large)).toMatch(/^check the secret/);
});

test('a message contains no part of a secret or of the right signature', () => {
  const right = sign(secret, about, body);
  for (const signature of [`v1,${hmac(written).digest('base64')}`, 'v1,x', right.replace('v1,', 'v2,')]) {
    const text = told([signature]);
    for (const hidden of [written, secret.toString('hex'), right.slice(3), hmac(secret).digest('hex')])
      for (let at = 0; at + 8 <= hidden.length; at++) expect(text).not.toContain(hidden.slice(at, at + 8));
  }
});

test.each([
  [{}, 'Content-Type is missing'],
  [{ 'content-type': 'text/plain' }, 'Content-Type is "text/plain"'],
  [
    { 'content-type': 'application/json', 'content-encoding': 'gzip' },
    'Content-Type is "application/json", Content-Encoding is "gzip"',
  ],
  [{ 'content-type': 'x'.repeat(500) }, `Content-Type is "${'x'.repeat(60)}"... (500 characters)`],
])('names the type of a body: %j', (headers, expected) => {
  expect(describeType(headers)).toBe(expected);
});
