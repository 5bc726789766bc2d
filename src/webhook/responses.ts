/**
 * Answers to requests of the webhook: the verdicts on the events, or a refusal (docs/rules.md, W5, W6). The
 * body of a refusal has the fields that operators know from other calls: code, message, and whether to retry.
 */
import { serializeErrorBody } from '../contract/error-body';
import type { ErrorCode } from '../contract/error-codes';
import { LIMITS } from '../contract/limits';
import { isRetryable, type MessageToken, serviceErrorWith } from '../contract/service-errors';
import type { Answer } from '../intake/delivery';
import { fields, OUTCOME_PROPERTIES, outcomeFields } from '../publishing/outcome';
import type { NoPlace } from './places';
import { type PublicRoute, ROUTES } from './routes';
import { TIMESTAMP_WINDOW_SECONDS } from './signature';

export interface HttpAnswer {
  readonly status: number;
  /** JSON. */
  readonly body: string;
  readonly headers?: Readonly<Record<string, string>>;
  /** Metrics of requests leave the answer out. */
  readonly isRehearsal?: boolean;
}

const ANSWER_SPEC = 'promo.answer.v1';

/** The source of schemas/promo.answer.v1.json, which is generated. */
export const ANSWER_SCHEMA = {
  $schema: 'https://json-schema.org/draft/2020-12/schema',
  $id: 'urn:promo-intake:promo.answer.v1',
  title: "The webhook's answer to a request whose events are decided",
  description:
    'The verdict on each event of the request, in the order of the events. Each verdict is committed before the answer is sent, unless the request is a rehearsal.',
  type: 'object',
  required: ['spec', 'connection_id', 'verdicts'],
  properties: {
    spec: { const: ANSWER_SPEC },
    connection_id: { description: 'Connection of the request.', type: 'string' },
    dry_run: {
      description:
        'True for a rehearsal: the verdicts are those that the events would get now. Nothing is stored, and no event_id is used up. Absent where the events are decided.',
      const: true,
    },
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
export function verdictsAnswer(
  connectionId: string,
  answers: readonly Answer[],
  isRehearsal = false,
): HttpAnswer {
  const about = fields({
    spec: ANSWER_SPEC,
    connection_id: connectionId,
    ...(isRehearsal && { dry_run: true }),
  });
  /** The ids of a rehearsal that no verdict had used up before it. */
  const free = new Set<string | null>();
  const verdicts = answers.map((answer) => {
    const { eventId, decision } = answer;
    if (isRehearsal && decision.type !== 'duplicate') free.add(eventId);
    return `{${fields({ event_id: eventId })},${outcomeFields(answer, free.has(eventId))}}`;
  });
  return { status: 200, body: `{${about},"verdicts":[${verdicts.join()}]}`, isRehearsal };
}

/** Tokens of messages that only the webhook has. The contract shows their status, 503, and no token. */
const OWN_TOKENS = {
  overloaded: { status: 503, code: 'ERROR_CODE_MAINTENANCE' },
  undecided: { status: 503, code: 'ERROR_CODE_MAINTENANCE' },
} as const satisfies Record<string, { status: number; code: ErrorCode }>;

type OwnToken = keyof typeof OWN_TOKENS;

/** An answer to a request none of whose events gets a verdict. */
export interface Refusal extends HttpAnswer {
  /** Begins the message. Programs can rely on it. */
  readonly token: MessageToken | OwnToken;
  /** The rest of the message, for people. */
  readonly text: string;
  readonly code: ErrorCode;
}

/**
 * A refusal with the code of its token's row in the contract. The status decides whether a retry helps.
 *
 * @param status overrides that of the row, where HTTP has a more exact one
 */
export function refusal(token: Refusal['token'], text: string, status = causeOf(token).status): Refusal {
  const { code } = causeOf(token);
  const isLater = isRetryable(status);
  const body = serializeErrorBody({ code, message: `${token}: ${text}`, isRetryable: isLater });
  const headers = { 'retry-after': String(LIMITS.webhook_retry_after.value) };
  return { status, token, text, code, body, ...(isLater ? { headers } : {}) };
}

function causeOf(token: Refusal['token']): { readonly status: number; readonly code: ErrorCode } {
  if (isOwnToken(token)) return OWN_TOKENS[token];
  const { status, codes } = serviceErrorWith(token);
  return { status, code: codes[0] };
}

function isOwnToken(token: string): token is OwnToken {
  return Object.hasOwn(OWN_TOKENS, token);
}

/** The same refusal with a detail of the request. */
export function withDetail({ status, token, text }: Refusal, detail: string): Refusal {
  return refusal(token, `${text}; ${detail}`, status);
}

export function isRefusal(answer: HttpAnswer): answer is Refusal {
  return 'token' in answer;
}

function allowing(route: keyof typeof ROUTES): Readonly<Record<string, string>> {
  return { allow: ROUTES[route].methods.join(', ') };
}

/** The refusal of a method that a path without a signature does not have. */
export function readOnlyRefusal(route: PublicRoute): Refusal {
  return { ...REFUSALS.readOnly, headers: allowing(route) };
}

/** The refusal of a request that got no place. */
export function noPlaceRefusal(refused: NoPlace): Refusal {
  return refused === 'share' ? REFUSALS.beyondShare : REFUSALS.crowded;
}

/** The token of each is for programs. The text is for people and may change. */
export const REFUSALS = {
  noSuchPath: refusal('invalid request', `send events to POST ${ROUTES.events.path}`, 404),
  wrongDryRun: refusal(
    'invalid request',
    `rehearse by POST ${ROUTES.rehearse.path}, or by the query parameter dry_run=true, in these letters and once; nothing was decided`,
  ),
  noSuchMethod: { ...refusal('invalid request', 'send events by POST', 405), headers: allowing('events') },
  readOnly: { ...refusal('invalid request', 'read this path by GET', 405), headers: allowing('openapi') },
  noJson: refusal(
    'invalid request',
    'Content-Type has to be application/json, without a Content-Encoding',
    415,
  ),
  unauthorized: refusal(
    'unauthorized',
    'the connection has no secret here; ask the operator of the service for one',
  ),
  unsigned: refusal(
    'signature_missing',
    'send webhook-id, webhook-timestamp and webhook-signature, as Standard Webhooks specifies',
  ),
  stale: refusal(
    'signature_stale',
    `webhook-timestamp is not within ${TIMESTAMP_WINDOW_SECONDS} s of the time here; send seconds since 1970, and a new time with each try`,
  ),
  wronglySigned: refusal(
    'signature_invalid',
    'no signature matches webhook-id.webhook-timestamp.body and a secret of the connection',
  ),
  noConnection: refusal('forbidden', 'the connection is not registered as a webhook'),
  noSuchConnection: refusal('forbidden', 'the connection is not registered'),
  suspended: refusal(
    'operator_suspended',
    'the operator is not active, and no event was decided; ask support, then send the same events again',
  ),
  paused: (because: string) =>
    refusal(
      'restricted',
      `${because}, and this request has used up no event_id. Rehearse its events by POST ${ROUTES.rehearse.path}: a duplicate was decided by an earlier request. Correct the others, and send them again then. Ask support where the events are right`,
    ),
  tooLarge: (bytes: number) =>
    refusal(
      'invalid request',
      `the body has more than ${bytes} bytes; send its events in several requests`,
      413,
    ),
  tooMany: (events: number) =>
    refusal(
      'invalid request',
      `the batch has more than ${events} events; send them in several requests`,
      413,
    ),
  tooManyReconciled: (events: number) =>
    refusal(
      'invalid request',
      `the request names more than ${events} events; reconcile them in several requests`,
      413,
    ),
  tooManyValues: (values: number) =>
    refusal(
      'invalid request',
      `the body holds more than ${values} JSON values; send fewer events in a request, or events with fewer fields of your own`,
      413,
    ),
  tooManyPieces: (pieces: number) =>
    refusal(
      'invalid request',
      `the body came in more than ${pieces} pieces; send it in larger chunks, or with a Content-Length`,
      413,
    ),
  tooManyHeaders: (headers: number) =>
    refusal('invalid request', `the request has more than ${headers} headers; send fewer`, 431),
  noHost: refusal('invalid request', 'the header Host is missing'),
  noExpectation: refusal('invalid request', 'only Expect: 100-continue is supported; omit the header', 417),
  malformed: (isJson: boolean, problem: string) =>
    refusal(isJson ? 'invalid request' : 'invalid json body', problem),
  tooSlow: refusal(
    'rate limit',
    'the body came too slowly while other requests waited; send the same request again',
  ),
  beyondShare: refusal(
    'rate limit',
    'the connection, or its address, has too many requests in flight; send the same request again once they are answered',
  ),
  busy: refusal('overloaded', 'no slot became free in time; send the same request again'),
  crowded: refusal('overloaded', 'too many requests are in flight; send the same request again'),
  undecided: refusal('undecided', 'the events could not be decided now; send the same request again'),
  unanswered: refusal('undecided', 'the events could not be looked up now; send the same request again'),
  /** As `undecided`, but the events may be decided after all. */
  late: refusal('undecided', 'the events could not be decided in time; send the same request again'),
} as const;
