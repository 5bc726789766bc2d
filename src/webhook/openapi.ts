/**
 * The OpenAPI document of the webhook. Its source is the data that the webhook runs by: routes, refusals, and
 * the schemas of events and answers. The examples of errors are whole answers.
 */
import { STATUS_CODES } from 'node:http';
import { ERROR_BODY_SCHEMA } from '../contract/error-body';
import { LIMITS } from '../contract/limits';
import { isRetryable } from '../contract/service-errors';
import { maxValuesOf } from '../domain/event/request-body';
import { EVENT_SCHEMA } from '../domain/event/schema';
import { isObject } from '../lib/json';
import { MAX_PIECES } from './body';
import { MAX_REQUEST_HEADERS } from './head';
import { FAILURES } from './raw-responses';
import { MAX_RECONCILED, RECONCILE_REQUEST_SCHEMA, RECONCILIATION_SCHEMA } from './reconciling';
import { ANSWER_SCHEMA, REFUSALS, type Refusal, refusal, withDetail } from './responses';
import { ROUTES } from './routes';
import { SIGNATURE_HEADERS } from './signature';
import { describeSignature, describeSkew, describeType, missingHeaders } from './signature-mistakes';

/** The limits of one webhook. Settings may make them smaller or larger than those of the contract. */
export interface RequestLimits {
  readonly maxEvents: number;
  readonly maxBytes: number;
}

const CONTRACT_LIMITS: RequestLimits = {
  maxEvents: LIMITS.webhook_events.value,
  maxBytes: LIMITS.webhook_body.value,
};

const [EVENT, BATCH, ANSWER, ERROR] = ['Event', 'Batch', 'Answer', 'Error'];
const [RECONCILE_REQUEST, RECONCILIATION] = ['ReconcileRequest', 'Reconciliation'];
const schemaOf = (name: string) => ({ $ref: `#/components/schemas/${name}` });
const json = (content: object) => ({ 'application/json': content });

/** The detail of a refusal that names no request, as the service writes it. */
const STALE = { id: 'msg_1', timestamp: '1795000000', signatures: ['v1,x'] };
const AT_MS = 1_795_000_400_000;

type Examples<Names extends string> = Readonly<Record<Names, Refusal | readonly Refusal[]>>;

/** An example of each refusal. A new refusal without one does not compile. */
function examplesOf({ maxEvents, maxBytes }: RequestLimits): Examples<keyof typeof REFUSALS> {
  const {
    tooLarge,
    tooMany,
    tooManyReconciled,
    tooManyValues,
    tooManyPieces,
    tooManyHeaders,
    malformed,
    paused,
    ...plain
  } = REFUSALS;
  return {
    ...plain,
    noJson: withDetail(plain.noJson, describeType({ 'content-type': 'text/plain' })),
    unsigned: withDetail(plain.unsigned, missingHeaders({})),
    stale: withDetail(plain.stale, describeSkew(STALE, AT_MS)),
    wronglySigned: withDetail(plain.wronglySigned, describeSignature([], STALE, Buffer.alloc(0))),
    tooLarge: tooLarge(maxBytes),
    tooMany: tooMany(maxEvents),
    tooManyReconciled: tooManyReconciled(MAX_RECONCILED),
    tooManyValues: tooManyValues(maxValuesOf(maxEvents)),
    tooManyPieces: tooManyPieces(MAX_PIECES),
    tooManyHeaders: tooManyHeaders(MAX_REQUEST_HEADERS),
    paused: paused(
      '61 of the last 100 events would be rejected, more than the limit of 50 % (in the last batch: 61 bad_amount). No event is decided until 2026-11-27T02:10:00.000Z',
    ),
    malformed: [malformed(false, 'the body is empty'), malformed(true, 'events is not an array')],
  };
}

/** The examples of answers that precede the routes: bytes that are no request, or no whole one. */
const RAW_EXAMPLES: Examples<keyof typeof FAILURES> = {
  ...FAILURES,
  notHttp: refusal(FAILURES.notHttp.token, `${FAILURES.notHttp.text}: Invalid method encountered`),
};

type RefusalName = keyof typeof REFUSALS | keyof typeof FAILURES;

/** Refusals that only one path has, or that no request of HTTP gets. */
const OTHERS: readonly RefusalName[] = ['readOnly', 'connect'];
const OF_EVENTS: readonly RefusalName[] = [
  ...([
    'wrongDryRun',
    'noConnection',
    'suspended',
    'paused',
    'tooMany',
    'tooManyValues',
    'busy',
    'undecided',
  ] as const),
];
/** Refusals that no rehearsal gets: it takes no slot, and no limit of rejected events holds for it. */
const OF_DECISIONS: readonly RefusalName[] = ['paused', 'busy'];
const OF_RECONCILE: readonly RefusalName[] = ['noSuchConnection', 'tooManyReconciled', 'unanswered'];

/** The responses with an error, by status. */
function errorResponses(limits: RequestLimits, omitted: readonly RefusalName[]): Record<string, object> {
  const named = [...Object.entries(examplesOf(limits)), ...Object.entries(RAW_EXAMPLES)]
    .flatMap(([name, examples]) => [examples].flat().map((example, at) => ({ name, at, example })))
    .filter(({ name }) => !omitted.some((each) => each === name));
  const statuses = [...new Set(named.map(({ example }) => example.status))].sort((a, b) => a - b);
  return Object.fromEntries(
    statuses.map((status) => [
      String(status),
      errorResponse(
        status,
        named
          .filter(({ example }) => example.status === status)
          .map(({ name, at, example }) => [at === 0 ? name : `${name}${at + 1}`, example]),
      ),
    ]),
  );
}

function errorResponse(status: number, examples: readonly (readonly [string, Refusal])[]): object {
  return {
    description: describeStatus(
      status,
      examples.map(([, { token }]) => token),
    ),
    headers: {
      'x-request-id': { $ref: '#/components/headers/RequestId' },
      ...(isRetryable(status) && { 'retry-after': { $ref: '#/components/headers/RetryAfter' } }),
      ...(status === 405 && { allow: { $ref: '#/components/headers/Allow' } }),
    },
    content: json({
      schema: schemaOf(ERROR),
      examples: Object.fromEntries(
        examples.map(([name, { token, body }]) => [name, { summary: token, value: JSON.parse(body) }]),
      ),
    }),
  };
}

/** @param tokens those with which the message begins */
function describeStatus(status: number, tokens: readonly string[]): string {
  const begins = [...new Set(tokens)].map((token) => `\`${token}\``).join(' or ');
  const retry = isRetryable(status)
    ? 'Send the same events again, with backoff, a new timestamp and a new signature.'
    : 'The rest of the message names the remedy.';
  return `${STATUS_CODES[status]}. The message begins with ${begins}. ${retry}`;
}

/** A published schema as a component: its references lead to the component. */
function component(name: string, { $schema: _, $id: id, ...schema }: Readonly<Record<string, unknown>>) {
  return rebased({ ...schema, 'x-published-as': id }, `#/components/schemas/${name}`);
}

function rebased(value: unknown, base: string): unknown {
  if (Array.isArray(value)) return value.map((each) => rebased(each, base));
  if (!isObject(value)) return value;
  return Object.fromEntries(
    Object.entries(value).map(([key, part]) => [
      key,
      key === '$ref' && typeof part === 'string' ? part.replace(/^#/, base) : rebased(part, base),
    ]),
  );
}

const header = (name: string, description: string, schema: object, example: string, required = true) => ({
  name,
  in: 'header',
  required,
  description,
  schema,
  example,
});

const CONNECTION = {
  name: 'connection_id',
  in: 'path',
  required: true,
  example: 'acme-hook',
  description: 'The connection, percent-encoded.',
  schema: { type: 'string', minLength: 1 },
};

const HEADERS = [
  header(
    SIGNATURE_HEADERS.id,
    'Any text. The same for each try of a request.',
    { type: 'string', minLength: 1 },
    'msg_1',
  ),
  header(
    SIGNATURE_HEADERS.timestamp,
    `Seconds since 1970, within ${LIMITS.webhook_timestamp.value} s of the time at the service. A new one for each try.`,
    { type: 'string', pattern: '^[0-9]{1,12}$' },
    STALE.timestamp,
  ),
  header(
    'x-request-id',
    'The answer and the log of the service have it again. Without it the service makes one.',
    { type: 'string', pattern: '^[A-Za-z0-9_.:@+/=-]{1,128}$' },
    'order-7',
    false,
  ),
];

const DRY_RUN = {
  name: 'dry_run',
  in: 'query',
  required: false,
  description:
    'True for a rehearsal. Prefer the path of rehearsals: a webhook that knows no rehearsals refuses that path, and decides a request with this parameter.',
  schema: { type: 'string', enum: ['true', 'false'] },
};

const ACCEPTED = { event_id: 'e-1', verdict: 'accepted', reason: null, remedy: null };

/** The source of schemas/openapi.json, with the limits of the contract. */
export function openApiDocument(limits: RequestLimits = CONTRACT_LIMITS) {
  const { maxEvents, maxBytes } = limits;
  const [event] = EVENT_SCHEMA.examples;
  const single = { summary: 'One event', value: event };
  const batch = { summary: 'A batch', value: { events: EVENT_SCHEMA.examples } };
  const requestBody = {
    required: true,
    content: json({ schema: { oneOf: [schemaOf(EVENT), schemaOf(BATCH)] }, examples: { single, batch } }),
  };
  const answered = (description: string, example: object) => ({
    description,
    headers: { 'x-request-id': { $ref: '#/components/headers/RequestId' } },
    content: json({ schema: schemaOf(ANSWER), example }),
  });
  const readOnly = errorResponse(405, [['readOnly', REFUSALS.readOnly]]);
  const readiness = {
    summary: 'Whether the service takes requests',
    description: 'For the health checks of load balancers, some of which ask by OPTIONS. Needs no signature.',
    responses: {
      200: { description: 'It takes requests.' },
      405: readOnly,
      503: { description: 'It is stopping: send requests elsewhere.' },
    },
  };
  return {
    openapi: '3.1.0',
    info: {
      title: 'The webhook of promo-intake',
      version: '1',
      description:
        'Takes promotion events by HTTP, and answers with the verdict on each. The document grows by additions alone: ignore fields that you do not know.',
      license: { name: 'Proprietary', identifier: 'LicenseRef-Proprietary' },
    },
    servers: [{ url: '/' }],
    paths: {
      [ROUTES.events.path]: {
        post: {
          operationId: 'sendEvents',
          summary: 'Send one event or a batch, and get the verdicts',
          description: `Each event is decided on its own, in the order of the request, and once: an event that is sent again is a duplicate. A body has at most ${maxEvents} events and ${maxBytes} bytes.`,
          security: [{ signature: [] }],
          parameters: [CONNECTION, DRY_RUN, ...HEADERS],
          requestBody,
          responses: {
            200: answered(
              'Every event is decided and committed. An event may be rejected or skipped all the same: read its verdict.',
              { spec: 'promo.answer.v1', connection_id: 'acme-hook', verdicts: [ACCEPTED] },
            ),
            ...errorResponses(limits, [...OTHERS, ...OF_RECONCILE]),
          },
        },
      },
      [ROUTES.rehearse.path]: {
        post: {
          operationId: 'rehearseEvents',
          summary: 'Get the verdicts that events would get now, and decide nothing',
          description:
            'Nothing is stored, and no event_id is used up. The events of a request see one another and all decided events.',
          security: [{ signature: [] }],
          parameters: [CONNECTION, ...HEADERS],
          requestBody,
          responses: {
            200: answered('Nothing is decided. The verdicts are those that the events would get now.', {
              spec: 'promo.answer.v1',
              connection_id: 'acme-hook',
              dry_run: true,
              verdicts: [ACCEPTED],
            }),
            ...errorResponses(limits, [...OTHERS, ...OF_RECONCILE, ...OF_DECISIONS]),
          },
        },
      },
      [ROUTES.reconcile.path]: {
        post: {
          operationId: 'reconcile',
          summary: 'Ask for the standing of events, which changes nothing',
          description: RECONCILIATION_SCHEMA.description,
          security: [{ signature: [] }],
          parameters: [CONNECTION, ...HEADERS],
          requestBody: {
            required: true,
            content: json({ schema: schemaOf(RECONCILE_REQUEST), example: { event_ids: ['e-1', 'e-2'] } }),
          },
          responses: {
            200: {
              description: 'The standing of each event, in the order of the request.',
              headers: { 'x-request-id': { $ref: '#/components/headers/RequestId' } },
              content: json({ schema: schemaOf(RECONCILIATION) }),
            },
            ...errorResponses(limits, [...OTHERS, ...OF_EVENTS]),
          },
        },
      },
      [ROUTES.openapi.path]: {
        get: {
          operationId: 'getOpenApi',
          summary: 'This document',
          description: 'With the limits of this service. Needs no signature.',
          parameters: [header('if-none-match', 'The ETag of a copy.', { type: 'string' }, '"abc"', false)],
          responses: {
            200: {
              description: 'The document.',
              headers: {
                etag: { description: 'Another document has another one.', schema: { type: 'string' } },
                'cache-control': { description: 'How long a copy is good.', schema: { type: 'string' } },
              },
              content: json({ schema: { type: 'object', required: ['openapi', 'info', 'paths'] } }),
            },
            304: { description: 'The copy is good.' },
            405: readOnly,
          },
        },
      },
      [ROUTES.page.path]: {
        get: {
          operationId: 'getCheckPage',
          summary: 'A page for people that checks events',
          description:
            'It judges in the browser by the rules of this version, and sends nothing. Needs no signature.',
          responses: {
            200: {
              description: 'The page, in one file.',
              content: { 'text/html': { schema: { type: 'string' } } },
            },
            304: { description: 'The copy is good.' },
            405: readOnly,
          },
        },
      },
      [ROUTES.ready.path]: {
        get: { operationId: 'isReady', ...readiness },
        options: { operationId: 'isReadyByOptions', ...readiness },
      },
    },
    components: {
      securitySchemes: {
        signature: {
          type: 'apiKey',
          in: 'header',
          name: SIGNATURE_HEADERS.signature,
          description:
            'As Standard Webhooks specifies: `v1,` and the HMAC-SHA256 of `webhook-id.webhook-timestamp.body` in base64, by the bytes of the secret. A blank separates several. The libraries of https://www.standardwebhooks.com make it.',
        },
      },
      headers: {
        RequestId: {
          description: 'The request, as the log of the service names it. Quote it to support.',
          required: true,
          schema: { type: 'string' },
        },
        RetryAfter: {
          description: 'Seconds before the next try. Each further one waits twice as long, up to 30 s.',
          required: true,
          schema: { type: 'string', pattern: '^[0-9]+$' },
        },
        Allow: { description: 'The method to use.', required: true, schema: { type: 'string' } },
      },
      schemas: {
        [EVENT]: component(EVENT, EVENT_SCHEMA),
        [BATCH]: {
          title: 'A batch of events',
          type: 'object',
          required: ['events'],
          properties: { events: { type: 'array', maxItems: maxEvents, items: schemaOf(EVENT) } },
        },
        [ANSWER]: component(ANSWER, ANSWER_SCHEMA),
        [RECONCILE_REQUEST]: component(RECONCILE_REQUEST, RECONCILE_REQUEST_SCHEMA),
        [RECONCILIATION]: component(RECONCILIATION, RECONCILIATION_SCHEMA),
        [ERROR]: component(ERROR, ERROR_BODY_SCHEMA),
      },
    },
  };
}
