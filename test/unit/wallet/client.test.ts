/** One attempt of a wallet call over a real connection: each way to fail, and the reply that it becomes. */
import { createServer } from 'node:http';
import { type AddressInfo, createServer as createTcpServer, type Server, type Socket } from 'node:net';
import { interpretReply, MAX_REPLY_BYTES } from '../../../src/wallet/answer';
import { makeWalletClient } from '../../../src/wallet/client';
import type { CallProfile } from '../../../src/wallet/profile';
import { aProfile } from '../../support/wallet';

const DEADLINE_MS = 1_000;
const send = {
  action: 'debit',
  opId: 'op-1',
  requestId: 'r-1',
  payload: '{"meta":{"op_id":"op-1"}}',
} as const;
const clientOf = (url: string, more: Partial<CallProfile> = {}, deadlineMs = DEADLINE_MS) =>
  makeWalletClient(aProfile(url, more), {
    secret: () => Buffer.from('key'),
    monotonicNow: () => performance.now(),
    wallNow: () => Date.now(),
    deadlineMs,
  });

const servers: Server[] = [];
const sockets = new Set<Socket>();
async function listen(server: Server): Promise<string> {
  servers.push(server);
  server.on('connection', (socket: Socket) => {
    sockets.add(socket);
    socket.on('error', () => undefined);
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const address: AddressInfo | string | null = server.address();
  if (address === null || typeof address === 'string') throw new Error('no address');
  return `127.0.0.1:${address.port}`;
}
afterEach(async () => {
  for (const socket of sockets) socket.destroy();
  sockets.clear();
  await Promise.all(servers.splice(0).map((server) => new Promise((closed) => server.close(closed))));
});

/** A server that reads the request, and then does anything with the socket. */
const raw = async (act: (socket: Socket) => void) =>
  `http://${await listen(createTcpServer((socket) => socket.once('data', () => act(socket))))}`;
const OK = '{"status":"ok"}';
const head = (lines: string) => `HTTP/1.1 ${lines}\r\n\r\n`;

const FAULTS: Readonly<Record<string, readonly [act: (socket: Socket) => void, cause: string]>> = {
  'closes without a reply': [(socket) => socket.end(), 'unreachable'],
  'resets the connection': [(socket) => socket.resetAndDestroy(), 'unreachable'],
  'never replies': [() => undefined, 'timeout'],
  'sends half a head': [(socket) => socket.write('HTTP/1.1 200 OK\r\ncontent-'), 'timeout'],
  'sends no HTTP': [(socket) => socket.end('hello\r\n\r\n'), 'unreachable'],
  'sends a head that is too large': [
    (socket) => socket.end(head(`200 OK\r\nx: ${'x'.repeat(20_000)}`)),
    'unreachable',
  ],
  'stalls in the body': [(socket) => socket.write(`${head('200 OK\r\ncontent-length: 50')}{`), 'timeout'],
  'cuts the body off': [(socket) => socket.end(`${head('200 OK\r\ncontent-length: 50')}{`), 'cut_off'],
  'sends a body that is too large': [
    (socket) => socket.end(`${head('200 OK')}${' '.repeat(MAX_REPLY_BYTES)}${OK}`),
    'too_large',
  ],
  'sends a body without an end': [
    (socket) => {
      socket.write(head('200 OK\r\ntransfer-encoding: chunked'));
      const timer = setInterval(() => socket.write('4000\r\n'.concat(' '.repeat(0x4000), '\r\n')), 1);
      socket.on('close', () => clearInterval(timer));
    },
    'too_large',
  ],
  'sends no body': [(socket) => socket.end(head('200 OK\r\ncontent-length: 0')), 'not_json'],
  'sends no JSON': [(socket) => socket.end(`${head('200 OK')}<html>`), 'not_json'],
  redirects: [
    (socket) => socket.end(head('307 Away\r\nlocation: http://127.0.0.1:1/\r\ncontent-length: 0')),
    'bare_status',
  ],
  'sends a status without the envelope': [
    (socket) => socket.end(head('503 Away\r\ncontent-length: 0')),
    'bare_status',
  ],
};

test.each(Object.entries(FAULTS))('a wallet that %s gives no answer [O3]', async (_, [act, cause]) => {
  const deadlineMs = cause === 'timeout' ? 300 : DEADLINE_MS;
  const { reply, ms } = await clientOf(await raw(act), {}, deadlineMs).send(send);
  expect(interpretReply('debit', reply)).toMatchObject({ type: 'no_answer', cause });
  expect(ms).toBeLessThan(DEADLINE_MS + 1_000);
});

test('a success has its body, status and time', async () => {
  const url = await raw((socket) => socket.end(`${head('200 OK\r\nretry-after: 3')}${OK}`));
  const { reply, networkCode } = await clientOf(url).send(send);
  expect(interpretReply('debit', reply)).toEqual({ type: 'ok', body: { status: 'ok' } });
  expect(reply).toMatchObject({ type: 'http', status: 200, headers: { 'retry-after': '3' } });
  expect(networkCode).toBeNull();
});

test('a port without a server is unreachable, with the code of the network', async () => {
  const url = await raw(() => undefined);
  const [server] = servers.splice(0);
  await new Promise((closed) => server?.close(closed));
  expect(await clientOf(url).send(send)).toMatchObject({
    reply: { type: 'nothing', cause: 'unreachable' },
    networkCode: 'ECONNREFUSED',
  });
});

test('a redirect is not followed [X10]', async () => {
  let reached = 0;
  const target = await listen(createServer((_, response) => response.end(String(reached++))));
  const url = await raw((socket) =>
    socket.end(head(`307 Away\r\nlocation: http://${target}/\r\ncontent-length: 0`)),
  );
  expect((await clientOf(url).send(send)).reply).toMatchObject({ type: 'http', status: 307 });
  expect(reached).toBe(0);
});

test('an attempt that is stopped is interrupted', async () => {
  const stop = new AbortController();
  const sending = clientOf(await raw(() => stop.abort())).send(send, stop.signal);
  expect((await sending).reply).toEqual({ type: 'nothing', cause: 'interrupted' });
});
