/**
 * The webhook: events over HTTP, an event or a batch a request (docs/rules.md, S1, W1-W6). Here are the server, its limits and its end; what becomes of a
 * request is in webhook-intake.ts.
 */
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import { messageOf } from '../errors';
import { listenAt } from '../telemetry';
import { type HttpAnswer, REFUSALS } from './webhook-answer';
import { makeAnswering, type WebhookDeps } from './webhook-intake';

/** A request has come whole within this time, or its connection is ended. */
const REQUEST_WITHIN_MS = 10_000;
const HEADERS_WITHIN_MS = 5_000;
const LATE_REQUESTS_CHECK_MS = 1_000;
/**
 * Longer than load balancers keep a connection to us, of which Google's 600 s is the longest time that we know: who ends it first must not be the one that a
 * request is under way to.
 */
const KEEP_ALIVE_MS = 620_000;
const MAX_CONNECTIONS = 1_000;
/** For the health checks of load balancers, which ask where they send requests to. */
const READY_PATH = '/readyz';

export interface Webhook {
  readonly port: number;
  /** Each answer ends its connection from now on, so that senders come by another way the next time. */
  sendAway(): void;
  /** Takes no more connections, and answers what is under way. @returns whether it came to that in time */
  close(withinMs: number): Promise<boolean>;
}

export interface ServerDeps extends Omit<WebhookDeps, 'ended'> {
  /** Instead of REQUEST_WITHIN_MS. */
  readonly requestWithinMs?: number | undefined;
}

/** Serves the webhook. @param port 0: any that is free */
export async function serveWebhook(port: number, deps: ServerDeps): Promise<Webhook> {
  const { metrics, logger, requestWithinMs = REQUEST_WITHIN_MS } = deps;
  const ended = new AbortController();
  const answerTo = makeAnswering({ ...deps, ended: ended.signal });
  const underWay = new Set<IncomingMessage>();
  let isSendingAway = false;
  let whenQuiet = (): void => undefined;

  function send(
    request: IncomingMessage,
    response: ServerResponse,
    { status, body, headers }: HttpAnswer,
  ): void {
    response.writeHead(status, {
      'content-type': 'application/json',
      'content-length': Buffer.byteLength(body),
      'cache-control': 'no-store',
      ...headers,
      // Node would cut off a sender who is still sending, before he has read the answer.
      ...(isSendingAway && request.complete && { connection: 'close' }),
    });
    response.end(body);
    // What has not been read of a request that is refused is passed over, so that its sender gets to the answer.
    request.resume();
  }

  async function serve(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const began = performance.now();
    let answer: HttpAnswer;
    try {
      answer = await answerTo(request, began);
    } catch (error) {
      if (!request.complete) {
        metrics.webhookRequests.inc({ status: 'broken_off' });
        return;
      }
      // A defect of ours. Sent again is safe, whatever was decided.
      logger.error({ error: messageOf(error) }, 'a request could not be answered');
      answer = REFUSALS.undecided;
    }
    metrics.webhookRequests.inc({ status: String(answer.status) });
    metrics.webhookSeconds.observe((performance.now() - began) / 1000);
    send(request, response, answer);
  }

  const limits = {
    requestTimeout: requestWithinMs,
    headersTimeout: Math.min(HEADERS_WITHIN_MS, requestWithinMs),
    connectionsCheckingInterval: LATE_REQUESTS_CHECK_MS,
    keepAliveTimeout: KEEP_ALIVE_MS,
  };
  const server = createServer(limits, (request, response) => {
    if (request.url === READY_PATH) {
      response.writeHead(isSendingAway ? 503 : 200).end();
      return;
    }
    underWay.add(request);
    response.once('close', () => {
      underWay.delete(request);
      if (underWay.size === 0) whenQuiet();
    });
    void serve(request, response);
  });
  server.maxConnections = MAX_CONNECTIONS;
  const served = await listenAt(server, port);
  server.on('error', (error) => logger.error({ error: error.message }, 'a connection could not be taken'));
  return {
    port: served,
    sendAway() {
      isSendingAway = true;
    },
    close(withinMs) {
      isSendingAway = true;
      return new Promise((resolve) => {
        const timers = [
          // A server that closes looks no more for requests that do not come to an end.
          setTimeout(() => {
            for (const request of underWay) if (!request.complete) request.destroy();
          }, requestWithinMs),
          setTimeout(() => end(false), withinMs),
        ];
        const end = (inTime: boolean) => {
          for (const timer of timers) clearTimeout(timer);
          ended.abort();
          server.closeAllConnections();
          resolve(inTime);
        };
        // To Node a connection by which nothing ever came is none that is idle.
        whenQuiet = () => end(true);
        server.close();
        if (underWay.size === 0) whenQuiet();
      });
    },
  };
}
