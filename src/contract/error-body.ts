/**
 * The body of an error that the service answers to an operator: written by one function, read by another. The
 * schema of schemas/operator.error.v2.json is generated from here.
 */
import { isObject, parseJson } from '../lib/json';
import { ERROR_CODES, type ErrorCode, isErrorCode } from './error-codes';
import { SERVICE_ERROR_NAMES, type ServiceErrorName, serviceError } from './service-errors';

export interface ErrorBody {
  readonly code: ErrorCode;
  /** For logs. Begins with a stable token, and goes on with a text for people that may change. */
  readonly message: string;
  readonly isRetryable: boolean;
}

/** JSON. `retryable` is left out where it would be false. */
export function serializeErrorBody({ code, message, isRetryable }: ErrorBody): string {
  return JSON.stringify({ code, message, ...(isRetryable ? { retryable: true } : {}) });
}

export type ReadErrorBody =
  | { readonly type: 'error'; readonly body: ErrorBody }
  /** A proxy in between may have answered instead of the service. */
  | { readonly type: 'no_error_body'; readonly problem: string };

/** Reads the body of an answer with a status other than 200. Fields that are not listed are ignored. */
export function parseErrorBody(text: string): ReadErrorBody {
  const problem = (problem: string): ReadErrorBody => ({ type: 'no_error_body', problem });
  const value = parseJson(text);
  if (value === undefined) return problem('the body is not JSON');
  if (!isObject(value)) return problem('the body is no JSON object');
  const { code, message, retryable = false } = value;
  if (!isErrorCode(code)) return problem('code is none of the 15 error codes');
  if (typeof message !== 'string') return problem('message is no string');
  if (typeof retryable !== 'boolean') return problem('retryable is neither true nor false');
  return { type: 'error', body: { code, message, isRetryable: retryable } };
}

/** The token with which a message begins; null where it begins with none of the contract. */
export function tokenOf(message: string): string | null {
  return TOKENS.find((token) => message === token || isFollowed(message, token)) ?? null;
}

/** The longest first: `unauthorized` must not be found in a longer token that begins with it. */
const TOKENS: readonly string[] = SERVICE_ERROR_NAMES.flatMap((name) => serviceError(name).tokens).sort(
  (a, b) => b.length - a.length,
);

/** Whether a token is followed by something that does not continue its last word. */
function isFollowed(message: string, token: string): boolean {
  return message.startsWith(token) && !/^\w/.test(message.slice(token.length));
}

/**
 * The row of an answer's error. A token decides, where the status has it; otherwise the first row of the
 * status that has the code. Undefined where the contract has no such answer.
 */
export function serviceErrorOf(
  status: number,
  { code, message }: Pick<ErrorBody, 'code' | 'message'>,
): ServiceErrorName | undefined {
  const token = tokenOf(message);
  const fitting = SERVICE_ERROR_NAMES.filter((name) => {
    const row = serviceError(name);
    return row.status === status && row.codes.includes(code);
  });
  return fitting.find((name) => token !== null && serviceError(name).tokens.includes(token)) ?? fitting[0];
}

/** The source of schemas/operator.error.v2.json. */
export const ERROR_BODY_SCHEMA = {
  $schema: 'https://json-schema.org/draft/2020-12/schema',
  $id: 'urn:promo-intake:operator.error.v2',
  title: 'Error of an operator call',
  description:
    'The body of each answer whose HTTP status is not 200. The status decides about a retry: only 429, 503 and 504 are retried, with backoff. More fields may come, and a reader ignores fields that it does not know.',
  type: 'object',
  required: ['code', 'message'],
  properties: {
    code: { description: 'The cause, from a closed list of 15 codes.', enum: ERROR_CODES },
    message: {
      description:
        'For logs. Begins with a stable token, such as signature_invalid. The text behind the token is for people and may change.',
      type: 'string',
      examples: ['signature_invalid: no signature matches'],
    },
    retryable: {
      description: 'Present, and true, where a later retry may succeed. Absent otherwise.',
      type: 'boolean',
      const: true,
    },
  },
  examples: [
    { code: 'ERROR_CODE_INVALID_REQUEST', message: 'signature_invalid: no signature matches' },
    { code: 'ERROR_CODE_INTERNAL', message: 'provider_timeout', retryable: true },
  ],
} as const;
