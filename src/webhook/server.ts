/**
 * The webhook takes events over HTTP (docs/rules.md, S1, W1-W8). A request holds one event or a batch of
 * events. This file has the server, its network connections and its shutdown. handler.ts has the stages of a
 * request.
 */
import { randomUUID } from 'node:crypto';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { Duplex } from 'node:stream';
import { makeAddresses, networkOf } from '../lib/address';
import { messageOf } from '../lib/errors';
import { requestIdOf } from '../lib/request-id';
import { useOriginForm } from '../lib/request-target';
import { listenAt } from '../telemetry/health-server';
import { drainBody } from './body';
import { type FixedAnswer, makeJsonAnswers, makePageAnswers } from './fixed-answers';
import { makeHandler, type WebhookDeps } from './handler';
import { openApiDocument } from './openapi';
import { type Peer, type PeerLimits, Peers } from './peers';
import { answerRaw, CONNECT, type Failure, failureOf, LATE_BODY } from './raw-responses';
import { type DropReason, makeReports, type ReportsDeps } from './refusal-log';
import { type HttpAnswer, REFUSALS, readOnlyRefusal } from './responses';
import { isMethodOf, publicRouteOf } from './routes';

/** The connection is ended if a request has not arrived whole within this time. */
const REQUEST_WITHIN_MS = 10_000;
const HEADERS_WITHIN_MS = 5_000;
const CHECK_EVERY_MS = 1_000;
/** The connection is ended if its peer does not read an answer within this time. */
const READ_WITHIN_MS = 10_000;
/**
 * An idle connection with a valid signature is kept longer than load balancers keep theirs. Google's 600 s is
 * the longest time known. A shorter time could end a connection just as a load balancer sends a request over
 * it. A connection without a valid signature ends with its first answer.
 */
const KEEP_ALIVE_MS = 620_000;
/**
 * Requests in flight at once on one network connection: HTTP lets a client send without waiting for answers.
 */
const MAX_PIPELINED = 16;
const MAX_HEAD_BYTES = 16_384;

export interface Webhook {
  readonly port: number;
  /** Forgets the answers that replayed requests would get. */
  forgetAnswers(): void;
  /** From now on each answer ends its connection, so that senders use another pod for the next request. */
  startDraining(): void;
  /**
   * Accepts no more connections, and answers the requests in flight.
   *
   * @returns whether all were answered in time
   */
  close(withinMs: number): Promise<boolean>;
}

export interface ServerDeps extends Omit<WebhookDeps, 'ended' | 'reports'>, Pick<ReportsDeps, 'onRefused'> {
  readonly limits: PeerLimits;
  /** The address to listen on. Absent: all addresses of this machine. */
  readonly listenOn?: string;
  /**
   * Answers requests to paths that are not of the webhook.
   *
   * @returns false for a request of the webhook
   */
  readonly answerAside?: (request: IncomingMessage, response: ServerResponse) => boolean;
  /** Addresses or networks of the proxies whose X-Forwarded-For is trusted. */
  readonly trustedProxies: readonly string[];
  /** The HTML of the page that checks events. Absent: its path does not exist. */
  readonly checkPage?: string | undefined;
  /** Override REQUEST_WITHIN_MS and READ_WITHIN_MS. */
  readonly requestWithinMs?: number | undefined;
  readonly readWithinMs?: number | undefined;
}

/** Starts the webhook's server. @param port 0 for any free port */
export async function serveWebhook(port: number, deps: ServerDeps): Promise<Webhook> {
  const { clock, metrics, logger, requestWithinMs = REQUEST_WITHIN_MS, readWithinMs = READ_WITHIN_MS } = deps;
  const ended = new AbortController();
  const reports = makeReports(deps);
  const addresses = makeAddresses(deps.trustedProxies);
  const peers = new Peers({ clock, limits: deps.limits, isProxy: addresses.isProxy, drop });
  const answerOpenApi = makeJsonAnswers(openApiDocument(deps));
  const answerPage =
    deps.checkPage === undefined ? () => REFUSALS.noSuchPath : makePageAnswers(deps.checkPage);
  const handler = makeHandler({ ...deps, reports, ended: ended.signal });
  const inFlight = new Set<IncomingMessage>();
  let isDraining = false;
  let onIdle = (): void => undefined;

  function drop(peer: Peer, why: DropReason, more?: object): void {
    peer.isEnded = true;
    reports.dropped(why, peer.address, peer.signedIds, more);
    peer.socket.destroy();
  }

  /**
   * Sends an answer. The rest of a refused body is read within limits, so that its sender reads the answer.
   */
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
    // A sender that waits for 100 Continue sends no body, so there is no rest to read.
    if (request.complete || isWaiting) {
      response.end(body);
      request.resume();
      return;
    }
    // If the response ended now, Node would close the connection and cut off a sender that still sends.
    response.write(body);
    const isWhole = await drainBody(clock, request);
    if (isWhole) response.end();
    else if (!peer.socket.destroyed) drop(peer, 'drain');
  }

  function isKept(peer: Peer): boolean {
    return peer.signedIds.size > 0 && !isDraining;
  }

  async function answer(exchange: Exchange): Promise<void> {
    const { request, response, peer, requestId } = exchange;
    const began = clock.now();
    const address = addresses.senderOf(peer.address, request.headers);
    let given: HttpAnswer;
    try {
      given = await handler.answer({
        request,
        requestId,
        began,
        address,
        network: networkOf(address),
        sent: exchange.sent,
        hasSigned: (id) => !peer.isProxy && peer.signedIds.has(id),
        onSigned: (id) => peers.sign(peer, id),
        dropUnread: () => {
          if (!peer.isEnded) drop(peer, 'unread', { requestId });
        },
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
      // This is a defect in this service. A retry of the request is safe: events already decided become
      // duplicates.
      reports.failed(requestId, address, messageOf(error));
      given = REFUSALS.undecided;
    }
    if (given.isRehearsal !== true) {
      metrics.webhookRequests.inc({ status: String(given.status) });
      metrics.webhookSeconds.observe((clock.now() - began) / 1000);
    }
    await send(exchange, given);
  }

  function answerPublic(request: IncomingMessage): HttpAnswer | FixedAnswer {
    const route = publicRouteOf(request.url) ?? 'ready';
    if (!isMethodOf(route, request.method)) return readOnlyRefusal(route);
    if (route === 'openapi') return answerOpenApi(request);
    return route === 'page' ? answerPage(request) : { status: isDraining ? 503 : 200, body: '' };
  }

  /** Answers a request that needs no signature, at once and without its body. */
  function servePublic(
    request: IncomingMessage,
    response: ServerResponse,
    { peer, requestId }: Pick<Exchange, 'peer' | 'requestId'>,
  ): void {
    const { status, body, headers } = answerPublic(request);
    response.writeHead(status, {
      'x-request-id': requestId,
      ...(status !== 304 && { 'content-length': Buffer.byteLength(body) }),
      ...(typeof body === 'string' && body !== '' && { 'content-type': 'application/json' }),
      ...headers,
      ...(!isKept(peer) && { connection: 'close' }),
    });
    response.end(body);
    request.resume();
  }

  function serve(request: IncomingMessage, response: ServerResponse, isWaiting: boolean): void {
    useOriginForm(request);
    const peer = peers.of(request.socket);
    const requestId = requestIdOf(request);
    // Node may have read further requests before their connection was ended.
    if (peer === undefined || peer.isEnded) {
      request.socket.destroy();
    } else if (deps.answerAside?.(request, response)) {
      request.resume();
    } else if (publicRouteOf(request.url) !== null) {
      servePublic(request, response, { peer, requestId });
    } else if (peer.responses.size >= MAX_PIPELINED) {
      drop(peer, 'pipelined', { requestId });
    } else {
      inFlight.add(request);
      peer.responses.add(response);
      const sent = new Promise<void>((resolve) => {
        response.once('close', () => {
          peer.responses.delete(response);
          peer.idleSince = clock.now();
          peer.bytesAnswered = peer.socket.bytesRead;
          inFlight.delete(request);
          if (inFlight.size === 0) onIdle();
          resolve();
        });
      });
      answer({ request, response, peer, requestId, isWaiting, sent }).catch((error: unknown) => {
        reports.failed(requestId, peer.address, messageOf(error));
        peer.socket.destroy();
      });
    }
  }

  /**
   * Answers bytes that are not HTTP, or not a whole request in time. Drops the peer if an answer has already
   * begun.
   */
  function fail(peer: Peer, { why, refusal }: Failure): void {
    const { socket, responses } = peer;
    const requestId = randomUUID();
    const isAnswering = [...responses].some(({ headersSent }) => headersSent);
    if (!socket.writable || isAnswering) {
      // A body is late where the webhook has stopped reading, since the sender does not read an answer.
      const isUnread = why === 'late_body' && peer.socket.writableLength > 0;
      drop(peer, isUnread ? 'unread' : why, { requestId });
      return;
    }
    peer.isEnded = true;
    reports.dropped(why, peer.address, peer.signedIds, { requestId });
    metrics.webhookRequests.inc({ status: String(refusal.status) });
    answerRaw(socket, refusal, requestId);
  }

  function failSocket(socket: Duplex, failureFor: (peer: Peer) => Failure | null): void {
    const peer = peers.of(socket);
    if (peer === undefined || peer.isEnded) {
      socket.destroy();
      return;
    }
    const failure = failureFor(peer);
    if (failure !== null) {
      fail(peer, failure);
      return;
    }
    // If the head has arrived, the request itself notices that its sender has gone.
    const hasHalfAHead = peer.responses.size === 0 && peer.socket.bytesRead > peer.bytesAnswered;
    if (hasHalfAHead) reports.brokenOff(randomUUID(), peer.address, peer.signedIds);
    socket.destroy();
  }

  function failLate({ socket }: IncomingMessage): void {
    failSocket(socket, () => LATE_BODY);
  }

  /** Drops peers that do not read their answers. Repeats until the server is closed. */
  function dropUnreadPeers(): void {
    const now = clock.now();
    for (const peer of peers.all()) {
      if (peer.socket.writableLength === 0) peer.unreadSince = null;
      else if (peer.unreadSince === null) peer.unreadSince = now;
      else if (now - peer.unreadSince > readWithinMs) drop(peer, 'unread');
    }
    checks = clock.after(CHECK_EVERY_MS, dropUnreadPeers, false);
  }

  const options = {
    requestTimeout: requestWithinMs,
    headersTimeout: Math.min(HEADERS_WITHIN_MS, requestWithinMs),
    connectionsCheckingInterval: CHECK_EVERY_MS,
    keepAliveTimeout: KEEP_ALIVE_MS,
    maxHeaderSize: MAX_HEAD_BYTES,
    // handler.ts refuses a request without Host, so that the refusal has the usual body and metrics.
    requireHostHeader: false,
  };
  const server = createServer(options, (request, response) => serve(request, response, false));
  // Node's own limit is off: MAX_HEAD_BYTES limits the head, and handler.ts refuses too many headers.
  server.maxHeadersCount = 0;
  server.on('connection', (socket) => void peers.admit(socket));
  server.on('checkContinue', (request, response) => serve(request, response, true));
  server.on('checkExpectation', (request, response) => serve(request, response, false));
  server.on('connect', (_request, socket) => failSocket(socket, () => CONNECT));
  server.on('clientError', (error, socket) =>
    failSocket(socket, ({ responses }) => failureOf(error, responses.size > 0)),
  );
  const served = await listenAt(server, port, deps.listenOn);
  let checks = clock.after(CHECK_EVERY_MS, dropUnreadPeers, false);
  server.on('error', (error) => logger.error({ error: error.message }, 'cannot accept a connection'));
  const beforeScrape = metrics.beforeScrape;
  metrics.beforeScrape = () => {
    beforeScrape();
    metrics.webhookConnections.set({ signed: 'yes' }, peers.signed);
    metrics.webhookConnections.set({ signed: 'no' }, peers.open - peers.signed);
  };
  return {
    port: served,
    forgetAnswers: handler.forgetAnswers,
    startDraining() {
      isDraining = true;
    },
    close(withinMs) {
      isDraining = true;
      return new Promise((resolve) => {
        const timers = [
          // A closing server no longer applies requestTimeout, so late bodies are ended here.
          clock.after(requestWithinMs, () => {
            for (const request of inFlight) if (!request.complete) failLate(request);
          }),
          clock.after(withinMs, () => end(false)),
        ];
        const end = (inTime: boolean) => {
          for (const timer of [...timers, checks]) clock.cancel(timer);
          ended.abort();
          server.closeAllConnections();
          resolve(inTime);
        };
        // Node does not count a connection as idle before its first byte, so its own close() could wait
        // forever.
        onIdle = () => end(true);
        server.close();
        if (inFlight.size === 0) onIdle();
      });
    },
  };
}

/** A request in flight. */
interface Exchange {
  readonly request: IncomingMessage;
  readonly response: ServerResponse;
  readonly peer: Peer;
  readonly requestId: string;
  /** The sender waits for 100 Continue before it sends the body. */
  isWaiting: boolean;
  /** Resolves once the answer has left, or can no longer leave. */
  readonly sent: Promise<void>;
}
