/**
 * The body of an error that the service answers to an operator. The schema of schemas/operator.error.v2.json
 * is generated from here.
 */
import { ERROR_CODES, type ErrorCode } from './error-codes';

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
