/** The answers of the console that need no store. */
import { pino } from 'pino';
import { type ConsoleRequest, makeConsoleHandler } from '../../../src/console/handler';
import type { OpenPage } from '../../../src/console/reader';
import { limitWrongTokens } from '../../../src/console/tokens';
import { StoreError } from '../../../src/postgres/errors';
import { makeLogger } from '../../../src/telemetry/logger';
import { makeMetrics } from '../../../src/telemetry/metrics';

const TOKEN = 'acme-0123456789abcdefghijklmnopq';
const metrics = makeMetrics('console');
const failing: OpenPage = () =>
  Promise.reject(new StoreError('console', new Error('relation of bravo is missing')));

function handler(openPage: OpenPage = failing, logger = makeLogger('silent')) {
  return makeConsoleHandler({
    tokens: () => new Map([['acme', [TOKEN]]]),
    openPage,
    metrics,
    logger,
    clock: { now: () => 0 },
    wrongTokens: limitWrongTokens(() => 0),
    wallNow: () => 1_800_000_000_000,
  });
}

const ask = (changes: Partial<ConsoleRequest>, handle = handler()) =>
  handle({ method: 'GET', url: '/', headers: {}, body: '', sender: '192.0.2.1', ...changes });
const signIn = (more = '', headers: ConsoleRequest['headers'] = {}) =>
  ask({ method: 'POST', url: '/sign-in', body: `token=${TOKEN}${more}`, headers });

test('the cookie is out of reach of scripts and of other sites, and needs TLS', async () => {
  const { status, headers } = await signIn('&to=/event%3Fid%3De-1');
  expect([status, headers.location]).toEqual([303, '/event?id=e-1']);
  expect(headers['set-cookie']).toMatch(
    /^__Host-promo-console=[\w.-]+; Max-Age=43200; Path=\/; Secure; HttpOnly; SameSite=Strict$/,
  );
});

test.each([
  'https://evil.example/',
  '//evil.example',
  '/\\evil.example',
  'javascript:alert(1)',
  '/sign-out',
  '/%2e%2e//evil',
])('the sign-in leads to no other site: %s', async (to) => {
  expect((await signIn(`&to=${encodeURIComponent(to)}`)).headers.location).toBe('/');
});

test.each(['cross-site', 'same-site'])('the form of a page that is %s starts no session', async (site) => {
  const { status, headers } = await signIn('', { 'sec-fetch-site': site });
  expect([status, headers['set-cookie']]).toEqual([403, undefined]);
});

test('ten wrong tokens of an address are answered 401, and then even the right one 429', async () => {
  const handle = handler();
  const wrong = { headers: { authorization: `Bearer ${TOKEN}x` } };
  for (let tries = 0; tries < 10; tries++) expect((await ask(wrong, handle)).status).toBe(401);
  const late = await ask({ headers: { authorization: `Bearer ${TOKEN}` } }, handle);
  expect([late.status, late.headers['retry-after']]).toEqual([429, '6']);
  const other = await ask({ headers: { authorization: `Bearer ${TOKEN}` }, sender: '192.0.2.2' }, handle);
  expect(other.status).toBe(503);
});

test('one operator causes one log line a minute of each kind, however often it asks', async () => {
  const lines: Record<string, unknown>[] = [];
  const write = (line: string) => void lines.push(JSON.parse(line));
  const handle = handler(failing, pino({}, { write }));
  for (let times = 0; times < 50; times++) {
    await ask({ method: 'POST', url: '/sign-in', body: `token=${TOKEN}` }, handle);
    await ask({ headers: { authorization: `Bearer ${TOKEN}` } }, handle);
    await ask({ headers: { authorization: `Bearer ${TOKEN}x` } }, handle);
  }
  expect(lines.map(({ msg }) => msg)).toEqual([
    'session of the console started',
    'cannot show a page of the console',
    'wrong token of the console',
  ]);
});

test('without a token, a program gets 401, and a browser the form', async () => {
  const program = await ask({ url: '/event?id=e-1' });
  expect([program.status, program.headers['www-authenticate']]).toEqual([401, 'Bearer']);
  const browser = await ask({ url: '/event?id=e-1', headers: { accept: 'text/html' } });
  expect([browser.status, browser.headers.location]).toEqual([303, '/sign-in?to=%2Fevent%3Fid%3De-1']);
});

test('a link of another site finds a link to the same page, since the cookie was not sent', async () => {
  const { status, body } = await ask({ url: '/event?id=e-1', headers: { 'sec-fetch-site': 'cross-site' } });
  expect(status).toBe(200);
  expect(body).toContain('<a href="/event?id=e-1">Open the page</a>');
});

test('an error of the store says nothing of it', async () => {
  const { status, body, headers } = await ask({ headers: { authorization: `Bearer ${TOKEN}` } });
  expect([status, headers['retry-after']]).toEqual([503, '60']);
  expect(body).not.toMatch(/relation|bravo/);
});

test.each(['POST', 'PUT', 'DELETE', 'PATCH'])('%s of a page is refused', async (method) => {
  const { status, headers } = await ask({ method, headers: { authorization: `Bearer ${TOKEN}` } });
  expect([status, headers.allow]).toEqual([405, 'GET, HEAD']);
});

test('requests are counted by page, and those without a session by none', async () => {
  const pages = (await metrics.consoleRequests.get()).values.map(({ labels }) => labels.page);
  expect(new Set(pages)).toEqual(new Set(['/', 'other']));
});
