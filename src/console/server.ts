/** The HTTP server of the console. */
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { Logger } from 'pino';
import { type Addresses, networkOf, plainAddress } from '../lib/address';
import { systemClock } from '../lib/clock';
import { messageOf } from '../lib/errors';
import { limitLines } from '../lib/line-limit';
import { readUpTo } from '../lib/read-limited';
import { useOriginForm } from '../lib/request-target';
import { limitConnections } from '../telemetry/connections';
import { listenAt } from '../telemetry/health-server';
import type { ConsoleAnswer, ConsoleRequest } from './handler';

/** A form has a token and an address. */
const MAX_BODY_BYTES = 16 * 1024;
const LIMITS = {
  headersTimeout: 5_000,
  requestTimeout: 10_000,
  keepAliveTimeout: 5_000,
  connectionsCheckingInterval: 1_000,
  maxHeaderSize: 16 * 1024,
};
/** The most connections in all, and of one address that is no trusted proxy. */
const MAX_CONNECTIONS = 500;
const MAX_CONNECTIONS_AN_ADDRESS = 250;
/** A page may wait for a place and for its queries, and the browser may be slow. */
const ANSWER_WITHIN_MS = 45_000;

/** No script runs, nothing is loaded from elsewhere, and no other site shows a page of the console. */
const CONTENT_SECURITY_POLICY =
  "default-src 'none'; style-src 'self'; img-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'";

const SECURITY = {
  'content-security-policy': CONTENT_SECURITY_POLICY,
  'x-content-type-options': 'nosniff',
  'x-frame-options': 'DENY',
  'referrer-policy': 'no-referrer',
  'cross-origin-opener-policy': 'same-origin',
  'cross-origin-resource-policy': 'same-origin',
  'cache-control': 'no-store',
};

export interface ConsoleServer {
  readonly port: number;
  /** Accepts no more connections, and answers the requests in flight. @returns false where it cut some */
  close(withinMs: number): Promise<boolean>;
}

export interface ConsoleServerDeps {
  readonly handle: (request: ConsoleRequest) => Promise<ConsoleAnswer>;
  readonly addresses: Addresses;
  readonly logger: Logger;
}

/** @param port 0 for any free port. @throws where the port is taken */
export async function serveConsole(
  port: number,
  { handle, addresses, logger }: ConsoleServerDeps,
): Promise<ConsoleServer> {
  async function respond(request: IncomingMessage, response: ServerResponse): Promise<void> {
    useOriginForm(request);
    const { method = '', url = '' } = request;
    const body = method === 'POST' ? await readUpTo(request, MAX_BODY_BYTES) : Buffer.alloc(0);
    if (body === null) return send(response, TOO_LARGE);
    if (method !== 'POST') request.resume();
    const peer = plainAddress(request.socket.remoteAddress ?? '');
    const sender = networkOf(addresses.senderOf(peer, request.headers));
    const answer = await handle({
      method,
      url,
      headers: singleHeaders(request),
      body: body.toString('utf8'),
      sender,
    });
    send(response, answer, method === 'HEAD');
  }

  const logLimited = limitLines(logger, systemClock);
  const connections = limitConnections({
    most: MAX_CONNECTIONS,
    anAddress: MAX_CONNECTIONS_AN_ADDRESS,
    isProxy: addresses.isProxy,
    onDropped: (sender) => logLimited(sender, { sender }, 'connection of the console dropped'),
  });
  const server = createServer(LIMITS, (request, response) => {
    connections.answering(request, response, ANSWER_WITHIN_MS);
    respond(request, response).catch((error: unknown) => {
      logger.debug({ error: messageOf(error) }, 'request of the console broke off');
      request.socket.destroy();
    });
  });
  server.on('connection', connections.add);
  const served = await listenAt(server, port);
  return {
    port: served,
    async close(withinMs) {
      const closed = new Promise<boolean>((resolve) => server.close(() => resolve(true)));
      server.closeIdleConnections();
      const cut = setTimeout(() => server.closeAllConnections(), withinMs);
      const began = performance.now();
      await closed;
      clearTimeout(cut);
      return performance.now() - began < withinMs;
    },
  };
}

const TOO_LARGE: ConsoleAnswer = {
  status: 413,
  headers: { 'content-type': 'text/plain; charset=utf-8', connection: 'close' },
  body: 'the body is too large\n',
};

function send(response: ServerResponse, { status, headers, body }: ConsoleAnswer, isHead = false): void {
  const bytes = Buffer.from(body);
  response.writeHead(status, { ...SECURITY, ...headers, 'content-length': bytes.length });
  response.end(isHead ? undefined : bytes);
}

/** Node joins most headers that come twice, and keeps the first of the others. */
function singleHeaders({ headers }: IncomingMessage): Record<string, string | undefined> {
  const names = ['accept', 'authorization', 'cookie', 'sec-fetch-site'] as const;
  return Object.fromEntries(names.map((name) => [name, headers[name]?.toString()]));
}
