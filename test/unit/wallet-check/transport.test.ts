/** The requests of a check, as a wallet sees them: headers, signatures, times, broken connections. */
import { createHmac } from 'node:crypto';
import { createServer, type IncomingHttpHeaders } from 'node:http';
import type { AddressInfo, Socket } from 'node:net';
import { NEVER, systemClock } from '../../../src/lib/clock';
import { isObject, parseJson } from '../../../src/lib/json';
import type { WalletProfile } from '../../../src/wallet/profile';
import { parseProfile } from '../../../src/wallet/profile-file';
import { runScenarios } from '../../../src/wallet-check/runner';
import { scenariosFor } from '../../../src/wallet-check/scenarios/scenarios';
import { connectWallet, type TransportOptions, whyUnreachable } from '../../../src/wallet-check/transport';

const SECRET = 'secret-of-the-test';
const PAYLOAD = { meta: { op_id: 'op-1' }, amount: '1.00' };

interface Seen {
  readonly headers: IncomingHttpHeaders;
  readonly body: string;
  readonly socket: Socket;
}

let seen: Seen[] = [];
/** The request is answered, or never. */
let isSilent = false;
const server = createServer((request, response) => {
  const chunks: Buffer[] = [];
  request.on('data', (chunk: Buffer) => chunks.push(chunk));
  request.on('end', () => {
    seen.push({ headers: request.headers, body: Buffer.concat(chunks).toString(), socket: request.socket });
    if (!isSilent) response.end('{"status":"ok","balance":"100.00"}');
  });
  request.on('error', () => undefined); // a connection that the check breaks
});
beforeAll(() => new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve)));
afterAll(() => {
  server.closeAllConnections();
  return new Promise((resolve) => server.close(resolve));
});
beforeEach(() => {
  [seen, isSilent] = [[], false];
});

function url(): string {
  const address: AddressInfo | string | null = server.address();
  if (address === null || typeof address === 'string') throw new Error('the server does not listen');
  return `http://127.0.0.1:${address.port}/base/`;
}

function profileWith(more: string): WalletProfile {
  const action = (path: string) =>
    `{ path: ${path}, payload: { meta: { op_id: "{{op_id}}" }, player: "{{player}}", amount: "{{amount}}", original: "{{original}}" } }`;
  const actions = ['balance', 'debit', 'credit', 'rollback'].map((name) => `${name}: ${action(`/${name}`)}`);
  const text = [
    ...['environment: test', `base_url: ${url()}`, 'operator_id: acme', 'key_id: key-1'],
    ...['idempotency_header: X-Idempotency', `actions: { ${actions.join(', ')} }`],
    ...['answers: { balance: balance }', 'players: { usual: { id: p, token: session-1, currency: EUR } }'],
    more,
  ].join('\n');
  const parsed = parseProfile(text, 'wallet.yaml');
  if ('faults' in parsed) throw new Error(JSON.stringify(parsed.faults));
  return parsed.profile;
}

const sendOne = (more: string, options: Partial<TransportOptions> = {}) =>
  connectWallet(profileWith(more), SECRET, NEVER).call({
    opId: 'op-1',
    path: '/debit',
    payload: JSON.stringify(PAYLOAD),
    ...options,
  });

const envelopeOf = ({ body }: Seen) => {
  const value = parseJson(body);
  if (!isObject(value)) throw new Error(body);
  return value;
};

test('a call has the headers of the contract and those of the profile', async () => {
  await sendOne('headers: { X-Tenant: acme, user-agent: check }');
  expect(seen[0]?.headers).toMatchObject({
    'x-api-key-id': 'key-1',
    'x-idempotency': 'op-1',
    'x-tenant': 'acme',
    'user-agent': 'check',
    'content-type': 'application/json',
  });
  expect(envelopeOf(seen[0]!)).toMatchObject({
    request_id: seen[0]?.headers['x-request-id'],
    operator_id: 'acme',
    payload: PAYLOAD,
  });
});

describe('a signature', () => {
  const contentOf = ({ headers, body }: Seen) =>
    `${headers['x-time']}|POST|/base/debit|${headers['x-request-id']}|${body}`;
  const signing = (more: string) => `signing:
  header: X-Sign
  timestamp_header: X-Time
  content: "{{timestamp}}|{{ method }}|{{path}}|{{request_id}}|{{body}}"
  secret_file: f
${more}`;

  test.each([
    ['hex', '  scheme: hmac-sha256', 'sha256', 'hex', ''],
    [
      'base64 behind a prefix',
      '  { scheme: hmac-sha512, encoding: base64, prefix: "v1=" }',
      'sha512',
      'base64',
      'v1=',
    ],
  ] as const)('in %s covers the time, the address and the body', async (_, form, hash, encoding, prefix) => {
    const more = form.includes('{') ? form.replace(/^ *\{ (.*) \}$/, '  $1').replaceAll(', ', '\n  ') : form;
    await sendOne(signing(more));
    const [request] = seen;
    const expected = createHmac(hash, SECRET).update(contentOf(request!)).digest(encoding);
    expect(request?.headers['x-sign']).toBe(`${prefix}${expected}`);
    expect(Math.abs(Date.now() / 1_000 - Number(request?.headers['x-time']))).toBeLessThan(10);
  });

  test('that is wrong on purpose is one of another secret', async () => {
    await sendOne(signing('  scheme: hmac-sha256'), { wrongSignature: true });
    const of = (secret: string) => createHmac('sha256', secret).update(contentOf(seen[0]!)).digest('hex');
    expect([of(SECRET), of(`${SECRET}-wrong`)].indexOf(String(seen[0]?.headers['x-sign']))).toBe(1);
  });

  test('covers a body that is malformed on purpose', async () => {
    const options = [{ unknownFields: true }, { rawBody: '{"half": ' }];
    for (const each of options) await sendOne(signing('  scheme: hmac-sha256'), each);
    for (const request of seen)
      expect(request.headers['x-sign']).toBe(
        createHmac('sha256', SECRET).update(contentOf(request)).digest('hex'),
      );
    expect(Object.keys(envelopeOf(seen[0]!))).toHaveLength(5);
    expect(seen[1]?.body).toBe('{"half": ');
  });
});

test.each([
  ['rfc3339', expect.stringMatching(/^\d{4}-\d\d-\d\dT[\d:.]+Z$/)],
  ['unix_s', expect.any(Number)],
  ['unix_ms', expect.any(Number)],
])('the form %s of a time', async (form, expected) => {
  await sendOne(`ts: ${form}`);
  const { ts } = envelopeOf(seen[0]!);
  expect(ts).toEqual(expected);
  const scale = form === 'unix_s' ? 1_000 : 1;
  expect(Math.abs(Date.now() - (typeof ts === 'number' ? ts * scale : Date.parse(String(ts))))).toBeLessThan(
    10_000,
  );
});

test('a call that asks for it comes on a connection that no earlier call used', async () => {
  for (const newConnection of [false, true, true]) await sendOne('', { newConnection });
  expect(new Set(seen.slice(-3).map(({ socket }) => socket)).size).toBe(3);
});

test.each(['after_request', 'at_reply'] as const)('a connection that is cut %s has no reply', async (cut) => {
  expect(await sendOne('', { cut })).toEqual({ type: 'nothing', cause: 'interrupted' });
});

test('a header that a wallet call needs for itself is a fault', () => {
  for (const more of ['headers: { X-Request-Id: a }', 'headers: { content-length: "5" }'])
    expect(() => profileWith(more)).toThrow(/This header has another use in wallet calls/);
});

test('a wallet that falls silent ends the check at its limit of time, and fails it [O9]', async () => {
  isSilent = true;
  const profile = profileWith('limits: { seconds: 1 }');
  const began = performance.now();
  const results = await runScenarios(scenariosFor(profile), {
    profile,
    clock: systemClock,
    stop: NEVER,
    run: 'run',
    progress: () => undefined,
    transport: connectWallet(profile, SECRET, NEVER, 300),
  });
  expect(performance.now() - began).toBeLessThan(10_000);
  expect(results.filter(({ status }) => status === 'passed')).toEqual([]);
  expect(results.filter(({ status }) => status === 'failed').length).toBeGreaterThan(0);
  expect(results.find(({ status }) => status === 'failed')?.problems[0]?.came).toBe(
    'no answer within 5 s; nothing (timeout)',
  );
});

test('a wallet that never answers is named before the first scenario', async () => {
  expect(await whyUnreachable(profileWith(''), SECRET, '/balance', NEVER)).toBeNull();
  isSilent = true;
  expect(await whyUnreachable(profileWith(''), SECRET, '/balance', NEVER, 200)).toBe('no answer within 5 s');
});
