/** A wrong --url of `send`: the command prints the cause and the correction. */
import { randomBytes } from 'node:crypto';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { createServer as createHttpServer } from 'node:http';
import type { AddressInfo, Server } from 'node:net';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { until } from '../../dev/servers/deadline';
import { aLogin } from '../support/builders';
import { killWorkers, RunningCommand } from '../support/worker';

let directory: string;
let http: Server;
let other: Server;
beforeAll(async () => {
  directory = mkdtempSync(join(tmpdir(), 'promo-send-'));
  writeFileSync(join(directory, 'events.ndjson'), `${JSON.stringify(aLogin())}\n`);
  http = createHttpServer((_, response) => response.writeHead(404).end('<html>no such page</html>'));
  other = createServer((socket) => {
    socket.on('error', () => undefined).once('data', () => socket.end('R'));
  });
  for (const server of [http, other])
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
});
afterEach(killWorkers);
afterAll(() => {
  http.close();
  other.close();
  rmSync(directory, { recursive: true, force: true });
});

const portOf = (server: Server) => (server.address() as AddressInfo).port;

test.each<[string, () => string, RegExp]>([
  [
    'another web server',
    () => `http://127.0.0.1:${portOf(http)}`,
    /not accepted: it answered 404\. There is no webhook of promo-intake at this address: correct --url/,
  ],
  [
    'https at a port of http',
    () => `https://127.0.0.1:${portOf(http)}`,
    /not accepted: ERR_SSL_\w+\. The port has no TLS: correct the scheme or the port in --url/,
  ],
  ['a port of no web client', () => 'http://127.0.0.1:1', /bad port\. .*correct the port in --url/],
  [
    'no such host',
    () => 'http://nobody.invalid',
    /sent again in 1 s: .*(ENOTFOUND|EAI_AGAIN).*\. Check the host and the port in --url, and that the webhook runs/,
  ],
  [
    'a server of another protocol',
    () => `http://127.0.0.1:${portOf(other)}`,
    /sent again in 1 s: .*\. If each try ends like this, correct --url: the webhook may need https/,
  ],
])('%s', async (_, url, expected) => {
  const command = new RunningCommand(
    ['send', join(directory, 'events.ndjson'), '--connection', 'hook', '--url', url()],
    { WEBHOOK_SECRETS: JSON.stringify({ hook: `whsec_${randomBytes(24).toString('base64')}` }) },
  );
  await until('it says why', 60_000, () => expected.test(command.output()) || command.hasEnded());
  expect(command.output()).toMatch(expected);
});
