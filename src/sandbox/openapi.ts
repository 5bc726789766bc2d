/**
 * The OpenAPI document of the sandbox, made from the table of its calls. The source of
 * schemas/sandbox.openapi.json.
 */
import { ERROR_BODY_SCHEMA } from '../contract/error-body';
import { SERVICE_ERROR_NAMES, type ServiceErrorName, serviceError } from '../contract/service-errors';
import { SANDBOX_HEADER } from './answers';
import { CALL_HEADERS } from './authentication';
import { DELAY_HEADER, FAULT_HEADER, LONGEST_DELAY_MS } from './ordered-faults';
import { COMMON_ERRORS, CONTROL_PREFIX, HTTP_REFUSALS, SANDBOX_ROUTES, type SandboxRoute } from './routes';

const JSON_TYPE = 'application/json';
const { $schema: _dialect, $id: _id, ...ERROR_SCHEMA } = ERROR_BODY_SCHEMA;

const HEADERS = {
  'X-Sandbox': { description: 'Says that a sandbox answered.', schema: { const: SANDBOX_HEADER.value } },
  'X-Request-Id': { description: 'Your own request id, or a new one.', schema: { type: 'string' } },
  'Retry-After': {
    description: 'Seconds before the retry.',
    schema: { type: 'string', pattern: '^[0-9]+$' },
  },
} as const;

const PARAMETERS = {
  Fault: {
    name: FAULT_HEADER,
    in: 'header',
    description:
      'Orders an error: NAME[; times=N][; after]. NAME is an error of the contract, or one of its tokens. With times the same call fails N times, and then succeeds. With after the call takes effect first.',
    schema: { type: 'string', examples: ['provider_timeout', 'provider_timeout; times=2'] },
  },
  Delay: {
    name: DELAY_HEADER,
    in: 'header',
    description: 'The time that the call takes, in milliseconds.',
    schema: { type: 'integer', minimum: 0, maximum: LONGEST_DELAY_MS },
  },
} as const;

type Component = 'headers' | 'parameters' | 'responses' | 'schemas';
const refTo = (component: Component, name: string) => ({ $ref: `#/components/${component}/${name}` });
const headersOf = (names: readonly (keyof typeof HEADERS)[]) =>
  Object.fromEntries(names.map((name) => [name, refTo('headers', name)]));

/** The OpenAPI 3.1 document. */
export const SANDBOX_OPENAPI = {
  openapi: '3.1.0',
  info: {
    title: 'Sandbox of promo-intake',
    version: '1.0.0',
    description:
      'A service to write a client against. The contract with operators shows the names of its operations, the errors and four behaviours. Methods, paths, fields and the signature are those of this sandbox: the service itself may differ.',
  },
  tags: [
    { name: 'operations', description: 'The operations that the contract names.' },
    { name: 'sandbox', description: 'Calls of the sandbox alone.' },
  ],
  security: [{ keyId: [], timestamp: [], signature: [] }],
  paths: Object.fromEntries(SANDBOX_ROUTES.map((route) => [route.path, { post: operationOf(route) }])),
  components: {
    securitySchemes: {
      keyId: { type: 'apiKey', in: 'header', name: CALL_HEADERS.keyId, description: 'The id of your key.' },
      timestamp: {
        type: 'apiKey',
        in: 'header',
        name: CALL_HEADERS.timestamp,
        description: 'The time of the call, in seconds since 1970.',
      },
      signature: {
        type: 'apiKey',
        in: 'header',
        name: CALL_HEADERS.signature,
        description:
          'HMAC-SHA256 with the secret of your key, in hexadecimal digits, of timestamp.METHOD.path.body. The path has its query.',
      },
    },
    headers: HEADERS,
    parameters: PARAMETERS,
    responses: errorResponses(),
    schemas: { Error: ERROR_SCHEMA },
  },
} as const;

function operationOf(route: SandboxRoute): Record<string, unknown> {
  const { operation, path, summary, request, success, errors } = route;
  return {
    operationId: operation,
    tags: [path.startsWith(CONTROL_PREFIX) ? 'sandbox' : 'operations'],
    summary,
    parameters: Object.keys(PARAMETERS).map((name) => refTo('parameters', name)),
    requestBody: { required: true, content: { [JSON_TYPE]: { schema: request } } },
    responses: {
      ...(success === null ? {} : successResponses(route, success)),
      ...Object.fromEntries(
        statusesOf([...COMMON_ERRORS, ...errors]).map((status) => [status, refTo('responses', `E${status}`)]),
      ),
    },
  };
}

function successResponses(
  { operation }: SandboxRoute,
  properties: Readonly<Record<string, unknown>>,
): Record<string, unknown> {
  const schema = {
    type: 'object',
    required: ['sandbox', ...Object.keys(properties)],
    properties: { sandbox: { const: true }, ...properties },
  };
  const response = (description: string) => ({
    description,
    headers: headersOf(['X-Sandbox', 'X-Request-Id']),
    content: { [JSON_TYPE]: { schema } },
  });
  return {
    200: response('The call succeeded.'),
    ...(operation === 'playRound' && { 202: response('A call of the wallet is still open.') }),
  };
}

function statusesOf(names: readonly ServiceErrorName[]): string[] {
  const statuses = names.map((name) => String(serviceError(name).status));
  return [...new Set([...statuses, ...Object.keys(HTTP_REFUSALS)])].sort();
}

/** One response a status: several rows of the contract may share one. */
function errorResponses(): Record<string, unknown> {
  return Object.fromEntries(
    statusesOf(SERVICE_ERROR_NAMES).map((status) => {
      const rows = SERVICE_ERROR_NAMES.map(serviceError).filter((row) => String(row.status) === status);
      const own = Object.entries(HTTP_REFUSALS).flatMap(([each, text]) => (each === status ? [text] : []));
      const isRetryable = rows.some((row) => row.isRetryable);
      return [
        `E${status}`,
        {
          description: [...rows.map(({ meaning }) => meaning), ...own].join(' '),
          headers: headersOf([
            'X-Sandbox',
            'X-Request-Id',
            ...(isRetryable ? (['Retry-After'] as const) : []),
          ]),
          content: { [JSON_TYPE]: { schema: refTo('schemas', 'Error') } },
        },
      ];
    }),
  );
}
