/** The HTTP server of the sandbox. It is for tests, so it has simple limits, and no metrics. */
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { Logger } from 'pino';
import { messageOf } from '../lib/errors';
import { readUpTo } from '../lib/read-limited';
import { requestIdOf } from '../lib/request-id';
import { useOriginForm } from '../lib/request-target';
import { listenAt } from '../telemetry/health-server';
import { refuse, SANDBOX_HEADER, type SandboxAnswer } from './answers';
import type { SandboxHandler } from './handler';

export const MAX_CALL_BYTES = 65_536;
const REQUEST_WITHIN_MS = 10_000;

export interface SandboxServer {
  readonly port: number;
  /** Answers the calls in flight, and accepts no more. */
  close(): Promise<void>;
}

export interface SandboxServerDeps {
  readonly handler: SandboxHandler;
  /** The OpenAPI document, as JSON. */
  readonly openapi: string;
  readonly logger: Logger;
}

/** @param port 0 for any free port */
export async function serveSandbox(port: number, deps: SandboxServerDeps): Promise<SandboxServer> {
  const { handler, openapi, logger } = deps;

  async function respond(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const requestId = requestIdOf(request);
    useOriginForm(request);
    const { method = '', url = '' } = request;
    const isReading = method === 'GET' || method === 'HEAD';
    if (isReading && url === '/readyz')
      return send(response, requestId, { status: 200, body: '{"sandbox":true}' });
    if (isReading && url === '/openapi.json')
      return send(response, requestId, { status: 200, body: openapi });
    const refused = handler.refuseHead(method, url);
    if (refused !== undefined) {
      request.resume();
      return send(response, requestId, refused);
    }
    const body = await readUpTo(request, MAX_CALL_BYTES);
    if (body === null) {
      const answer = refuse('invalid request', `the body has more than ${MAX_CALL_BYTES} bytes`, 413);
      return send(response, requestId, answer, { connection: 'close' });
    }
    const { headers } = request;
    send(response, requestId, await handler.answer({ method, path: url, headers, body, requestId }));
  }

  const server = createServer({ requestTimeout: REQUEST_WITHIN_MS }, (request, response) => {
    respond(request, response).catch((error: unknown) => {
      // Its sender has gone, or the answer could not be written.
      logger.debug({ error: messageOf(error) }, 'sandbox call broke off');
      request.socket.destroy();
    });
  });
  // Bytes that are no request, or a request that does not end. Node's own answer would not say sandbox.
  server.on('clientError', (_error, socket) => {
    if (!socket.writable) return;
    const { status, body } = refuse('invalid request', 'the bytes are no whole HTTP request');
    const head = [
      `HTTP/1.1 ${status} Bad Request`,
      `${SANDBOX_HEADER.name}: ${SANDBOX_HEADER.value}`,
      'content-type: application/json',
      `content-length: ${Buffer.byteLength(body)}`,
      'connection: close',
    ];
    socket.end(`${head.join('\r\n')}\r\n\r\n${body}`);
  });
  const served = await listenAt(server, port);
  return {
    port: served,
    close: () =>
      new Promise((resolve) => {
        server.close(() => resolve());
        server.closeIdleConnections();
      }),
  };
}

function send(
  response: ServerResponse,
  requestId: string,
  { status, body, headers }: Omit<SandboxAnswer, 'headers'> & Partial<SandboxAnswer>,
  more: Readonly<Record<string, string>> = {},
): void {
  response.writeHead(status, {
    'content-type': 'application/json',
    'content-length': Buffer.byteLength(body),
    'cache-control': 'no-store',
    'x-request-id': requestId,
    [SANDBOX_HEADER.name]: SANDBOX_HEADER.value,
    ...headers,
    ...more,
  });
  response.end(body);
}
