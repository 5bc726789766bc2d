/**
 * Decides a batch of requests of one connection, has their verdicts published, and answers each request with
 * its own verdicts (docs/rules.md, W5, W6).
 */
import type { Logger } from 'pino';
import type { JsonText } from '../domain/event/payload';
import { makeObserveAnswers, observeTransaction } from '../intake/batch-metrics';
import { ConnectionPaused } from '../intake/connection-limit';
import type { Envelope } from '../intake/delivery';
import type { Intake } from '../intake/intake';
import type { Rehearse } from '../intake/rehearsal';
import { NoSuchConnection, OperatorSuspended, undecidedCause } from '../intake/undecided';
import type { Clock } from '../lib/clock';
import { messageOf } from '../lib/errors';
import { withoutRecord } from '../publishing/published-answer';
import type { Metrics } from '../telemetry/metrics';
import type { BatchAnswers } from './batcher';
import type { Reports } from './refusal-log';
import { type HttpAnswer, REFUSALS, type Refusal, verdictsAnswer } from './responses';
import type { Publishing } from './verdict-queues';

/** The most requests of a batch that one log line names. */
const MAX_LOGGED_REQUESTS = 20;

export interface DecidingDeps {
  readonly intake: Pick<Intake, 'decideRequest'>;
  readonly rehearse: Rehearse;
  readonly clock: Clock;
  readonly logger: Logger;
  readonly metrics: Metrics;
}

/** A request with a valid signature, with its events. */
export interface ReadRequest {
  readonly requestId: string;
  /** The sender's address, as it is logged. */
  readonly address: string;
  readonly events: readonly JsonText[];
  readonly bytes: number;
  readonly values: number;
}

/** The answer to a request. If `published` is not null, the answer is sent only after it resolves. */
export interface DecidedRequest {
  readonly answer: HttpAnswer;
  readonly published: Promise<void> | null;
}

export function makeDeciding(
  { intake, clock, logger, metrics }: DecidingDeps,
  publishing: Publishing | null,
  reports: Reports,
) {
  const observeAnswers = makeObserveAnswers({ metrics, logger, clock });
  return async (
    connectionId: string,
    requests: readonly ReadRequest[],
  ): Promise<BatchAnswers<DecidedRequest>> => {
    const requestIds = requests.slice(0, MAX_LOGGED_REQUESTS).map(({ requestId }) => requestId);
    const origin = { connectionId, requestIds };
    const began = clock.now();
    const envelopes = requests.flatMap(({ events }) => events.map(envelopeOf));
    const { answers, undecided } = await intake.decideRequest(origin, envelopes);
    let published: Promise<void> | null = null;
    if (answers.length > 0) {
      observeTransaction({ metrics }, answers.length, clock.now() - began);
      observeAnswers(origin, answers);
      published = publishing?.publish(origin, answers.map(withoutRecord)) ?? null;
      // If every request is decided only in part, no request awaits the promise: its rejection needs a
      // handler.
      published?.catch(() => undefined);
    }
    /**
     * @param inPart some events of the request are decided: the sender retries all, and these are duplicates
     * then
     */
    const refuse = ({ requestId, address }: ReadRequest, inPart: boolean): HttpAnswer => {
      const refusal = inPart ? null : refusalFor(undecided);
      if (refusal !== null) return refusal;
      const sent = { requestId, address, connectionId };
      reports.undecided(sent, undecidedCause(undecided), messageOf(undecided));
      return REFUSALS.undecided;
    };
    let end = 0;
    const decided = requests.map((request): DecidedRequest => {
      const { events } = request;
      const begin = end;
      end += events.length;
      // A retry returns the verdicts on the decided events. A request without events is undecided with the
      // rest.
      if (undecided !== null && (end > answers.length || events.length === 0))
        return { answer: refuse(request, begin < Math.min(end, answers.length)), published: null };
      return { answer: verdictsAnswer(connectionId, answers.slice(begin, end)), published };
    });
    return { answers: decided, isWhole: undecided === null };
  };
}

/**
 * Rehearses one request by itself: other requests of its connection would otherwise be seen as decided. Its
 * verdicts are neither published nor counted among those that were decided (W9).
 */
export function makeRehearsing({ rehearse, metrics }: DecidingDeps, reports: Reports) {
  return async (connectionId: string, { requestId, address, events }: ReadRequest): Promise<HttpAnswer> => {
    const origin = { connectionId, requestIds: [requestId] };
    const { answers, undecided } = await rehearse(origin, events.map(envelopeOf));
    if (undecided === null) {
      metrics.webhookRehearsals.inc({ connection: connectionId });
      metrics.webhookRehearsedEvents.inc({ connection: connectionId }, answers.length);
      return verdictsAnswer(connectionId, answers, true);
    }
    const refusal = refusalFor(undecided);
    if (refusal !== null) return refusal;
    reports.undecided({ requestId, address, connectionId }, undecidedCause(undecided), messageOf(undecided));
    return REFUSALS.undecided;
  };
}

/** The refusal for an error that a retry does not resolve; null if the same request may be decided later. */
function refusalFor(undecided: Error | null): Refusal | null {
  if (undecided instanceof ConnectionPaused) return REFUSALS.paused(undecided.message);
  if (undecided instanceof NoSuchConnection) return REFUSALS.noConnection;
  return undecided instanceof OperatorSuspended ? REFUSALS.suspended : null;
}

function envelopeOf(payload: JsonText, index: number): Envelope {
  const { bytes, from, to } = payload;
  return {
    value: bytes?.subarray(from, to) ?? null,
    payload,
    claims: [],
    offset: index,
    key: null,
    headers: [],
    timestamp: '',
  };
}
