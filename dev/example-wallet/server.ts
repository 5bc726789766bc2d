/** The example wallet over HTTP: checks the signature, reads the envelope, answers by a transaction. */
import { createHmac, timingSafeEqual } from 'node:crypto';
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { Pool } from 'pg';
import type { WalletAction } from '../../src/contract/actions';
import { readWalletRequest } from '../../src/contract/envelope';
import { isObject, parseJson } from '../../src/lib/json';
import { readUpTo } from '../../src/lib/read-limited';
import type { Bugs } from './bugs';
import { readCall } from './call';
import { answerEndpoint } from './endpoints';
import { TABLES } from './tables';
import { type Body, ExampleWallet, failure } from './wallet';

const PATHS: ReadonlyMap<string, WalletAction> = new Map([
  ['/v2/wallet/balance', 'balance'],
  ['/v2/wallet/authenticate', 'authenticate'],
  ['/v2/wallet/debit', 'debit'],
  ['/v2/wallet/credit', 'credit'],
  ['/v2/wallet/debit-and-credit', 'debit_and_credit'],
  ['/v2/wallet/rollback', 'rollback'],
  ['/v2/wallet/close-round', 'close_round'],
  ['/v2/wallet/reconcile', 'reconcile'],
]);

const CONNECTIONS = 8;
const MAX_BODY_BYTES = 65_536;
const SIGNATURE_WINDOW_S = 300;

export interface ExampleWalletOptions {
  readonly databaseUrl: string;
  readonly secret: string;
  readonly keyId: string;
  /** 0: any free port. */
  readonly port: number;
  readonly bugs: Bugs;
}

export interface RunningWallet {
  readonly url: string;
  close(): Promise<void>;
}

export async function startExampleWallet(options: ExampleWalletOptions): Promise<RunningWallet> {
  const pool = new Pool({
    connectionString: options.databaseUrl,
    max: CONNECTIONS,
    statement_timeout: 4_000,
  });
  pool.on('error', () => undefined); // the next query reports a lost connection
  for (const statement of TABLES) await pool.query(statement);
  // All connections at the start: calls at once do not wait for them, and meet in the gaps of bugs.
  await Promise.all(Array.from({ length: CONNECTIONS }, () => pool.query('select 1')));
  const server = createServer((request, response) => {
    respond(request, response, pool, options).catch(() => bare(response, 500));
  });
  await new Promise<void>((resolve, reject) => {
    server.once('error', reject).listen(options.port, '127.0.0.1', resolve);
  });
  return { url: `http://127.0.0.1:${portOf(server)}`, close: () => closeAll(server, pool) };
}

function portOf(server: Server): number {
  const address: string | AddressInfo | null = server.address();
  if (typeof address !== 'object' || address === null) throw new Error('the wallet has no port');
  return address.port;
}

async function closeAll(server: Server, pool: Pool): Promise<void> {
  server.closeAllConnections();
  await new Promise((resolve) => server.close(resolve));
  await pool.end();
}

async function respond(
  request: IncomingMessage,
  response: ServerResponse,
  pool: Pool,
  { secret, keyId, bugs }: ExampleWalletOptions,
): Promise<void> {
  const other = answerEndpoint(request, secret, bugs);
  if (other !== undefined) return send(response, other.body, other.status);
  const bytes = await readBody(request);
  if (bytes === undefined) return; // the connection broke: there is nobody to answer
  if (bytes === null) return bare(response, 413);
  const isKnown = request.headers['x-api-key-id'] === keyId && isSigned(request, bytes, secret);
  if (!isKnown && !bugs.has('signature_not_checked')) return bare(response, 401);
  const action = PATHS.get(request.url ?? '');
  if (action === undefined) {
    if (bugs.has('unsupported_is_bare_404')) return bare(response, 404);
    return send(response, failure('ERROR_CODE_UNSUPPORTED_ACTION'));
  }
  const read = readWalletRequest(parseJson(bytes.toString('utf8')));
  const call = read.type === 'request' ? readCall(action, read.request, bugs) : undefined;
  if (call === undefined) {
    const code = bugs.has('own_code') ? 'ERROR_CODE_BAD_JSON' : 'ERROR_CODE_INVALID_REQUEST';
    return send(response, { status: 'error', error: { code } });
  }
  const isConnected = () => !request.socket.destroyed && !response.destroyed;
  const body = await inTransaction(pool, (wallet) => wallet.answer(call), bugs, isConnected);
  if (bugs.has('unknown_player_is_404') && codeOf(body) === 'ERROR_CODE_PLAYER_NOT_FOUND')
    return bare(response, 404);
  send(response, body);
}

/** Undefined where the connection breaks, null where the body is too large. */
async function readBody(request: IncomingMessage): Promise<Buffer | null | undefined> {
  try {
    return await readUpTo(request, MAX_BODY_BYTES);
  } catch {
    return undefined;
  }
}

/** Answers once the transaction is committed. Where that fails, the service sends the call again. */
async function inTransaction(
  pool: Pool,
  work: (wallet: ExampleWallet) => Promise<Body>,
  bugs: Bugs,
  isConnected: () => boolean,
): Promise<Body> {
  const client = await pool.connect();
  try {
    await client.query('begin');
    const body = await work(new ExampleWallet(client, bugs, isConnected));
    await client.query('commit');
    client.release();
    return body;
  } catch {
    client.release(true); // ends the connection, and the transaction with it
    return failure('ERROR_CODE_INTERNAL');
  }
}

/** HMAC-SHA256 in hex, of the time in seconds, a dot, and the body. */
function isSigned({ headers }: IncomingMessage, body: Buffer, secret: string): boolean {
  const { 'x-signature': signature, 'x-timestamp': timestamp } = headers;
  if (typeof signature !== 'string' || typeof timestamp !== 'string') return false;
  if (!(Math.abs(Date.now() / 1_000 - Number(timestamp)) <= SIGNATURE_WINDOW_S)) return false;
  const expected = createHmac('sha256', secret).update(`${timestamp}.`).update(body).digest();
  const given = Buffer.from(signature, 'hex');
  return given.length === expected.length && timingSafeEqual(given, expected);
}

function codeOf({ error }: Body): unknown {
  return isObject(error) ? error.code : undefined;
}

function send(response: ServerResponse, body: unknown, status = 200): void {
  response.writeHead(status, { 'content-type': 'application/json' }).end(JSON.stringify(body));
}

function bare(response: ServerResponse, status: number): void {
  if (!response.headersSent) response.writeHead(status);
  response.end();
}
