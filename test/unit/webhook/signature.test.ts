/** Signatures as senders create them: by the library of Standard Webhooks itself. */
import { randomBytes } from 'node:crypto';
import { Webhook } from 'standardwebhooks';
import {
  expiryOf,
  isTimely,
  readSignedHeaders,
  SIGNATURE_HEADERS,
  type SignedHeaders,
  sign,
  validSignature,
} from '../../../src/webhook/signature';

const secret = randomBytes(32);
const NOW_MS = Date.UTC(2026, 10, 25, 12);
const NOW = NOW_MS / 1000;
const BODY = '{"event_id":"é€𝄞"}';

function signed(body = BODY, key = secret): SignedHeaders {
  const signature = new Webhook(`whsec_${key.toString('base64')}`).sign('msg_1', new Date(NOW_MS), body);
  return { id: 'msg_1', timestamp: String(NOW), signatures: [signature] };
}

const isOurs = (headers: SignedHeaders, body = BODY, secrets = [secret]) =>
  validSignature(secrets, headers, Buffer.from(body)) !== null;

describe('a signature needs a secret of the connection [W4]', () => {
  test('created by the library is valid, and ours equal its', () => {
    expect(isOurs(signed())).toBe(true);
    expect(sign(secret, signed(), Buffer.from(BODY))).toBe(signed().signatures[0]);
  });

  test('during a rotation either secret is valid, and one valid signature of several is enough', () => {
    const next = randomBytes(24);
    expect(isOurs(signed(BODY, next), BODY, [secret, next])).toBe(true);
    const both = [...signed(BODY, next).signatures, ...signed().signatures];
    expect(isOurs({ ...signed(), signatures: both })).toBe(true);
  });

  test.each<[string, Partial<SignedHeaders>, string?]>([
    ['of another secret', { signatures: signed(BODY, randomBytes(32)).signatures }],
    ['of another body', {}, `${BODY} `],
    ['of another id', { id: 'msg_2' }],
    ['of another time', { timestamp: String(NOW + 1) }],
    ['of another version', { signatures: signed().signatures.map((each) => each.replace('v1,', 'v1a,')) }],
    ['cut short', { signatures: signed().signatures.map((each) => each.slice(0, -1)) }],
    ['empty', { signatures: [''] }],
    ['none', { signatures: [] }],
  ])('not one that is %s', (_, change, body = BODY) => {
    expect(isOurs({ ...signed(), ...change }, body)).toBe(false);
  });

  test('without a secret no signature is valid', () => {
    expect(isOurs(signed(), BODY, [])).toBe(false);
  });
});

test('a signature expires when its time is no longer current: until then its answer is repeated [W2] [W7]', () => {
  const expiresAt = expiryOf(signed());
  expect([expiresAt - 1, expiresAt].map((nowMs) => isTimely(signed(), nowMs))).toEqual([true, false]);
});

describe('a request has a current time [W2]', () => {
  test.each([
    [-301, false],
    [-300, true],
    [0, true],
    [300, true],
    [301, false],
  ])('%i s from our time: %s', (seconds, timely) => {
    expect(isTimely({ ...signed(), timestamp: String(NOW + seconds) }, NOW_MS + 999)).toBe(timely);
  });

  test.each(['', 'now', '-1', '1e9', `${NOW}.5`, ` ${NOW}`, `${NOW_MS}`, '9'.repeat(30), '２'])(
    'an invalid number of seconds is not: %j',
    (timestamp) => {
      expect(isTimely({ ...signed(), timestamp }, NOW_MS)).toBe(false);
    },
  );
});

test('all three headers are needed, and blanks separate signatures [W4]', () => {
  const { id, timestamp, signature } = SIGNATURE_HEADERS;
  const headers = { [id]: 'msg_1', [timestamp]: '1', [signature]: 'v1,a v1,b' };
  expect(readSignedHeaders(headers)).toEqual({ id: 'msg_1', timestamp: '1', signatures: ['v1,a', 'v1,b'] });
  for (const name of Object.keys(headers)) {
    expect(readSignedHeaders({ ...headers, [name]: undefined })).toBeNull();
    expect(readSignedHeaders({ ...headers, [name]: '' })).toBeNull();
  }
});
