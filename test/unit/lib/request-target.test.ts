/** Each server accepts a target with scheme and host (RFC 9112, 3.2.2), and reads its path alone. */
import { once } from 'node:events';
import { request } from 'node:http';
import { serveConsole } from '../../../src/console/server';
import type { IntakeResult } from '../../../src/intake/intake';
import { makeAddresses } from '../../../src/lib/address';
import { systemClock } from '../../../src/lib/clock';
import { useOriginForm } from '../../../src/lib/request-target';
import { serveSandbox } from '../../../src/sandbox/server';
import { serveHealth } from '../../../src/telemetry/health-server';
import { makeLogger } from '../../../src/telemetry/logger';
import { makeMetrics } from '../../../src/telemetry/metrics';
import { makeTryRequests } from '../../../src/try/requests';
import { type ServerDeps, serveWebhook } from '../../../src/webhook/server';

test.each([
  ['http://intake.example/v1/events/acme?dry_run=true', '/v1/events/acme?dry_run=true'],
  ['HTTPS://user@intake.example:8443/v1/events/a%2Fb', '/v1/events/a%2Fb'],
  ['http://[::1]:8080/readyz', '/readyz'],
  ['http://intake.example', '/'],
  ['http://intake.example?a=/b', '/?a=/b'],
  ['http://intake.example//evil.example/', '//evil.example/'],
  ['/v1/events/acme', '/v1/events/acme'],
  ['/http://intake.example/readyz', '/http://intake.example/readyz'],
  ['//intake.example/readyz', '//intake.example/readyz'],
  ['ftp://intake.example/readyz', 'ftp://intake.example/readyz'],
  ['*', '*'],
])('%s is read as %s', (url, read) => {
  const target = { url };
  useOriginForm(target);
  expect(target.url).toBe(read);
});

const logger = makeLogger('silent');
const closing: (() => Promise<unknown>)[] = [];
afterEach(() => Promise.all(closing.splice(0).map((close) => close())));

/** The status of a request, with the path as its target, and with scheme and host before it. */
async function bothForms(port: number, path: string, method = 'GET'): Promise<(number | undefined)[]> {
  const targets = [path, `http://intake.example${path}`];
  return Promise.all(
    targets.map(async (target) => {
      const sent = request({ port, host: '127.0.0.1', path: target, method, agent: false }).end();
      const [response] = await once(sent, 'response');
      response.resume();
      return response.statusCode;
    }),
  );
}

async function webhook(more: Partial<ServerDeps> = {}): Promise<number> {
  const never = () => new Promise<IntakeResult>(() => undefined);
  const server = await serveWebhook(0, {
    intake: { decideRequest: never },
    rehearse: never,
    secretsOf: () => [],
    publishVerdicts: null,
    logger,
    metrics: makeMetrics('webhook'),
    clock: systemClock,
    now: Date.now,
    slots: 2,
    maxEvents: 500,
    maxBytes: 1_024,
    trustedProxies: [],
    limits: { connections: 100, perAddress: 100 },
    ...more,
  });
  closing.push(() => server.close(1_000));
  return server.port;
}

test('the webhook [W6]', async () => {
  const port = await webhook();
  // A path that exists is refused for the type of its body, and any other is not found.
  expect(await bothForms(port, '/v1/events/acme', 'POST')).toEqual([415, 415]);
  expect(await bothForms(port, '/v2/events/acme', 'POST')).toEqual([404, 404]);
  expect(await bothForms(port, '/v1/openapi.json')).toEqual([200, 200]);
  expect(await bothForms(port, '/readyz')).toEqual([200, 200]);
});

test('try', async () => {
  const log = { listEvents: () => '{}', listRefusals: () => '{}' };
  const port = await webhook({ answerAside: makeTryRequests({ log, reset: async () => undefined }) });
  expect(await bothForms(port, '/try/events?verdict=rejected')).toEqual([200, 200]);
});

test('the health port', async () => {
  const health = { live: () => true, ready: () => true, notes: () => [] };
  const { port, close } = await serveHealth(0, health, makeMetrics());
  closing.push(close);
  for (const path of ['/livez', '/readyz', '/metrics'])
    expect(await bothForms(port, path)).toEqual([200, 200]);
});

test('the console', async () => {
  const urls: string[] = [];
  const { port, close } = await serveConsole(0, {
    async handle({ url }) {
      urls.push(url);
      return { status: 200, headers: {}, body: '' };
    },
    addresses: makeAddresses([]),
    logger,
  });
  closing.push(() => close(1_000));
  await bothForms(port, '/event?feed=acme&id=e-1');
  expect(urls).toEqual(['/event?feed=acme&id=e-1', '/event?feed=acme&id=e-1']);
});

test('the sandbox', async () => {
  const paths: string[] = [];
  const { port, close } = await serveSandbox(0, {
    handler: {
      refuseHead: () => undefined,
      async answer({ path }) {
        paths.push(path);
        return { status: 200, body: '{}', headers: {} };
      },
    },
    openapi: '{}',
    logger,
  });
  closing.push(close);
  expect(await bothForms(port, '/readyz')).toEqual([200, 200]);
  await bothForms(port, '/sandbox/round', 'POST');
  expect(paths).toEqual(['/sandbox/round', '/sandbox/round']);
});
