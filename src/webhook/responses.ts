/**
 * Answers to requests of the webhook: the verdicts on the events, or a refusal (docs/rules.md, W5, W6). The
 * body of a refusal has the fields that operators know from other calls: code, message, and whether to retry.
 */
import type { Answer } from '../intake/delivery';
import { fields, OUTCOME_PROPERTIES, outcomeFields } from '../publishing/outcome';
import { TIMESTAMP_WINDOW_SECONDS } from './signature';

export interface HttpAnswer {
  readonly status: number;
  /** JSON. */
  readonly body: string;
  readonly headers?: Readonly<Record<string, string>>;
}

const ANSWER_SPEC = 'promo.answer.v1';

/** The source of schemas/promo.answer.v1.json, which is generated. */
export const ANSWER_SCHEMA = {
  $schema: 'https://json-schema.org/draft/2020-12/schema',
  $id: 'urn:promo-intake:promo.answer.v1',
  title: "The webhook's answer to a request whose events are decided",
  description:
    'The verdict on each event of the request, in the order of the events. Each verdict is committed before the answer is sent.',
  type: 'object',
  required: ['spec', 'connection_id', 'verdicts'],
  properties: {
    spec: { const: ANSWER_SPEC },
    connection_id: { description: 'Connection of the request.', type: 'string' },
    verdicts: {
      type: 'array',
      items: {
        type: 'object',
        required: ['event_id', 'verdict', 'reason', 'remedy'],
        properties: {
          event_id: {
            description: 'The event_id, or null where the event has no usable event_id.',
            type: ['string', 'null'],
          },
          ...OUTCOME_PROPERTIES,
        },
      },
    },
  },
} as const;

/** @param answers one for each event of the request, in the order of the events */
export function verdictsAnswer(connectionId: string, answers: readonly Answer[]): HttpAnswer {
  const about = fields({ spec: ANSWER_SPEC, connection_id: connectionId });
  const verdicts = answers.map(
    (answer) => `{${fields({ event_id: answer.eventId })},${outcomeFields(answer)}}`,
  );
  return { status: 200, body: `{${about},"verdicts":[${verdicts.join()}]}` };
}

/** Error codes that the service uses in its answers to operators. */
type ErrorCode =
  | 'ERROR_CODE_INVALID_REQUEST'
  | 'ERROR_CODE_BUSINESS_REJECTED'
  | 'ERROR_CODE_MAINTENANCE'
  | 'ERROR_CODE_RATE_LIMITED';

/** The Retry-After of answers that ask for a retry. */
const RETRY_AFTER_SECONDS = 1;

/** An answer to a request none of whose events gets a verdict. */
export interface Refusal extends HttpAnswer {
  /** The first word of the message, which programs can rely on. */
  readonly token: string;
  readonly message: string;
  readonly code: ErrorCode;
}

export function refusal(
  status: number,
  message: string,
  code: ErrorCode = 'ERROR_CODE_INVALID_REQUEST',
  more: { readonly retryable?: true } = {},
): Refusal {
  const [token = ''] = message.split(':');
  return { status, token, message, code, body: JSON.stringify({ code, message, ...more }) };
}

/** The same refusal with a detail of the request. Only for refusals that no retry resolves. */
export function withDetail({ status, message, code }: Refusal, detail: string): Refusal {
  return refusal(status, `${message}; ${detail}`, code);
}

/** A refusal because the service is overloaded or unable to decide now. */
function later(message: string): Refusal {
  return retryable(503, message, 'ERROR_CODE_MAINTENANCE');
}

/** A refusal because the sender has used its share. */
function limited(message: string): Refusal {
  return retryable(429, `rate limit: ${message}`, 'ERROR_CODE_RATE_LIMITED');
}

function retryable(status: number, message: string, code: ErrorCode): Refusal {
  return {
    ...refusal(status, message, code, { retryable: true }),
    headers: { 'retry-after': String(RETRY_AFTER_SECONDS) },
  };
}

export function isRefusal(answer: HttpAnswer): answer is Refusal {
  return 'token' in answer;
}

/** Each message begins with a stable token for programs. The rest is for people and may change. */
export const REFUSALS = {
  noSuchPath: refusal(404, 'invalid request: send events to POST /v1/events/{connection_id}'),
  noSuchMethod: {
    ...refusal(405, 'invalid request: send events by POST'),
    headers: { allow: 'POST' },
  },
  noJson: refusal(
    415,
    'invalid request: Content-Type has to be application/json, without a Content-Encoding',
  ),
  unauthorized: refusal(
    401,
    'unauthorized: the connection has no secret here; ask the operator of the service for one',
  ),
  unsigned: refusal(
    401,
    'signature_missing: send webhook-id, webhook-timestamp and webhook-signature, as Standard Webhooks specifies',
  ),
  stale: refusal(
    401,
    `signature_stale: webhook-timestamp is not within ${TIMESTAMP_WINDOW_SECONDS} s of the time here; send seconds since 1970, and a new time with each try`,
  ),
  wronglySigned: refusal(
    401,
    'signature_invalid: no signature matches webhook-id.webhook-timestamp.body and a secret of the connection',
  ),
  noConnection: refusal(
    403,
    'forbidden: the connection is not registered as a webhook',
    'ERROR_CODE_BUSINESS_REJECTED',
  ),
  suspended: refusal(
    403,
    'operator_suspended: the operator is not active, and no event was decided; ask support, then send the same events again',
    'ERROR_CODE_BUSINESS_REJECTED',
  ),
  tooLarge: (bytes: number) =>
    refusal(
      413,
      `invalid request: the body has more than ${bytes} bytes; send its events in several requests`,
    ),
  tooMany: (events: number) =>
    refusal(413, `invalid request: the batch has more than ${events} events; send them in several requests`),
  tooManyValues: (values: number) =>
    refusal(
      413,
      `invalid request: the body holds more than ${values} JSON values; send fewer events in a request, or events with fewer fields of your own`,
    ),
  tooManyPieces: (pieces: number) =>
    refusal(
      413,
      `invalid request: the body came in more than ${pieces} pieces; send it in larger chunks, or with a Content-Length`,
    ),
  tooManyHeaders: (headers: number) =>
    refusal(431, `invalid request: the request has more than ${headers} headers; send fewer`),
  noHost: refusal(400, 'invalid request: the header Host is missing'),
  noExpectation: refusal(417, 'invalid request: only Expect: 100-continue is supported; omit the header'),
  malformed: (isJson: boolean, problem: string) =>
    refusal(400, `${isJson ? 'invalid request' : 'invalid json body'}: ${problem}`),
  tooSlow: limited('the body came too slowly while other requests waited; send the same request again'),
  beyondShare: limited(
    'the connection, or its address, has too many requests in flight; send the same request again once they are answered',
  ),
  busy: later('overloaded: no slot became free in time; send the same request again'),
  crowded: later('overloaded: too many requests are in flight; send the same request again'),
  undecided: later('undecided: the events could not be decided now; send the same request again'),
  /** As `undecided`, but the events may be decided after all. */
  late: later('undecided: the events could not be decided in time; send the same request again'),
} as const;
