/**
 * What becomes of a request to the webhook: whose it is, what it holds, its turn, and its answer (docs/rules.md, S1, W1-W6). What it holds is decided as
 * everything is (D1).
 */
import type { IncomingMessage } from 'node:http';
import type { Logger } from 'pino';
import { type Clock, inTime, LATE } from '../clock';
import { readBody } from '../domain/batch';
import type { JsonText } from '../domain/payload';
import { messageOf } from '../errors';
import {
  type Envelope,
  type Intake,
  isOfNoConnection,
  isOfSuspendedOperator,
  undecidedCause,
  type WebhookRequest,
} from '../intake';
import { type Metrics, tellSeldom, type UndecidedCause } from '../telemetry';
import { readUpTo } from './limited';
import { observeBatch } from './observe';
import { type PublishVerdicts, withoutRecord } from './record-source';
import { Semaphore } from './semaphore';
import { type HttpAnswer, REFUSALS, type Refusal, verdictsAnswer, withDetail } from './webhook-answer';
import { describeSignature, describeSkew, describeType, missingHeaders } from './webhook-mistakes';
import { makePublishing, type Publishing } from './webhook-publishing';
import { isSignedBy, isTimely, readSignedHeaders, type SignedHeaders } from './webhook-signature';
import { makeSlots, type Together } from './webhook-slots';

/** A request waits so long for a slot before it is told to come again (W3); and before that for a place. */
const SLOT_WITHIN_MS = 500;
/** Requests that are held at once, from the begin of their body until they are decided. With the most bytes of a body it is the memory that they take. */
const PLACES = 64;
/** Requests that wait for a place at most. */
const MAX_WAITING = 1_000;
/** A sender is answered within this time: decided or not. What is decided later he learns when he sends it again. */
const ANSWER_WITHIN_MS = 20_000;
/** What is refused is told of once in this time, of each kind, with how many there were; and what is undecided, of each cause. */
const TOLD_EVERY_MS = 60_000;

const PATH = /^\/v1\/events\/([^/?]+)(\?.*)?$/;
const JSON_TYPE = /^application\/json\s*(;|$)/i;

export interface WebhookDeps {
  readonly intake: Pick<Intake, 'decideRequest'>;
  /** What requests of a connection may be signed with; nothing where it has no secret. */
  readonly secretsOf: (connectionId: string) => readonly Buffer[];
  readonly publishVerdicts: PublishVerdicts<WebhookRequest> | null;
  readonly clock: Clock;
  readonly logger: Logger;
  readonly metrics: Metrics;
  /** Milliseconds since 1970. */
  readonly now: () => number;
  /** Transactions at once. */
  readonly slots: number;
  readonly maxEvents: number;
  readonly maxBytes: number;
  /** Runs each request whose sender is known, for who traces it. @param traceparent of its headers @param began by performance.now() */
  readonly observe?: (
    traceparent: unknown,
    began: number,
    answer: () => Promise<HttpAnswer>,
  ) => Promise<HttpAnswer>;
  /** Instead of SLOT_WITHIN_MS and ANSWER_WITHIN_MS. */
  readonly slotWithinMs?: number | undefined;
  readonly answerWithinMs?: number | undefined;
  /** Nothing is waited for any more. */
  readonly ended: AbortSignal;
}

/** What the head of a request says of its sender. */
interface Claimed {
  readonly connectionId: string;
  readonly signed: SignedHeaders;
  readonly secrets: readonly Buffer[];
}

/** It has one of the places. */
interface Placed extends Claimed {
  /** Milliseconds that are left to it to wait for a slot. */
  readonly slotWithinMs: number;
}

/** @returns what answers a request; it throws where the request breaks off, and for a defect of ours */
export function makeAnswering(
  deps: WebhookDeps,
): (request: IncomingMessage, began: number) => Promise<HttpAnswer> {
  const { secretsOf, now, maxBytes, maxEvents, metrics } = deps;
  const { slotWithinMs = SLOT_WITHIN_MS, answerWithinMs = ANSWER_WITHIN_MS } = deps;
  const { observe = (_traceparent, _began, answer) => answer() } = deps;
  const places = new Semaphore(PLACES);
  let waiting = 0;
  const told = makeTelling(deps);
  const publishing = publishingOf(deps);
  const decide = makeSlots<ReadRequest, Decided>({
    count: deps.slots,
    busy: { answer: REFUSALS.busy, published: null },
    decide: makeDeciding(deps, publishing, told),
  });

  /** What is wrong with a request by its head alone; else whose it says it is. */
  function readHead(request: IncomingMessage): Refusal | Claimed {
    const { headers, method, url = '' } = request;
    const connectionId = connectionOf(url);
    if (connectionId === null) return REFUSALS.noSuchPath;
    if (method !== 'POST') return REFUSALS.noSuchMethod;
    if (!isPlainJson(request)) return withDetail(REFUSALS.noJson, describeType(headers));
    const signed = readSignedHeaders(headers);
    if (signed === null) return withDetail(REFUSALS.unsigned, missingHeaders(headers));
    if (!isTimely(signed, now())) return withDetail(REFUSALS.stale, describeSkew(signed, now()));
    const secrets = secretsOf(connectionId);
    if (secrets.length === 0) return REFUSALS.unauthorized;
    if (Number(headers['content-length'] ?? 0) > maxBytes) return REFUSALS.tooLarge(maxBytes);
    return { connectionId, signed, secrets };
  }

  async function takesPlace(): Promise<boolean> {
    if (waiting === MAX_WAITING) return false;
    waiting++;
    try {
      return await places.acquireWithin(slotWithinMs);
    } finally {
      waiting--;
    }
  }

  /** @param holdsUntil told what the request keeps its place for, where that is longer than until it is answered */
  async function answerInPlace(
    request: IncomingMessage,
    { connectionId, signed, secrets, slotWithinMs }: Placed,
    began: number,
    holdsUntil: (decided: Promise<unknown>) => void,
  ): Promise<HttpAnswer> {
    const body = await readUpTo(request.iterator({ destroyOnReturn: false }), maxBytes);
    if (body === null) return told.refused(REFUSALS.tooLarge(maxBytes));
    if (!isSignedBy(secrets, signed, body))
      return told.refused(withDetail(REFUSALS.wronglySigned, describeSignature(secrets, signed, body)));
    return observe(request.headers.traceparent, began, async () => {
      const read = readBody(body, maxEvents);
      if (read.type === 'malformed')
        return told.refused(REFUSALS.malformed(read.isJson, read.problem), connectionId);
      if (read.type === 'too_many') return told.refused(REFUSALS.tooMany(maxEvents), connectionId);
      if (publishing?.isHeldUp()) return told.undecided(connectionId, 'kafka', 'verdicts are not published');
      if (read.events.length === 0) return verdictsAnswer(connectionId, []);
      metrics.webhookInProgress.inc();
      const decided = decideAndPublish(connectionId, read, slotWithinMs).finally(() =>
        metrics.webhookInProgress.dec(),
      );
      holdsUntil(decided);
      // Whoever is still waited for when the server is closed has no connection any more.
      const answer = await inTime(decided, answerWithinMs, false);
      return answer === LATE ? told.refused(REFUSALS.undecided, connectionId) : answer;
    });
  }

  async function decideAndPublish(
    connectionId: string,
    read: ReadRequest,
    withinMs: number,
  ): Promise<HttpAnswer> {
    const { answer, published } = await decide(connectionId, read, withinMs);
    if (answer === REFUSALS.busy) return told.refused(REFUSALS.busy, connectionId);
    try {
      await published;
      return answer;
    } catch (error) {
      return told.undecided(connectionId, 'kafka', messageOf(error));
    }
  }

  return async (request, began) => {
    const head = readHead(request);
    if ('status' in head) return told.refused(head);
    const askedAt = performance.now();
    if (!(await takesPlace())) return told.refused(REFUSALS.crowded);
    const placed = { ...head, slotWithinMs: Math.max(0, slotWithinMs - (performance.now() - askedAt)) };
    let until: Promise<unknown> | undefined;
    const leave = () => places.release();
    try {
      return await answerInPlace(request, placed, began, (decided) => {
        until = decided;
      });
    } finally {
      if (until === undefined) leave();
      else until.then(leave, leave);
    }
  };
}

/** A request whose sender is known, with its events. */
interface ReadRequest {
  readonly events: readonly JsonText[];
  readonly bytes: number;
}

/** What a request is answered once its verdicts are published, if they are to be. */
interface Decided {
  readonly answer: HttpAnswer;
  readonly published: Promise<void> | null;
}

/** @returns what decides requests of one connection together, and answers each by itself */
function makeDeciding(
  { intake, logger, metrics }: WebhookDeps,
  publishing: Publishing | null,
  told: Telling,
) {
  return async (connectionId: string, requests: readonly ReadRequest[]): Promise<Together<Decided>> => {
    const origin = { connectionId };
    const began = performance.now();
    const envelopes = requests.flatMap(({ events }) => events.map(envelopeOf));
    const { answers, undecided } = await intake.decideRequest(origin, envelopes);
    let published: Promise<void> | null = null;
    if (answers.length > 0) {
      observeBatch({ metrics, logger }, origin, answers, performance.now() - began);
      published = publishing?.publish(origin, answers.map(withoutRecord)) ?? null;
      // Of a request that is decided in part nobody waits for it.
      published?.catch(() => undefined);
    }
    /** @param inPart some of its events are decided: sent again, it is told of those, and of what stands in the way of the rest */
    const otherwise = (inPart: boolean): HttpAnswer => {
      const refusal = inPart ? null : refusalFor(undecided);
      if (refusal !== null) return told.refused(refusal, connectionId);
      return told.undecided(connectionId, undecidedCause(undecided), messageOf(undecided));
    };
    let end = 0;
    const decided = requests.map(({ events }): Decided => {
      const begin = end;
      end += events.length;
      // The sender learns what is decided of it with what he sends again.
      if (undecided !== null && end > answers.length)
        return { answer: otherwise(begin < answers.length), published: null };
      return { answer: verdictsAnswer(connectionId, answers.slice(begin, end)), published };
    });
    return { answers: decided, isWhole: undecided === null };
  };
}

/** The refusal for what kept all of a request from being decided; null where the same request may be decided later. */
function refusalFor(undecided: Error | null): Refusal | null {
  if (isOfNoConnection(undecided)) return REFUSALS.noConnection;
  return isOfSuspendedOperator(undecided) ? REFUSALS.suspended : null;
}

function publishingOf({ publishVerdicts, clock, logger, metrics, ended }: WebhookDeps): Publishing | null {
  if (publishVerdicts === null) return null;
  const onFailure = () => metrics.retries.inc({ class: 'undecided' });
  return makePublishing({ publishVerdicts, clock, logger, onFailure, ended });
}

type Telling = ReturnType<typeof makeTelling>;

/** Tells of requests that are not decided: whoever sends what is refused sends it often, so of each kind once in a time. Gives the answer on. */
function makeTelling({ logger, metrics }: Pick<WebhookDeps, 'logger' | 'metrics'>) {
  const tellers = new Map<string, (line: object) => void>();
  function tell(kind: string, line: object, message: string): void {
    let teller = tellers.get(kind);
    if (teller === undefined) {
      teller = tellSeldom<object>(TOLD_EVERY_MS, (what, untold) => logger.warn({ ...what, untold }, message));
      tellers.set(kind, teller);
    }
    teller(line);
  }
  return {
    /** @param connectionId absent before the signature is verified: a request may name anybody */
    refused(refusal: Refusal, connectionId?: string): HttpAnswer {
      const { status, token, body } = refusal;
      tell(`${status} ${token}`, { connectionId, status, answer: body }, 'a request is refused');
      return refusal;
    },
    undecided(connectionId: string, cause: UndecidedCause, error: string): HttpAnswer {
      metrics.retries.inc({ class: 'undecided' });
      tell(cause, { connectionId, cause, error }, 'request is undecided');
      return REFUSALS.undecided;
    },
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
