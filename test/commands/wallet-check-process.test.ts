/**
 * wallet-check as a process. It checks an operator's gateway by HTTPS, with a signature and amounts of its
 * own. It meets a certificate that nobody trusts, and a Ctrl-C.
 */
import { spawn } from 'node:child_process';
import { createHmac } from 'node:crypto';
import { once } from 'node:events';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import type { IncomingMessage, ServerResponse } from 'node:http';
import { createServer, type Server } from 'node:https';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { BugName } from '../../dev/example-wallet/bugs';
import { type RunningWallet, startExampleWallet } from '../../dev/example-wallet/server';
import { makeAuthority } from '../../dev/servers/certificates';
import { until } from '../../dev/servers/deadline';
import { productCommand } from '../../dev/servers/product';
import { type FreshDatabase, freshDatabase } from '../support/servers';
import { ONE_REQUEST, program, ROOT } from '../support/worker';

const SECRET = 'secret-of-the-test';
const ADDRESS = 'http://127.0.0.1:8787';
const authority = makeAuthority('operator');
const SIGNING = `signing:
  scheme: hmac-sha512
  header: X-Sign
  timestamp_header: X-Time
  prefix: "v1="
  encoding: base64
  secret_file: wallet.secret
headers: { X-Tenant: acme }
`;

/** The scenarios of the example's profile, with those of its endpoints. */
const ALL = 77;

let directory: string;
let database: FreshDatabase;
let wallet: RunningWallet;
let gateway: Server | undefined;

beforeEach(async () => {
  directory = mkdtempSync(join(tmpdir(), 'wallet-check-'));
  writeFileSync(join(directory, 'wallet.secret'), SECRET);
  writeFileSync(join(directory, 'ca.pem'), authority.ca);
  database = await freshDatabase();
});
afterEach(async () => {
  gateway?.closeAllConnections();
  gateway?.close();
  await wallet.close();
  await database.drop();
  rmSync(directory, { recursive: true });
});

async function startWallet(bugs: readonly BugName[]): Promise<void> {
  wallet = await startExampleWallet({
    databaseUrl: database.url,
    secret: SECRET,
    keyId: 'wallet-key-1',
    port: 0,
    bugs: new Set(bugs),
  });
}

/** Starts the gateway. @returns its address */
async function startGateway(): Promise<string> {
  const server = createServer(authority.sign('wallet', { host: 'localhost' }), (request, response) => {
    // A connection that the check cuts has nobody to answer.
    forward(request, response).catch(() => response.destroy());
  });
  gateway = server;
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const address: AddressInfo | string | null = server.address();
  if (address === null || typeof address === 'string') throw new Error('the gateway does not listen');
  return `https://localhost:${address.port}`;
}

async function forward(request: IncomingMessage, response: ServerResponse): Promise<void> {
  const chunks: Buffer[] = [];
  for await (const chunk of request) chunks.push(Buffer.from(chunk));
  const body = Buffer.concat(chunks).toString();
  const {
    'x-sign': given,
    'x-time': time = '',
    'x-tenant': tenant,
    'x-api-key-id': key = '',
  } = request.headers;
  const signature = createHmac('sha512', SECRET).update(`${time}.${body}`).digest('base64');
  if (given !== `v1=${signature}` || tenant !== 'acme') {
    response.writeHead(401).end();
    return;
  }
  const minor = body.replace(/"(amount|win)":"(-?\d+)\.(\d\d)"/g, (_, field, whole, cents) => {
    return `"${field}":"${BigInt(`${whole}${cents}`)}"`;
  });
  const reply = await fetch(`${wallet.url}${request.url}`, {
    method: 'POST',
    body: minor,
    headers: {
      ...ONE_REQUEST,
      'x-api-key-id': String(key),
      'x-timestamp': String(time),
      'x-signature': createHmac('sha256', SECRET).update(`${time}.${minor}`).digest('hex'),
    },
  });
  const text = await reply.text();
  const major = text.replace(/"balance":"(\d+)"/, (_, digits: string) => {
    const padded = digits.padStart(3, '0');
    return `"balance":"${padded.slice(0, -2)}.${padded.slice(-2)}"`;
  });
  response.writeHead(reply.status, { 'content-type': 'application/json' }).end(major);
}

function writeProfile(change: (text: string) => string): string {
  const path = join(directory, 'wallet.yaml');
  const text = readFileSync(join(ROOT, 'schemas/examples/wallet.yaml'), 'utf8');
  writeFileSync(path, change(text).replaceAll(ADDRESS, wallet.url));
  return path;
}

/** The profile of the gateway. The catalogue and the token stay at the wallet itself. */
const throughGateway = (url: string) => (text: string) =>
  text
    .replace(`base_url: ${ADDRESS}`, `base_url: ${url}`)
    .replace('amounts: minor', 'amounts: major')
    .replace(/^signing:\n(?: .*\n)+/m, SIGNING);

function start(args: readonly string[], settings: Readonly<Record<string, string>> = {}) {
  const command = productCommand(program(), ['wallet-check', ...args]);
  const child = spawn(command.file, command.args, {
    cwd: directory,
    env: { PATH: process.env.PATH, ...command.environment, ...settings },
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  const written = { output: '', errors: '' };
  child.stdout.setEncoding('utf8').on('data', (text: string) => {
    written.output += text;
  });
  child.stderr.setEncoding('utf8').on('data', (text: string) => {
    written.errors += text;
  });
  const ended = once(child, 'close').then(([code]: unknown[]) => code);
  return { child, written, ended };
}

test('a whole check passes by HTTPS, with a signature in base64, headers and major amounts', async () => {
  await startWallet([]);
  const profile = writeProfile(throughGateway(await startGateway()));
  const { written, ended } = start(['--profile', profile, '--junit', 'wallet.xml'], {
    NODE_EXTRA_CA_CERTS: join(directory, 'ca.pem'),
  });
  expect([await ended, written.output]).toEqual([
    0,
    expect.stringContaining(` ${ALL} passed, 0 failed, 0 not run;`),
  ]);
  const printed = `${written.output}${written.errors}${readFileSync(join(directory, 'wallet.xml'), 'utf8')}`;
  expect(printed).not.toMatch(/t-usual|secret-of-the-test/);
});

test('a certificate that is not trusted is one message, with its remedy', async () => {
  await startWallet([]);
  const url = await startGateway();
  const { written, ended } = start(['--profile', writeProfile(throughGateway(url))]);
  expect([await ended, written.output]).toEqual([1, '']);
  expect(written.errors).toMatch(
    /^the certificate of https:\/\/localhost:\d+ is not trusted \([A-Z_]+\); set NODE_EXTRA_CA_CERTS to the file of its authority\n$/,
  );
});

test('Ctrl-C ends a check within a second, with the report of the scenarios so far [O9]', async () => {
  await startWallet(['slow']);
  const profile = writeProfile((text) => text);
  const { child, written, ended } = start(['--profile', profile, '--junit', 'wallet.xml']);
  await until('the first scenario has passed', 60_000, () => written.errors.includes(`[1/${ALL}] passed`));
  const pressed = performance.now();
  child.kill('SIGINT');
  expect(await ended).toBe(1);
  // A busy machine may be seconds late. The rest of the check takes more than a minute.
  expect(performance.now() - pressed).toBeLessThan(20_000);
  expect(written.output).toMatch(/^\d+ scenarios: [1-9]\d* passed, 0 failed, \d+ not run; /m);
  const junit = readFileSync(join(directory, 'wallet.xml'), 'utf8');
  expect(junit.match(/<skipped message="the check was interrupted"\/>/g)?.length).toBeGreaterThan(60);
});
