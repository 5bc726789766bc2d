/** The addresses that probes and Prometheus request, over real sockets. */
import { once } from 'node:events';
import { get } from 'node:http';
import { connect, type Socket } from 'node:net';
import { text } from 'node:stream/consumers';
import { serveHealth } from '../../../src/telemetry/health-server';
import { makeMetrics } from '../../../src/telemetry/metrics';

const health = { live: () => true, ready: () => true, notes: () => ['a partition waits'] };
let served: Awaited<ReturnType<typeof serveHealth>>;
beforeEach(async () => {
  served = await serveHealth(0, health, makeMetrics());
});
afterEach(() => served.close());

const ask = (path: string, method = 'GET') => fetch(`http://127.0.0.1:${served.port}${path}`, { method });

test('HEAD returns the headers of GET', async () => {
  for (const path of ['/livez', '/readyz', '/metrics', '/none']) {
    const [whole, head] = [await ask(path), await ask(path, 'HEAD')];
    expect([head.status, head.headers.get('content-type')]).toEqual([
      whole.status,
      whole.headers.get('content-type'),
    ]);
    expect(await whole.text()).not.toBe('');
    expect(await head.text()).toBe('');
  }
});

test('other methods get the list of allowed ones', async () => {
  const answer = await ask('/livez', 'POST');
  expect([answer.status, answer.headers.get('allow')]).toEqual([405, 'GET, HEAD']);
});

test('a connection ends when the head of a request takes two seconds, or the whole of it three', async () => {
  const slow = [
    '',
    'GET /livez HTTP/1.1\r\nhost: here\r\n',
    'POST / HTTP/1.1\r\nhost: here\r\ncontent-length: 9\r\n\r\nhalf',
  ];
  const began = performance.now();
  const ends = slow.map(async (text) => {
    const socket = connect(served.port, '127.0.0.1', () => socket.write(text));
    socket.resume().on('error', () => undefined);
    await once(socket, 'close');
  });
  const [half] = await halfSent(1, '127.0.0.2');
  await once(half!, 'close');
  // Without these limits Node waits for a minute. A busy machine is seconds late.
  expect(performance.now() - began).toBeLessThan(20_000);
  await Promise.all(ends);
  expect(performance.now() - began).toBeLessThan(30_000);
});

/** Opens connections, and sends half of a request over each. */
async function halfSent(count: number, localAddress: string): Promise<Socket[]> {
  const sockets = Array.from({ length: count }, () => {
    const socket = connect({ port: served.port, host: '127.0.0.1', localAddress });
    socket.on('error', () => undefined).resume();
    socket.write('GET /livez HTTP/1.1\r\nhost: here\r\n');
    return socket;
  });
  await Promise.all(sockets.map((socket) => once(socket, 'connect')));
  return sockets;
}

/** Sends a request over a connection of its own, from an address. */
async function statusFrom(localAddress: string, path = '/livez'): Promise<number | undefined> {
  const options = { port: served.port, host: '127.0.0.1', path, localAddress, agent: false, timeout: 10_000 };
  const request = get(options);
  request.once('timeout', () => request.destroy(new Error('no answer')));
  const [response] = await once(request, 'response');
  response.resume();
  return response.statusCode;
}

test.each(['127.0.0.1', '127.0.0.2'])(
  'while one address has sent half of 110 requests, %s is answered on all paths',
  async (address) => {
    const sockets = await halfSent(110, '127.0.0.1');
    for (const path of ['/livez', '/readyz', '/metrics']) expect(await statusFrom(address, path)).toBe(200);
    for (const socket of sockets) socket.destroy();
  },
);

test('half-sent requests of many addresses: the oldest are dropped, and a newcomer is answered', async () => {
  const all = await Promise.all(Array.from({ length: 30 }, (_, n) => halfSent(20, `127.0.1.${n + 1}`)));
  for (const path of ['/livez', '/readyz', '/metrics']) expect(await statusFrom('127.0.0.1', path)).toBe(200);
  expect(await metricsText()).toMatch(/^promo_intake_health_connections_dropped_total (40[0-9])$/m);
  for (const socket of all.flat()) socket.destroy();
});

async function metricsText(): Promise<string> {
  return (await ask('/metrics')).text();
}

test('an address with too many requests in a second is answered 429, and others are served', async () => {
  // All in one write: on a busy machine, connections of their own would take more than a second.
  const socket = connect(served.port, '127.0.0.1');
  socket.write('GET /livez HTTP/1.1\r\nhost: here\r\n\r\n'.repeat(120));
  expect(await text(socket)).toContain('HTTP/1.1 429 ');
  expect(await statusFrom('127.0.0.2')).toBe(200);
});
