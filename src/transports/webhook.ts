/**
 * The webhook: events over HTTP, an event or a batch a request (docs/rules.md, S1, W1-W6). What it takes in is decided as everything is (D1); a
 * request is answered once all of its events are decided, and otherwise with what to do about it.
 */
import { createServer, type IncomingMessage, type Server } from 'node:http';
import type { Logger } from 'pino';
import { readBody } from '../domain/batch';
import type { JsonText } from '../domain/payload';
import { messageOf } from '../errors';
import { type Envelope, type Intake, isOfNoConnection, undecidedCause, type WebhookRequest } from '../intake';
import { listenAt, type Metrics, tellSeldom, type UndecidedCause } from '../telemetry';
import { readUpTo } from './limited';
import { observeBatch } from './observe';
import { type PublishVerdicts, withoutRecord } from './record-source';
import { Semaphore } from './semaphore';
import { type HttpAnswer, REFUSALS, verdictsAnswer } from './webhook-answer';
import { isSignedBy, isTimely, readSignedHeaders } from './webhook-signature';
import { makeSlots } from './webhook-slots';

/** A request waits so long for a slot before it is told to come again (W3). */
const SLOT_WITHIN_MS = 500;
/** Bodies that are being read at once. With the most bytes of one it is the memory that senders can take. */
const BODIES_AT_ONCE = 64;
/** A request has come whole within this time, or its connection is ended. */
const REQUEST_WITHIN_MS = 10_000;
const HEADERS_WITHIN_MS = 5_000;
const LATE_REQUESTS_CHECK_MS = 1_000;
/** A sender is answered within this time: decided or not. What is decided later he learns when he sends it again. */
const ANSWER_WITHIN_MS = 20_000;
/** Longer than load balancers keep a connection to us: who ends it first must not be the one that a request is under way to. */
const KEEP_ALIVE_MS = 75_000;
const MAX_CONNECTIONS = 1_000;
/** Refused requests are told of once in this time, with how many there were. */
const REFUSED_TOLD_EVERY_MS = 60_000;

const PATH = /^\/v1\/events\/([^/?]+)(\?.*)?$/;
const JSON_TYPE = /^application\/json\s*(;|$)/i;

export interface WebhookDeps {
  readonly intake: Pick<Intake, 'decideRequest'>;
  /** What requests of a connection may be signed with; nothing where it has no secret. */
  readonly secretsOf: (connectionId: string) => readonly Buffer[];
  readonly publishVerdicts: PublishVerdicts<WebhookRequest> | null;
  readonly logger: Logger;
  readonly metrics: Metrics;
  /** Milliseconds since 1970. */
  readonly now: () => number;
  /** Transactions at once. */
  readonly slots: number;
  readonly maxEvents: number;
  readonly maxBytes: number;
  /** Runs each request, for who traces it. @param traceparent of its headers */
  readonly observe?: (traceparent: unknown, answer: () => Promise<HttpAnswer>) => Promise<HttpAnswer>;
  /** Instead of ANSWER_WITHIN_MS. */
  readonly answerWithinMs?: number | undefined;
}

export interface Webhook {
  readonly port: number;
  /** Each answer ends its connection from now on, so that senders come by another way the next time. */
  sendAway(): void;
  /** Takes no more connections, and answers what is under way. @returns whether it came to that in time */
  close(withinMs: number): Promise<boolean>;
}

/** Serves the webhook. @param port 0: any that is free */
export async function serveWebhook(port: number, deps: WebhookDeps): Promise<Webhook> {
  const { metrics } = deps;
  const answerTo = makeAnswering(deps);
  let isSendingAway = false;
  const limits = {
    requestTimeout: REQUEST_WITHIN_MS,
    headersTimeout: HEADERS_WITHIN_MS,
    connectionsCheckingInterval: LATE_REQUESTS_CHECK_MS,
    keepAliveTimeout: KEEP_ALIVE_MS,
  };
  const server = createServer(limits, (request, response) => {
    const began = performance.now();
    const send = ({ status, body, headers = {} }: HttpAnswer) => {
      metrics.webhookRequests.inc({ status: String(status) });
      metrics.webhookSeconds.observe((performance.now() - began) / 1000);
      response.writeHead(status, {
        'content-type': 'application/json',
        'content-length': Buffer.byteLength(body),
        'cache-control': 'no-store',
        ...headers,
        ...(isSendingAway && { connection: 'close' }),
      });
      response.end(body);
      // What has not been read of a request that is refused is passed over, so that its sender gets to the answer.
      request.resume();
    };
    answerTo(request).then(send, (error: unknown) => {
      if (request.errored === null) {
        deps.logger.error({ error: messageOf(error) }, 'a request was not answered');
        send(REFUSALS.internal);
      } else metrics.webhookRequests.inc({ status: 'broken_off' });
    });
  });
  server.maxConnections = MAX_CONNECTIONS;
  const served = await listenAt(server, port);
  return {
    port: served,
    sendAway() {
      isSendingAway = true;
    },
    close(withinMs) {
      isSendingAway = true;
      return closeWithin(server, withinMs);
    },
  };
}

function makeAnswering(deps: WebhookDeps): (request: IncomingMessage) => Promise<HttpAnswer> {
  const { secretsOf, now, maxBytes, maxEvents, answerWithinMs = ANSWER_WITHIN_MS } = deps;
  const bodies = new Semaphore(BODIES_AT_ONCE);
  // Whoever sends what is refused sends it often. No line says whose it was: before its signature is verified a request may name anybody.
  const tellRefused = tellSeldom<HttpAnswer>(REFUSED_TOLD_EVERY_MS, ({ status, body }, untold) =>
    deps.logger.warn({ status, answer: body, untold }, 'a request is refused'),
  );
  const decide = makeSlots({
    count: deps.slots,
    withinMs: SLOT_WITHIN_MS,
    busy: REFUSALS.busy,
    decide: makeDeciding(deps),
  });

  /** What is wrong with a request by its head alone; else whose it is. */
  function readHead(request: IncomingMessage) {
    const { headers, method, url = '' } = request;
    const connectionId = connectionOf(url);
    if (connectionId === null) return REFUSALS.noSuchPath;
    if (method !== 'POST') return REFUSALS.noSuchMethod;
    if (!isPlainJson(request)) return REFUSALS.noJson;
    const signed = readSignedHeaders(headers);
    if (signed === null) return REFUSALS.unsigned;
    if (!isTimely(signed, now())) return REFUSALS.stale;
    const secrets = secretsOf(connectionId);
    if (secrets.length === 0) return REFUSALS.unauthorized;
    if (Number(headers['content-length'] ?? 0) > maxBytes) return REFUSALS.tooLarge(maxBytes);
    return { connectionId, signed, secrets };
  }

  async function answerTo(request: IncomingMessage): Promise<HttpAnswer> {
    const head = readHead(request);
    if ('status' in head) return head;
    const { connectionId, signed, secrets } = head;
    if (!(await bodies.acquireWithin(SLOT_WITHIN_MS))) return REFUSALS.busy;
    const body = await readUpTo(request.iterator({ destroyOnReturn: false }), maxBytes).finally(() =>
      bodies.release(),
    );
    if (body === null) return REFUSALS.tooLarge(maxBytes);
    if (!isSignedBy(secrets, signed, body)) return REFUSALS.wronglySigned;
    const read = readBody(body);
    if (read.type === 'malformed') return REFUSALS.malformed(read.isJson, read.problem);
    if (read.events.length > maxEvents) return REFUSALS.tooMany(maxEvents);
    if (read.events.length === 0) return verdictsAnswer(connectionId, []);
    const { webhookInProgress } = deps.metrics;
    webhookInProgress.inc();
    const decided = decide(connectionId, read).finally(() => webhookInProgress.dec());
    return inTime(decided, answerWithinMs);
  }

  const { observe = (_, answer) => answer() } = deps;
  return async (request) => {
    const answer = await observe(request.headers.traceparent, () => answerTo(request));
    if (answer.status >= 400 && answer !== REFUSALS.undecided) tellRefused(answer);
    return answer;
  };
}

/** A request whose sender is known, with its events. */
interface ReadRequest {
  readonly events: readonly JsonText[];
}

function makeDeciding({ intake, publishVerdicts, logger, metrics }: WebhookDeps) {
  function undecidedAnswer(connectionId: string, error: unknown, cause: UndecidedCause): HttpAnswer {
    if (isOfNoConnection(error)) return REFUSALS.noConnection;
    metrics.retries.inc({ class: 'undecided' });
    logger.warn({ connectionId, cause, error: messageOf(error) }, 'request is undecided');
    return REFUSALS.undecided;
  }

  /** Decides requests of one connection together, and answers each by itself. */
  return async (connectionId: string, requests: readonly ReadRequest[]): Promise<readonly HttpAnswer[]> => {
    const origin = { connectionId };
    const began = performance.now();
    const envelopes = requests.flatMap(({ events }) => events.map(envelopeOf));
    const { answers, undecided } = await intake.decideRequest(origin, envelopes);
    if (answers.length > 0) {
      observeBatch({ metrics, logger }, origin, answers, performance.now() - began);
      try {
        await publishVerdicts?.(origin, answers.map(withoutRecord));
      } catch (error) {
        // The verdicts are stored: sent again, the events are duplicates, and that is published.
        const answer = undecidedAnswer(connectionId, error, 'kafka');
        return requests.map(() => answer);
      }
    }
    const otherwise = undecided && undecidedAnswer(connectionId, undecided, undecidedCause(undecided));
    let end = 0;
    return requests.map(({ events }) => {
      const begin = end;
      end += events.length;
      // Of a request that is decided in part, the sender learns the rest with what he sends again.
      if (otherwise !== null && end > answers.length) return otherwise;
      return verdictsAnswer(connectionId, answers.slice(begin, end));
    });
  };
}

function envelopeOf(payload: JsonText, place: number): Envelope {
  const { bytes, from, to } = payload;
  return {
    value: bytes?.subarray(from, to) ?? null,
    payload,
    claims: [],
    offset: place,
    key: null,
    headers: [],
    timestamp: '',
  };
}

/** The connection that the path names; null where it names none. */
function connectionOf(url: string): string | null {
  const written = PATH.exec(url)?.[1];
  if (written === undefined) return null;
  try {
    return decodeURIComponent(written);
  } catch {
    return null; // a % that begins no character
  }
}

function isPlainJson({ headers }: IncomingMessage): boolean {
  const { 'content-type': type = '', 'content-encoding': encoding = 'identity' } = headers;
  return JSON_TYPE.test(type) && encoding === 'identity';
}

/** The answer, or that there is none yet. What is under way goes on, and keeps its slot. */
function inTime<T>(answer: Promise<T>, ms: number): Promise<T | HttpAnswer> {
  return new Promise((resolve, reject) => {
    const timer = setTimeout(() => resolve(REFUSALS.undecided), ms);
    answer.then(resolve, reject).finally(() => clearTimeout(timer));
  });
}

function closeWithin(server: Server, ms: number): Promise<boolean> {
  return new Promise((resolve) => {
    const timer = setTimeout(() => {
      server.closeAllConnections();
      resolve(false);
    }, ms);
    server.close(() => {
      clearTimeout(timer);
      resolve(true);
    });
  });
}
