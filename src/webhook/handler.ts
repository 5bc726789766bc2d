/**
 * The way of a request through the webhook (docs/rules.md, S1, W1-W8): its head, a place to read its body in, its
 * signature, a place to be decided in, a slot, its answer. Each stage has a limit, and a share of it for each sender.
 */
import type { IncomingHttpHeaders, IncomingMessage } from 'node:http';
import { maxValuesOf, readBody } from '../domain/event/request-body';
import { inTime, LATE } from '../lib/clock';
import { messageOf } from '../lib/errors';
import { makeSlots } from './batcher';
import { MAX_PIECES, readRequestBody } from './body';
import { type Decided, type DecidingDeps, makeDeciding, publishingOf, type ReadRequest } from './deciding';
import { type Place, Places } from './places';
import type { Reports } from './refusals';
import { makeReplays } from './replays';
import { type HttpAnswer, isRefusal, REFUSALS, type Refusal, withDetail } from './responses';
import { expiryOf, isTimely, readSignedHeaders, type SignedHeaders, validSignature } from './signature';
import { describeSignature, describeSkew, describeType, missingHeaders } from './signature-mistakes';

/** A request waits no longer than this for its places and its slot together (W3). */
const SLOT_WITHIN_MS = 500;
/** Bodies that are read at once. A sender is a connection, and until it has signed over the same network connection its address. */
const READING = { places: 32, share: 16, waiting: 500, waitingShare: 250 };
/** Signed requests that are held at once, until they are answered. A sender is a connection. */
const DECIDING = { places: 48, share: 36, waiting: 500, waitingShare: 250 };
/** A request is answered within this time, decided or not. The sender learns of a later decision when it sends it again. */
const ANSWER_WITHIN_MS = 20_000;
/** A large body that is refused keeps its place for so long, unless others wait for it: to refuse it has cost all senders time. */
const REFUSED_FOR_MS = 2_000;
/** A large body has more than this. */
const LARGE_BYTES = 65_536;
/** A head of 16 KiB could hold thousands. */
const MAX_HEADERS = 200;

const PATH = /^\/v1\/events\/([^/?]+)(\?.*)?$/;
const JSON_TYPE = /^application\/json\s*(;|$)/i;

export interface WebhookDeps extends DecidingDeps {
  /** Secrets that requests of a connection may be signed with; none where it has no secret. */
  readonly secretsOf: (connectionId: string) => readonly Buffer[];
  /** Milliseconds since 1970. */
  readonly now: () => number;
  /** Transactions at once. */
  readonly slots: number;
  readonly maxEvents: number;
  readonly maxBytes: number;
  /** Traces each signed request. @param traceparent of its headers @param began by performance.now() */
  readonly observe?: (
    traceparent: unknown,
    began: number,
    answer: () => Promise<HttpAnswer>,
  ) => Promise<HttpAnswer>;
  /** Instead of SLOT_WITHIN_MS and ANSWER_WITHIN_MS. */
  readonly slotWithinMs?: number | undefined;
  readonly answerWithinMs?: number | undefined;
  readonly reports: Reports;
}

/** A request, and what is known of the network connection that it came over. */
export interface Incoming {
  readonly request: IncomingMessage;
  readonly requestId: string;
  /** By performance.now(). */
  readonly began: number;
  /** Of its sender, as it is logged, and as the key of what one address may have. */
  readonly address: string;
  readonly network: string;
  /** Whether requests of the connection id have been signed over the network connection of this sender alone. */
  hasSigned(connectionId: string): boolean;
  /** Told that its signature is valid. */
  onSigned(connectionId: string): void;
  /** Told that its body can be read now. */
  onReading(): void;
  /** Resolves once its answer has left, or cannot. */
  readonly sent: Promise<unknown>;
}

/** What the head of a request says of its sender. */
interface Claimed {
  readonly connectionId: string;
  readonly signed: SignedHeaders;
  readonly secrets: readonly Buffer[];
}

/** @returns the function that answers a request. It throws where the request breaks off, and for a defect of ours. */
export function makeAnswering(deps: WebhookDeps): (incoming: Incoming) => Promise<HttpAnswer> {
  const { secretsOf, now, maxBytes, maxEvents, metrics, reports } = deps;
  const { slotWithinMs = SLOT_WITHIN_MS, answerWithinMs = ANSWER_WITHIN_MS } = deps;
  const { observe = (_traceparent, _began, answer) => answer() } = deps;
  const limits = { maxEvents, maxValues: maxValuesOf(maxEvents) };
  const reading = new Places(READING);
  const deciding = new Places(DECIDING);
  const publishing = publishingOf(deps);
  const replays = makeReplays<HttpAnswer>({
    now,
    // A refusal says nothing of the next try.
    textOf: (answer) => (isRefusal(answer) ? null : answer.body),
  });
  const decide = makeSlots<ReadRequest, Decided>({
    count: deps.slots,
    busy: { answer: REFUSALS.busy, published: null },
    beyondShare: { answer: REFUSALS.beyondShare, published: null },
    decide: makeDeciding(deps, publishing, reports),
  });

  /** The refusal of a request by its head alone; else what the head says of its sender. */
  function readHead(
    { headers, rawHeaders, method, httpVersion }: IncomingMessage,
    connectionId: string | null,
    secrets: readonly Buffer[],
  ): Refusal | Claimed {
    if (rawHeaders.length > 2 * MAX_HEADERS) return REFUSALS.tooManyHeaders(MAX_HEADERS);
    if (headers.host === undefined && httpVersion === '1.1') return REFUSALS.noHost;
    if (headers.expect !== undefined && !/^100-continue$/i.test(headers.expect))
      return REFUSALS.noExpectation;
    if (connectionId === null) return REFUSALS.noSuchPath;
    if (method !== 'POST') return REFUSALS.noSuchMethod;
    if (!isPlainJson(headers)) return withDetail(REFUSALS.noJson, describeType(headers));
    const signed = readSignedHeaders(headers);
    if (signed === null) return withDetail(REFUSALS.unsigned, missingHeaders(headers));
    if (!isTimely(signed, now())) return withDetail(REFUSALS.stale, describeSkew(signed, now()));
    if (secrets.length === 0) return REFUSALS.unauthorized;
    if (Number(headers['content-length'] ?? 0) > maxBytes) return REFUSALS.tooLarge(maxBytes);
    return { connectionId, signed, secrets };
  }

  /** Reads the body and checks its signature. @param place of its reading, which is free again once the request has a place to be decided in */
  async function answerClaimed(
    incoming: Incoming,
    { connectionId, signed, secrets }: Claimed,
    origin: { isSigned: boolean },
  ): Promise<HttpAnswer> {
    const { request, network } = incoming;
    const waitUntil = performance.now() + slotWithinMs;
    const left = () => Math.max(0, waitUntil - performance.now());
    // Anybody may name a connection, but not from the address of its sender.
    const from = incoming.hasSigned(connectionId) ? '' : network;
    const sender = `${connectionId} ${from}`;
    let giveUp = (): void => undefined;
    const place = await reading.take(sender, left(), () => giveUp());
    if (typeof place === 'string') return place === 'share' ? REFUSALS.beyondShare : REFUSALS.crowded;
    let isRefusedLate = false;
    try {
      incoming.onReading();
      const body = readRequestBody(request, maxBytes);
      giveUp = body.giveUp;
      const read = await body.body;
      giveUp = () => undefined;
      if (read.type === 'too_large') return REFUSALS.tooLarge(maxBytes);
      if (read.type === 'too_many_pieces') return REFUSALS.tooManyPieces(MAX_PIECES);
      if (read.type === 'given_up') return REFUSALS.tooSlow;
      const signature = validSignature(secrets, signed, read.bytes);
      if (signature === null) {
        isRefusedLate = read.bytes.length > LARGE_BYTES;
        return withDetail(REFUSALS.wronglySigned, describeSignature(secrets, signed, read.bytes));
      }
      origin.isSigned = true;
      incoming.onSigned(connectionId);
      let letGo = (): void => undefined;
      const held = await deciding.take(connectionId, left(), () => letGo());
      if (typeof held === 'string') return held === 'share' ? REFUSALS.beyondShare : REFUSALS.crowded;
      place.release();
      return await observe(request.headers.traceparent, incoming.began, () => {
        const decideNow = () => answerSigned(incoming, connectionId, read.bytes, left());
        const replay = replays.answer(connectionId, signature, expiryOf(signed), decideNow);
        if (replay.isAgain) metrics.webhookReplays.inc({ connection: connectionId });
        void Promise.allSettled([replay.answer, incoming.sent]).then(([decided]) => {
          const isRefused = decided.status === 'fulfilled' && isRefusal(decided.value);
          if (isRefused && read.bytes.length > LARGE_BYTES) letGo = releaseLater(held);
          else held.release();
        });
        return answerInTime(replay.answer);
      });
    } finally {
      if (isRefusedLate) giveUp = releaseLater(place);
      else place.release();
    }
  }

  /** Answers with the decision, or without it once it takes too long. */
  async function answerInTime(decided: Promise<HttpAnswer>): Promise<HttpAnswer> {
    // Nobody is answered once the server is closed: no need to keep the process for it.
    const answer = await inTime(decided, answerWithinMs, false);
    return answer === LATE ? REFUSALS.late : answer;
  }

  async function answerSigned(
    { requestId, address }: Incoming,
    connectionId: string,
    body: Buffer,
    withinMs: number,
  ): Promise<HttpAnswer> {
    const sent = { requestId, address, connectionId };
    const read = readBody(body, limits);
    if (read.type === 'malformed') return REFUSALS.malformed(read.isJson, read.problem);
    if (read.type === 'too_many') return REFUSALS.tooMany(maxEvents);
    if (read.type === 'too_many_values') return REFUSALS.tooManyValues(limits.maxValues);
    if (publishing?.isHeldUp()) {
      reports.undecided(sent, 'kafka', 'verdicts are not published');
      return REFUSALS.undecided;
    }
    const { events, bytes, values } = read;
    metrics.webhookInProgress.inc();
    try {
      const { answer, published } = await decide(
        connectionId,
        { requestId, address, events, bytes, values },
        withinMs,
      );
      return (await isPublished(published, sent)) ? answer : REFUSALS.undecided;
    } finally {
      metrics.webhookInProgress.dec();
    }
  }

  async function isPublished(
    published: Promise<void> | null,
    sent: Parameters<Reports['undecided']>[0],
  ): Promise<boolean> {
    try {
      await published;
      return true;
    } catch (error) {
      reports.undecided(sent, 'kafka', messageOf(error));
      return false;
    }
  }

  return async (incoming) => {
    const { request, requestId, address } = incoming;
    const named = connectionOf(request.url ?? '');
    const secrets = named === null ? [] : secretsOf(named);
    const origin = {
      ...{ requestId, address, isSigned: false },
      // Anything may stand in a path, so only the ids of connections are logged.
      connectionId: secrets.length > 0 ? named : null,
    };
    const head = readHead(request, named, secrets);
    const answer = 'status' in head ? head : await answerClaimed(incoming, head, origin);
    // What is undecided is reported with its cause.
    if (isRefusal(answer) && answer !== REFUSALS.undecided) reports.refused(origin, answer);
    return answer;
  };
}
/** Releases a place after a while. @returns what releases it at once */
function releaseLater(place: Place): () => void {
  const timer = setTimeout(() => place.release(), REFUSED_FOR_MS).unref();
  return () => {
    clearTimeout(timer);
    place.release();
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

function isPlainJson(headers: IncomingHttpHeaders): boolean {
  const { 'content-type': type = '', 'content-encoding': encoding = 'identity' } = headers;
  return JSON_TYPE.test(type) && encoding === 'identity';
}
