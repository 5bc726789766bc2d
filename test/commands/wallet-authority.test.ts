/** The certificate of a wallet, and the authorities that Node knows: it reads them at its start. */
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { createServer, type Server } from 'node:https';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { makeAuthority } from '../../dev/servers/certificates';
import { makeWalletClient } from '../../src/wallet/client';
import { startProgram } from '../support/program';
import { aProfile } from '../support/wallet';

const program = join(__dirname, 'wallet-client-program.ts');
const authority = makeAuthority('private');
let directory: string;
beforeAll(() => {
  directory = mkdtempSync(join(tmpdir(), 'wallet-authority-'));
  writeFileSync(join(directory, 'ca.pem'), authority.ca);
});
afterAll(() => rmSync(directory, { recursive: true }));

let server: Server | undefined;
let requests = 0;
afterEach(() => {
  server?.closeAllConnections();
  server?.close();
});

/** A wallet on localhost, with a certificate for a host. @returns its address */
async function serveWallet(host: string): Promise<string> {
  requests = 0;
  const wallet = createServer(authority.sign('wallet', { host }), (_, response) => {
    requests++;
    response.end('{"status":"ok"}');
  });
  server = wallet;
  await new Promise<void>((resolve) => wallet.listen(0, '127.0.0.1', resolve));
  const address = wallet.address();
  if (address === null || typeof address === 'string') throw new Error('no address');
  return `https://localhost:${address.port}`;
}

test('a certificate of no known authority is refused before anything is sent [X10]', async () => {
  const { send } = makeWalletClient(aProfile(await serveWallet('localhost')), {
    secret: () => Buffer.from('key'),
    wallNow: () => Date.now(),
    monotonicNow: () => performance.now(),
  });
  const { reply, networkCode } = await send({
    action: 'debit',
    opId: 'op-1',
    requestId: 'r-1',
    payload: '{"meta":{"op_id":"op-1"}}',
  });
  expect(reply).toEqual({ type: 'nothing', cause: 'unreachable' });
  expect(networkCode).toMatch(/^(UNABLE_TO_|SELF_SIGNED_|DEPTH_ZERO_)/);
  expect(requests).toBe(0);
});

describe('a wallet with a certificate of a private authority', () => {
  test.each([
    ['of its name is called', 'localhost', 'HTTP 200', 1],
    ['of another name is refused', 'other.example', 'unreachable: ERR_TLS_CERT_ALTNAME_INVALID', 0],
  ])('%s where NODE_EXTRA_CA_CERTS names the authority [X10]', async (_, host, line, expected) => {
    const running = startProgram(program, {
      WALLET_URL: await serveWallet(host),
      NODE_EXTRA_CA_CERTS: join(directory, 'ca.pem'),
    });
    await running.waitForLine(line);
    expect(requests).toBe(expected);
  });
});
