/**
 * The webhook: events over HTTP, an event or a batch a request (docs/rules.md, S1, W1-W8). Here are the server, its
 * network connections and its end. The way of a request is in handler.ts.
 */
import { randomUUID } from 'node:crypto';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { Duplex } from 'node:stream';
import { messageOf } from '../lib/errors';
import { listenAt } from '../telemetry/health-server';
import { makeAddresses, networkOf } from './address';
import { drain } from './body';
import { type ConnectionLimits, Connections, type Peer } from './connections';
import { makeAnswering, type WebhookDeps } from './handler';
import { answerRaw, CONNECT, type Failure, failureOf, LATE_BODY } from './raw-responses';
import { type DropReason, makeReports } from './refusals';
import { type HttpAnswer, REFUSALS } from './responses';

/** A request has come whole within this time, or its connection is ended. */
const REQUEST_WITHIN_MS = 10_000;
const HEADERS_WITHIN_MS = 5_000;
const CHECK_EVERY_MS = 1_000;
/** An answer has left for its reader within this time, or its connection is ended. */
const READ_WITHIN_MS = 10_000;
/**
 * An idle connection with a valid signature is kept longer than load balancers keep theirs, of which Google's 600 s is
 * the longest known time. Otherwise it might be ended just as a load balancer sends a request over it. A connection
 * without a valid signature ends with its first answer.
 */
const KEEP_ALIVE_MS = 620_000;
/** Requests of one network connection that are under way at once, since HTTP lets a client send without waiting. */
const MAX_PIPELINED = 16;
const MAX_HEAD_BYTES = 16_384;
/** For the health checks of load balancers, which ask where they send requests to. */
const READY_PATH = '/readyz';
const REQUEST_ID = /^[\w.:@+/=-]{1,128}$/;

export interface Webhook {
  readonly port: number;
  /** Each answer ends its connection from now on, so that senders use another pod the next time. */
  sendAway(): void;
  /** Takes no more connections, and answers what is under way. @returns whether all was answered in time */
  close(withinMs: number): Promise<boolean>;
}

export interface ServerDeps extends Omit<WebhookDeps, 'ended' | 'reports'> {
  readonly limits: ConnectionLimits;
  /** Addresses, or networks, of proxies whose X-Forwarded-For is believed. */
  readonly trustedProxies: readonly string[];
  /** Instead of REQUEST_WITHIN_MS and READ_WITHIN_MS. */
  readonly requestWithinMs?: number | undefined;
  readonly readWithinMs?: number | undefined;
}

/** Serves the webhook. @param port 0: any that is free */
export async function serveWebhook(port: number, deps: ServerDeps): Promise<Webhook> {
  const { metrics, logger, requestWithinMs = REQUEST_WITHIN_MS, readWithinMs = READ_WITHIN_MS } = deps;
  const ended = new AbortController();
  const reports = makeReports(deps);
  const addresses = makeAddresses(deps.trustedProxies);
  const connections = new Connections({ limits: deps.limits, isProxy: addresses.isProxy, drop });
  const answerTo = makeAnswering({ ...deps, reports, ended: ended.signal });
  const underWay = new Set<IncomingMessage>();
  let isSendingAway = false;
  let whenQuiet = (): void => undefined;

  function drop(peer: Peer, why: DropReason, more?: object): void {
    peer.isEnded = true;
    reports.dropped(why, peer.address, peer.signedIds, more);
    peer.socket.destroy();
  }

  /** Answers a request. A body that is refused is read on within limits, so that its sender gets to the answer. */
  async function send(
    { request, response, peer, requestId, isWaiting }: Exchange,
    { status, body, headers }: HttpAnswer,
  ): Promise<void> {
    response.writeHead(status, {
      'content-type': 'application/json',
      'content-length': Buffer.byteLength(body),
      'cache-control': 'no-store',
      'x-request-id': requestId,
      ...headers,
      ...((isWaiting || !isKept(peer)) && { connection: 'close' }),
    });
    // A sender that waits for 100 Continue sends no body that could be read to its end.
    if (request.complete || isWaiting) {
      response.end(body);
      request.resume();
      return;
    }
    // Node would end the connection with the response, and cut off a sender who is still sending.
    response.write(body);
    const isWhole = await drain(request);
    if (isWhole) response.end();
    else if (!peer.socket.destroyed) drop(peer, 'drain');
  }

  function isKept(peer: Peer): boolean {
    return peer.signedIds.size > 0 && !isSendingAway;
  }

  async function answer(exchange: Exchange): Promise<void> {
    const { request, response, peer, requestId } = exchange;
    const began = performance.now();
    const address = addresses.senderOf(peer.address, request.headers);
    let given: HttpAnswer;
    try {
      given = await answerTo({
        ...{ request, requestId, began, address, network: networkOf(address), sent: exchange.sent },
        hasSigned: (id) => !peer.isProxy && peer.signedIds.has(id),
        onSigned: (id) => connections.sign(peer, id),
        onReading: () => {
          if (exchange.isWaiting) response.writeContinue();
          exchange.isWaiting = false;
        },
      });
    } catch (error) {
      if (!request.complete) {
        if (!peer.isEnded) reports.brokenOff(requestId, address, peer.signedIds);
        return;
      }
      // A defect of ours. The same request can safely be sent again, whatever was decided.
      reports.failed(requestId, address, messageOf(error));
      given = REFUSALS.undecided;
    }
    metrics.webhookRequests.inc({ status: String(given.status) });
    metrics.webhookSeconds.observe((performance.now() - began) / 1000);
    await send(exchange, given);
  }

  function serve(request: IncomingMessage, response: ServerResponse, isWaiting: boolean): void {
    const peer = connections.of(request.socket);
    const requestId = requestIdOf(request);
    if (peer === undefined) {
      request.socket.destroy();
    } else if (request.url === READY_PATH) {
      const headers = { 'x-request-id': requestId, 'content-length': 0 };
      response
        .writeHead(isSendingAway ? 503 : 200, isKept(peer) ? headers : { ...headers, connection: 'close' })
        .end();
      request.resume();
    } else if (peer.responses.size >= MAX_PIPELINED) {
      drop(peer, 'pipelined', { requestId });
    } else {
      underWay.add(request);
      peer.responses.add(response);
      const sent = new Promise<void>((resolve) => {
        response.once('close', () => {
          peer.responses.delete(response);
          peer.idleSince = performance.now();
          peer.bytesAnswered = peer.socket.bytesRead;
          underWay.delete(request);
          if (underWay.size === 0) whenQuiet();
          resolve();
        });
      });
      answer({ request, response, peer, requestId, isWaiting, sent }).catch((error: unknown) => {
        reports.failed(requestId, peer.address, messageOf(error));
        peer.socket.destroy();
      });
    }
  }

  /** Answers what is no request, or does not become one in time, where no answer has begun on its connection. */
  function fail(peer: Peer, { why, refusal }: Failure): void {
    const { socket, responses } = peer;
    const requestId = randomUUID();
    const isAnswering = [...responses].some(({ headersSent }) => headersSent);
    if (!socket.writable || isAnswering) {
      drop(peer, why, { requestId });
      return;
    }
    peer.isEnded = true;
    reports.dropped(why, peer.address, peer.signedIds, { requestId });
    metrics.webhookRequests.inc({ status: String(refusal.status) });
    answerRaw(socket, refusal, requestId);
  }

  function failAt(socket: Duplex, failureFor: (peer: Peer) => Failure | null): void {
    const peer = connections.of(socket);
    if (peer === undefined || peer.isEnded) {
      socket.destroy();
      return;
    }
    const failure = failureFor(peer);
    if (failure !== null) {
      fail(peer, failure);
      return;
    }
    // Where the head has come, the request itself notices that its sender has gone.
    const hasHalfAHead = peer.responses.size === 0 && peer.socket.bytesRead > peer.bytesAnswered;
    if (hasHalfAHead) reports.brokenOff(randomUUID(), peer.address, peer.signedIds);
    socket.destroy();
  }

  function endLate({ socket }: IncomingMessage): void {
    failAt(socket, () => LATE_BODY);
  }

  /** Ends connections whose peer does not read its answers. */
  function dropUnread(): void {
    const now = performance.now();
    for (const peer of connections.all()) {
      if (peer.socket.writableLength === 0) peer.unreadSince = null;
      else if (peer.unreadSince === null) peer.unreadSince = now;
      else if (now - peer.unreadSince > readWithinMs) drop(peer, 'unread');
    }
  }

  const options = {
    requestTimeout: requestWithinMs,
    headersTimeout: Math.min(HEADERS_WITHIN_MS, requestWithinMs),
    connectionsCheckingInterval: CHECK_EVERY_MS,
    keepAliveTimeout: KEEP_ALIVE_MS,
    maxHeaderSize: MAX_HEAD_BYTES,
    // Refused as any other request is, with the same body, in the same metrics.
    requireHostHeader: false,
  };
  const server = createServer(options, (request, response) => serve(request, response, false));
  // The limit is that of the bytes of a head, and beyond a number of headers a request is refused.
  server.maxHeadersCount = 0;
  server.on('connection', (socket) => void connections.admit(socket));
  server.on('checkContinue', (request, response) => serve(request, response, true));
  server.on('checkExpectation', (request, response) => serve(request, response, false));
  server.on('connect', (_request, socket) => failAt(socket, () => CONNECT));
  server.on('clientError', (error, socket) =>
    failAt(socket, ({ responses }) => failureOf(error, responses.size > 0)),
  );
  const served = await listenAt(server, port);
  const checks = setInterval(dropUnread, CHECK_EVERY_MS).unref();
  server.on('error', (error) => logger.error({ error: error.message }, 'a connection could not be taken'));
  const beforeScrape = metrics.beforeScrape;
  metrics.beforeScrape = () => {
    beforeScrape();
    metrics.webhookConnections.set({ signed: 'yes' }, connections.signed);
    metrics.webhookConnections.set({ signed: 'no' }, connections.open - connections.signed);
  };
  return {
    port: served,
    sendAway() {
      isSendingAway = true;
    },
    close(withinMs) {
      isSendingAway = true;
      return new Promise((resolve) => {
        const timers = [
          // A server that is closing looks no more for requests that do not come to an end.
          setTimeout(() => {
            for (const request of underWay) if (!request.complete) endLate(request);
          }, requestWithinMs),
          setTimeout(() => end(false), withinMs),
        ];
        const end = (inTime: boolean) => {
          for (const timer of timers) clearTimeout(timer);
          clearInterval(checks);
          ended.abort();
          server.closeAllConnections();
          resolve(inTime);
        };
        // To Node a connection by which nothing ever came is not idle.
        whenQuiet = () => end(true);
        server.close();
        if (underWay.size === 0) whenQuiet();
      });
    },
  };
}

/** A request that is under way. */
interface Exchange {
  readonly request: IncomingMessage;
  readonly response: ServerResponse;
  readonly peer: Peer;
  readonly requestId: string;
  /** Its sender waits for 100 Continue before it sends the body. */
  isWaiting: boolean;
  /** Resolves once its answer has left, or cannot. */
  readonly sent: Promise<void>;
}

/** The id that the sender gave to the request, where it is fit to be logged, else one of ours. */
function requestIdOf({ headers }: IncomingMessage): string {
  const given = headers['x-request-id'];
  return typeof given === 'string' && REQUEST_ID.test(given) ? given : randomUUID();
}
