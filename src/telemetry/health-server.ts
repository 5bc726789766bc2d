/**
 * The server of /livez, /readyz and /metrics on HTTP_PORT.
 *
 * Anybody who reaches the port may open connections and send half of a request. So each connection has short
 * deadlines, and each address a limit of connections. At the limit, a new connection takes the place of the
 * oldest one that waits for a request.
 */
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { useOriginForm } from '../lib/request-target';
import { limitConnections, networkAt } from './connections';

export interface Health {
  /** False restarts the pod, since only a restart helps. */
  live(): boolean;
  /** False takes the pod out of service. */
  ready(): boolean;
  /** Problems that somebody has to act on although the pod is in service, one sentence each. */
  notes(): readonly string[];
}

/** The part of the metrics that the server needs. */
export interface ServedMetrics {
  readonly registry: { readonly contentType: string; metrics(): Promise<string> };
  beforeScrape(): void;
  readonly healthConnectionsDropped: { inc(): void };
  readonly healthRequestsRefused: { inc(): void };
}

/** The deadlines for the head of a request and for the whole request. A late request ends its connection. */
const HEAD_TIMEOUT_MS = 2_000;
const REQUEST_TIMEOUT_MS = 3_000;
const LATE_REQUESTS_CHECK_MS = 500;
/** The deadline for the client to read an answer. */
const ANSWER_TIMEOUT_MS = 5_000;
const KEEP_ALIVE_MS = 5_000;
const MAX_HEAD_BYTES = 8 * 1024;
/**
 * The most connections in all, and from one address. An IPv6 network /64 counts as one address, since it
 * belongs to one sender.
 */
const MAX_HEALTH_CONNECTIONS = 200;
const MAX_HEALTH_CONNECTIONS_AN_ADDRESS = 20;
/** The most requests from one address in a second. Further ones are answered 429. */
const MAX_HEALTH_REQUESTS_A_SECOND = 50;
/** The most addresses whose requests are counted within a second. */
const MAX_COUNTED_ADDRESSES = 10_000;
const SECOND_MS = 1_000;

/**
 * Serves /livez, /readyz and /metrics.
 * @returns the port, which differs from `port` where that is 0
 */
export async function serveHealth(
  port: number,
  health: Health,
  metrics: ServedMetrics,
): Promise<{ port: number; close(): Promise<void> }> {
  const limits = {
    requestTimeout: REQUEST_TIMEOUT_MS,
    headersTimeout: HEAD_TIMEOUT_MS,
    keepAliveTimeout: KEEP_ALIVE_MS,
    connectionsCheckingInterval: LATE_REQUESTS_CHECK_MS,
    maxHeaderSize: MAX_HEAD_BYTES,
  };
  const connections = limitConnections({
    most: MAX_HEALTH_CONNECTIONS,
    anAddress: MAX_HEALTH_CONNECTIONS_AN_ADDRESS,
    onDropped: () => metrics.healthConnectionsDropped.inc(),
  });
  const isTooOften = makeRequestCount();
  const readMetrics = shared(() => {
    metrics.beforeScrape();
    return metrics.registry.metrics();
  });
  const respond = (request: IncomingMessage, response: ServerResponse) => {
    const answer = (status: number, body: string, type = 'text/plain; charset=utf-8') => {
      response.writeHead(status, { 'content-type': type }).end(body);
    };
    useOriginForm(request);
    const path = request.url?.split('?')[0];
    if (isTooOften(networkAt(request.socket))) {
      metrics.healthRequestsRefused.inc();
      response.setHeader('connection', 'close');
      answer(429, 'too many requests a second from this address\n');
    } else if (request.method !== 'GET' && request.method !== 'HEAD') {
      response.setHeader('allow', 'GET, HEAD');
      answer(405, 'only GET and HEAD\n');
    } else if (path === '/livez') answer(health.live() ? 200 : 503, health.live() ? 'live\n' : 'stuck\n');
    else if (path === '/readyz')
      answer(
        health.ready() ? 200 : 503,
        [health.ready() ? 'ready' : 'not ready', ...health.notes(), ''].join('\n'),
      );
    else if (path === '/metrics')
      readMetrics().then(
        (text) => answer(200, text, metrics.registry.contentType),
        (error: unknown) => answer(500, `${error instanceof Error ? error.message : 'metrics failed'}\n`),
      );
    else answer(404, 'paths: /livez /readyz /metrics\n');
  };
  const server = createServer(limits, (request, response) => {
    connections.answering(request, response, ANSWER_TIMEOUT_MS);
    respond(request, response);
  });
  server.on('connection', connections.add);
  const served = await listenAt(server, port);
  return { port: served, close: () => close(server) };
}

/**
 * @returns a function that counts a request, and returns whether its address has exceeded the limit in this
 * second
 */
function makeRequestCount(): (address: string) => boolean {
  let counts = new Map<string, number>();
  let since = performance.now();
  return (address) => {
    const now = performance.now();
    if (now - since >= SECOND_MS || counts.size >= MAX_COUNTED_ADDRESSES) {
      counts = new Map();
      since = now;
    }
    const count = (counts.get(address) ?? 0) + 1;
    counts.set(address, count);
    return count > MAX_HEALTH_REQUESTS_A_SECOND;
  };
}

/** Shares one run of the work: calls during a run get its result. */
function shared<T>(work: () => Promise<T>): () => Promise<T> {
  let underWay: Promise<T> | undefined;
  return () => {
    underWay ??= work().finally(() => {
      underWay = undefined;
    });
    return underWay;
  };
}

/**
 * Makes a server listen.
 * @param port 0 for any free port
 * @param address absent: all addresses of this machine
 * @returns the port
 * @throws where the port is taken
 */
export async function listenAt(server: Server, port: number, address?: string): Promise<number> {
  await new Promise<void>((resolve, reject) => {
    server.once('error', reject);
    server.listen(port, address, () => {
      server.removeListener('error', reject);
      resolve();
    });
  });
  const served: AddressInfo | string | null = server.address();
  if (served === null || typeof served === 'string') throw new Error('the server has no port');
  return served.port;
}

async function close(server: Server): Promise<void> {
  server.closeAllConnections();
  await new Promise<void>((resolve) => server.close(() => resolve()));
}
