/**
 * The stages of a request in the webhook (docs/rules.md, S1, W1-W8). In order:
 * 1. The head is checked.
 * 2. The request takes a place for reading, and its body is read.
 * 3. The signature is checked.
 * 4. The request takes a place for deciding, then a slot (batcher.ts).
 * 5. The answer is sent once the verdicts are stored and published.
 *
 * Each stage has a limit, and each sender has a share of the limit.
 */
import type { IncomingMessage } from 'node:http';
import { LIMITS } from '../contract/limits';
import { maxValuesOf, readBody } from '../domain/event/request-body';
import { inTime, LATE } from '../lib/clock';
import { messageOf } from '../lib/errors';
import { Batcher } from './batcher';
import { MAX_PIECES, readRequestBody } from './body';
import {
  type DecidedRequest,
  type DecidingDeps,
  makeDeciding,
  makeRehearsing,
  type ReadRequest,
} from './deciding';
import { type Claimed, type RequestMode, readHead, targetIn } from './head';
import { type Departing, type Place, Places, releaseLater, untilLeft } from './places';
import { makeReconciling, type ReconcileDeps } from './reconciling';
import type { Reports } from './refusal-log';
import { makeReplays } from './replays';
import { type HttpAnswer, isRefusal, noPlaceRefusal, REFUSALS, type Refusal, withDetail } from './responses';
import { ROUTES, signedUrlOf } from './routes';
import { expiryOf, validSignature } from './signature';
import { describeSignature } from './signature-mistakes';
import { makePublishing, type PublishingDeps } from './verdict-queues';

/** The longest time that a request waits for its two places and its slot together (W3). */
const SLOT_WITHIN_MS = LIMITS.webhook_slot_wait.value;
/**
 * Bodies that are read at once. A sender is a connection id together with an address. The address no longer
 * counts once the connection id has signed over the same network connection.
 */
const READING = { places: 32, share: 16, waiting: 500, waitingShare: 250 };
/** Signed requests that are held at once, each until it is answered. A sender is a connection id. */
const DECIDING = { places: 48, share: 36, waiting: 500, waitingShare: 250 };
/**
 * Rehearsals have places of their own, so that they take none from requests that decide (W10). Each holds a
 * connection to Postgres.
 */
const REHEARSING = { places: 2, share: 1, waiting: 32, waitingShare: 8 };
/** A rehearsal or a reconciliation holds one of these until its answer has left. */
const READING_REHEARSALS = { places: 8, share: 4, waiting: 32, waitingShare: 8 };
/** Every request is answered within this time, decided or not. A retry returns a decision that came later. */
const ANSWER_WITHIN_MS = 20_000;
/**
 * A refused request with a large body keeps its place for this time, unless others wait for the place.
 * Reading and refusing such a body has cost all senders time, so its sender is slowed down.
 */
const REFUSED_FOR_MS = 2_000;
/** A body with more bytes than this is large. */
const LARGE_BYTES = 65_536;
export interface WebhookDeps extends DecidingDeps, Omit<PublishingDeps, 'publishVerdicts'> {
  /** Null: verdicts are not published. */
  readonly publishVerdicts: PublishingDeps['publishVerdicts'] | null;
  /** The secrets that may sign requests of a connection. Empty if the connection has no secret. */
  readonly secretsOf: (connectionId: string) => readonly Buffer[];
  /** Milliseconds since 1970. */
  readonly now: () => number;
  /** Transactions at once. */
  readonly slots: number;
  readonly maxEvents: number;
  readonly maxBytes: number;
  /** Absent: the path /v1/reconcile does not exist. */
  readonly reconciliation?: ReconcileDeps | undefined;
  /**
   * Traces each signed request.
   * @param route as in OpenAPI @param traceparent the request's header @param began by the clock
   */
  readonly observe?: (
    route: string,
    traceparent: unknown,
    began: number,
    answer: () => Promise<HttpAnswer>,
  ) => Promise<HttpAnswer>;
  /** Override SLOT_WITHIN_MS and ANSWER_WITHIN_MS. */
  readonly slotWithinMs?: number | undefined;
  readonly answerWithinMs?: number | undefined;
  readonly reports: Reports;
}

/** A request, with the facts about its network connection. */
export interface Incoming extends Departing {
  readonly request: IncomingMessage;
  readonly requestId: string;
  /** By the clock. */
  readonly began: number;
  /** The sender's address as it is logged, and its network, which is the key of the limits per address. */
  readonly address: string;
  readonly network: string;
  /**
   * Whether a request of the connection id was signed over this network connection. Always false for a proxy,
   * whose network connection carries requests of many senders.
   */
  hasSigned(connectionId: string): boolean;
  /** Called once the signature has proved valid. */
  onSigned(connectionId: string): void;
  /** Called just before the body is read. */
  onReading(): void;
}

/** A request whose signature is valid. */
interface SignedRequest {
  readonly incoming: Incoming;
  readonly connectionId: string;
  readonly mode: RequestMode;
  readonly bytes: Buffer;
  readonly signature: string;
  /** When the signature is no longer valid, in milliseconds since 1970. */
  readonly expiresAt: number;
  /** The rest of the time for places and slot, in milliseconds. */
  readonly msLeft: () => number;
  /** The place for reading, still held. */
  readonly place: Place;
}

export interface Handler {
  /** Answers a request. Throws if the request breaks off, and on a defect of this service. */
  answer(incoming: Incoming): Promise<HttpAnswer>;
  /** Forgets the answers that replayed requests would get. */
  forgetAnswers(): void;
  /** What requests hold now: everything is 0 once the last one is answered. */
  load(): HandlerLoad;
}

export interface HandlerLoad {
  readonly reading: number;
  readonly deciding: number;
  readonly reconciling: number;
  readonly slots: number;
  /** Requests that wait for a place or for a slot. */
  readonly waiting: number;
  /** Signed requests whose answer is in flight. */
  readonly replays: number;
}

export function makeHandler(deps: WebhookDeps): Handler {
  const { clock, secretsOf, now, maxBytes, maxEvents, metrics, publishVerdicts, reports } = deps;
  const { slotWithinMs = SLOT_WITHIN_MS, answerWithinMs = ANSWER_WITHIN_MS } = deps;
  const { observe = (_route, _traceparent, _began, answer) => answer() } = deps;
  const limits = { maxEvents, maxValues: maxValuesOf(maxEvents) };
  const reading = new Places({ clock, ...READING });
  const deciding = new Places({ clock, ...DECIDING });
  const rehearsing = new Places({ clock, ...REHEARSING });
  const readingRehearsals = new Places({ clock, ...READING_REHEARSALS });
  const rehearseRequest = makeRehearsing(deps, reports);
  const reconciling = deps.reconciliation === undefined ? null : makeReconciling(deps.reconciliation, clock);
  const publishing = publishVerdicts === null ? null : makePublishing({ ...deps, publishVerdicts });
  const replays = makeReplays<HttpAnswer>({
    now,
    // A refusal is not kept: a retry may be answered otherwise.
    textOf: (answer) => (isRefusal(answer) ? null : answer.body),
  });
  const batcher = new Batcher<ReadRequest, DecidedRequest>({
    clock,
    count: deps.slots,
    busy: { answer: REFUSALS.busy, published: null },
    beyondShare: { answer: REFUSALS.beyondShare, published: null },
    decide: makeDeciding(deps, publishing, reports),
  });

  async function answer(incoming: Incoming): Promise<HttpAnswer> {
    const { request, requestId, address } = incoming;
    const target = targetIn(request.url ?? '');
    const named = target?.connectionId ?? null;
    const secrets = named === null ? [] : secretsOf(named);
    const canReconcile = reconciling !== null;
    const head = readHead(request, target, secrets, { now: now(), maxBytes, canReconcile });
    const signed = 'status' in head ? head : await readSigned(incoming, head);
    const isSigned = !('status' in signed);
    const given = isSigned ? await answerSigned(signed) : signed;
    // An undecided request was already reported, with its cause.
    const isReported = given === REFUSALS.undecided || given === REFUSALS.unanswered;
    // A path may hold any text, so only ids of known connections are logged.
    const connectionId = secrets.length > 0 ? named : null;
    if (isRefusal(given) && !isReported)
      reports.refused({ requestId, address, connectionId, isSigned }, given);
    return given;
  }

  /**
   * Takes a place for reading, reads the body, and checks its signature. A signed request keeps the place.
   *
   * @throws where the sender leaves before the end
   */
  async function readSigned(
    incoming: Incoming,
    { connectionId, mode, signed, secrets }: Claimed,
  ): Promise<Refusal | SignedRequest> {
    const waitUntil = clock.now() + slotWithinMs;
    const msLeft = () => Math.max(0, waitUntil - clock.now());
    // Anyone can name a connection id, but not from the address of its true sender. So the address is part of
    // the key.
    const from = incoming.hasSigned(connectionId) ? '' : incoming.network;
    const readers = mode === 'decide' ? reading : readingRehearsals;
    const place = await readers.take(`${connectionId} ${from}`, msLeft());
    if (typeof place === 'string') return noPlaceRefusal(place);
    try {
      const bytes = await readBytes(incoming, place);
      if ('status' in bytes) {
        place.release();
        return bytes;
      }
      const signature = validSignature(secrets, signed, bytes);
      if (signature === null) {
        const refusal = withDetail(REFUSALS.wronglySigned, describeSignature(secrets, signed, bytes));
        releaseRefused(place, bytes);
        return refusal;
      }
      incoming.onSigned(connectionId);
      const expiresAt = expiryOf(signed);
      return { incoming, connectionId, mode, bytes, signature, expiresAt, msLeft, place };
    } catch (error) {
      place.release();
      throw error;
    }
  }

  /** The whole body of a request, or its refusal. An evicted request stops reading. */
  async function readBytes(incoming: Incoming, place: Place): Promise<Refusal | Buffer> {
    incoming.onReading();
    const { body, abort } = readRequestBody(incoming.request, maxBytes);
    place.onEvicted = abort;
    const read = await body;
    place.onEvicted = () => undefined;
    if (read.type === 'too_large') return REFUSALS.tooLarge(maxBytes);
    if (read.type === 'too_many_pieces') return REFUSALS.tooManyPieces(MAX_PIECES);
    return read.type === 'given_up' ? REFUSALS.tooSlow : read.bytes;
  }

  /** Releases the place of a refused request: later, where its body is large. */
  function releaseRefused(place: Place, body: Buffer): void {
    if (body.length > LARGE_BYTES) releaseLater(clock, place, REFUSED_FOR_MS);
    else place.release();
  }

  async function answerSigned(signed: SignedRequest): Promise<HttpAnswer> {
    try {
      return await answerByMode[signed.mode](signed);
    } catch (error) {
      signed.place.release();
      throw error;
    }
  }

  /**
   * Answers a signed request by its mode. Each holds the place for reading until it has its next place, or
   * until its answer has left.
   */
  const answerByMode: Readonly<Record<RequestMode, (signed: SignedRequest) => Promise<HttpAnswer>>> = {
    async reconcile(signed) {
      const { incoming, place } = signed;
      const answer = answerReconciliation(signed);
      void untilLeft(clock, place, incoming, answer).then(() => place.release());
      return answerInTime(answer);
    },
    async rehearse(signed) {
      const { incoming, connectionId, msLeft, place } = signed;
      const held = await rehearsing.take(connectionId, msLeft());
      if (typeof held === 'string') {
        place.release();
        return noPlaceRefusal(held);
      }
      return traced(incoming, () => {
        // The store may answer later than the sender is answered.
        const answer = answerRehearsal(signed).finally(() => held.release());
        void untilLeft(clock, place, incoming, answer).then(() => place.release());
        return answerInTime(answer);
      });
    },
    async decide(signed) {
      const { incoming, connectionId, bytes, msLeft, place, signature, expiresAt } = signed;
      const held = await deciding.take(connectionId, msLeft());
      place.release();
      if (typeof held === 'string') return noPlaceRefusal(held);
      return traced(incoming, () => {
        const replay = replays.answer(connectionId, signature, expiresAt, () => answerDecision(signed));
        if (replay.isAgain) metrics.webhookReplays.inc({ connection: connectionId });
        const isRefused = replay.answer.then(isRefusal, () => false);
        void untilLeft(clock, held, incoming, replay.answer).then(async () => {
          if (await isRefused) releaseRefused(held, bytes);
          else held.release();
        });
        return answerInTime(replay.answer);
      });
    },
  };

  const traced = ({ request, began }: Incoming, answer: () => Promise<HttpAnswer>) =>
    observe(routeOf(request), request.headers.traceparent, began, answer);

  async function answerDecision({
    incoming: { requestId, address },
    connectionId,
    bytes,
    msLeft,
  }: SignedRequest): Promise<HttpAnswer> {
    const sent = { requestId, address, connectionId };
    const read = readEvents(bytes);
    if ('status' in read) return read;
    if (publishing?.isBlocked(connectionId)) {
      reports.undecided(sent, 'kafka', 'verdicts cannot be published now');
      return REFUSALS.undecided;
    }
    metrics.webhookInProgress.inc();
    try {
      const request = { requestId, address, ...read };
      const { answer, published } = await batcher.decide(connectionId, request, msLeft());
      if (published === null) return answer;
      const refuse = (error: unknown) => {
        reports.undecided(sent, 'kafka', messageOf(error));
        return REFUSALS.undecided;
      };
      return await published.then(() => answer, refuse);
    } finally {
      metrics.webhookInProgress.dec();
    }
  }

  /** The events of a body, or the refusal of a body that has none or too many. */
  function readEvents(body: Buffer): Refusal | Pick<ReadRequest, 'events' | 'bytes' | 'values'> {
    const read = readBody(body, limits);
    if (read.type === 'malformed') return REFUSALS.malformed(read.isJson, read.problem);
    if (read.type === 'too_many') return REFUSALS.tooMany(maxEvents);
    if (read.type === 'too_many_values') return REFUSALS.tooManyValues(limits.maxValues);
    const { events, bytes, values } = read;
    return { events, bytes, values };
  }

  /**
   * The answer is never that of an earlier request: the signature does not cover the address, so a real
   * request may have it, too.
   */
  async function answerRehearsal({
    incoming: { requestId, address },
    connectionId,
    bytes,
  }: SignedRequest): Promise<HttpAnswer> {
    const read = readEvents(bytes);
    return 'status' in read ? read : rehearseRequest(connectionId, { requestId, address, ...read });
  }

  /** It needs no replays: it changes nothing, so the same request may be answered twice. */
  async function answerReconciliation({
    incoming: { requestId, address },
    connectionId,
    bytes,
    msLeft,
  }: SignedRequest): Promise<HttpAnswer> {
    try {
      return (await reconciling?.answer(connectionId, bytes, msLeft())) ?? REFUSALS.noSuchPath;
    } catch (error) {
      reports.undecided({ requestId, address, connectionId }, 'store', messageOf(error));
      return REFUSALS.unanswered;
    }
  }

  /** The answer, or the refusal `late` if deciding takes too long. */
  async function answerInTime(decided: Promise<HttpAnswer>): Promise<HttpAnswer> {
    // The timer must not keep the process alive: once the server is closed there is nobody to answer.
    const answer = await inTime(clock, decided, answerWithinMs, false);
    return answer === LATE ? REFUSALS.late : answer;
  }

  const limited = [reading, deciding, readingRehearsals, rehearsing, batcher];
  if (reconciling !== null) limited.push(reconciling.places);
  return {
    answer,
    forgetAnswers: replays.forget,
    load: () => ({
      reading: reading.load.taken + readingRehearsals.load.taken,
      deciding: deciding.load.taken + rehearsing.load.taken,
      reconciling: reconciling?.places.load.taken ?? 0,
      slots: batcher.load.taken,
      waiting: limited.reduce((sum, { load }) => sum + load.waiting, 0),
      replays: replays.inFlight(),
    }),
  };
}

/** The route of a request whose path is known. */
function routeOf({ url = '' }: IncomingMessage): string {
  return ROUTES[signedUrlOf(url)?.route ?? 'events'].path;
}
