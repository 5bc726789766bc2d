/** The connections of the console, over real sockets: no address takes all of them. */
import { once } from 'node:events';
import { get } from 'node:http';
import { connect, type Socket } from 'node:net';
import { pino } from 'pino';
import { until } from '../../../dev/servers/deadline';
import { type ConsoleServer, serveConsole } from '../../../src/console/server';
import { makeAddresses } from '../../../src/lib/address';

let served: ConsoleServer;
let lines: Record<string, unknown>[];
const sockets: Socket[] = [];
afterEach(async () => {
  for (const socket of sockets.splice(0)) socket.destroy();
  await served.close(1_000);
});

async function serve(...proxies: string[]): Promise<void> {
  lines = [];
  served = await serveConsole(0, {
    handle: async () => ({ status: 200, headers: {}, body: '' }),
    addresses: makeAddresses(proxies),
    logger: pino({}, { write: (line: string) => void lines.push(JSON.parse(line)) }),
  });
}

/** Opens connections, and sends nothing. They end by themselves after 5 s. */
async function open(count: number, localAddress: string): Promise<void> {
  const opened = Array.from({ length: count }, () => {
    const socket = connect({ port: served.port, host: '127.0.0.1', localAddress });
    return socket.on('error', () => undefined).resume();
  });
  sockets.push(...opened);
  await Promise.all(opened.map((socket) => once(socket, 'connect')));
}

async function statusFrom(localAddress: string): Promise<number | undefined> {
  const asked = get({ port: served.port, host: '127.0.0.1', localAddress, agent: false, timeout: 30_000 });
  asked.once('timeout', () => asked.destroy(new Error('no answer')));
  const [response] = await once(asked, 'response');
  response.resume();
  return response.statusCode;
}

const untilDropped = () => until('a connection is dropped', 30_000, () => lines.length > 0);

test('beyond 250 connections an address loses its own oldest, and all addresses are answered', async () => {
  await serve();
  await open(250, '127.0.0.1');
  await open(20, '127.0.0.2');
  expect(lines).toEqual([]);
  await open(300, '127.0.0.1');
  await untilDropped();
  for (const address of ['127.0.0.1', '127.0.0.2']) expect(await statusFrom(address)).toBe(200);
  // One line a minute, although hundreds were dropped.
  expect(lines).toMatchObject([{ sender: '127.0.0.1', msg: 'connection of the console dropped' }]);
});

test('a proxy that is trusted may have all 500 connections, and no more', async () => {
  await serve('127.0.0.1');
  await open(450, '127.0.0.1');
  expect(await statusFrom('127.0.0.1')).toBe(200);
  expect(lines).toEqual([]);
  await open(60, '127.0.0.1');
  await untilDropped();
  expect(await statusFrom('127.0.0.1')).toBe(200);
});

test('connections of many addresses: the oldest are dropped, and a newcomer is answered', async () => {
  await serve();
  for (let n = 2; n < 8; n++) await open(100, `127.0.0.${n}`);
  await untilDropped();
  expect(await statusFrom('127.0.0.1')).toBe(200);
});
