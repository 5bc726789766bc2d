/** The addresses that probes and Prometheus ask, over real sockets. */
import { once } from 'node:events';
import { connect } from 'node:net';
import { makeMetrics, serveHealth } from '../../src/telemetry';

const health = { live: () => true, ready: () => true, notes: () => ['a partition waits'] };
let served: Awaited<ReturnType<typeof serveHealth>>;
beforeEach(async () => {
  served = await serveHealth(0, health, makeMetrics());
});
afterEach(() => served.close());

const ask = (path: string, method = 'GET') => fetch(`http://127.0.0.1:${served.port}${path}`, { method });

test('the head of an answer is that of the whole one', async () => {
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

test('other methods are told which there are', async () => {
  const answer = await ask('/livez', 'POST');
  expect([answer.status, answer.headers.get('allow')]).toEqual([405, 'GET, HEAD']);
});

test('who does not send a request to its end within five seconds is let go', async () => {
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
  await Promise.all(ends);
  expect(performance.now() - began).toBeLessThan(9_000);
}, 20_000);
