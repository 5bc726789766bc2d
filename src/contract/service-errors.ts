/**
 * The errors that the service answers to calls of operators: one row for each cause. The HTTP status decides
 * about a retry, so all rows of a status agree.
 */
import type { ErrorCode } from './error-codes';

export interface ServiceErrorRow {
  readonly status: number;
  /** The codes that the body may have, the usual one first. */
  readonly codes: readonly [ErrorCode, ...ErrorCode[]];
  readonly isRetryable: boolean;
  /** The texts with which the message begins. Empty where the documents name none. */
  readonly tokens: readonly string[];
  readonly meaning: string;
}

export const SERVICE_ERRORS = {
  invalid_request: {
    status: 400,
    codes: ['ERROR_CODE_INVALID_REQUEST'],
    isRetryable: false,
    tokens: [
      'invalid json body',
      'invalid request',
      'invalid_request',
      'invalid_provider_ref',
      'capability_not_supported',
      'bonus_buy_not_cancellable',
    ],
    meaning:
      'The body is no JSON or cannot be read, a field is missing or invalid, or the game provider does not offer the capability.',
  },
  unauthorized: {
    status: 401,
    codes: ['ERROR_CODE_INVALID_REQUEST'],
    isRetryable: false,
    tokens: ['unauthorized', 'signature_missing', 'signature_invalid', 'signature_stale'],
    meaning: 'The key id or the signature is missing or wrong, or the timestamp is more than 300 s off.',
  },
  forbidden: {
    status: 403,
    codes: ['ERROR_CODE_BUSINESS_REJECTED'],
    isRetryable: false,
    tokens: ['forbidden'],
    meaning: 'The operator is suspended, or the key may not make the call.',
  },
  not_allowed: {
    status: 403,
    codes: ['ERROR_CODE_BUSINESS_REJECTED', 'ERROR_CODE_INVALID_REQUEST'],
    isRetryable: false,
    tokens: [
      'operator_suspended',
      'operator forbidden',
      'restricted',
      'game_unavailable',
      'PLAYER_SELF_EXCLUDED',
      'PLAYER_COOL_OFF',
    ],
    meaning: 'The operator, the game or the player is not allowed to do this.',
  },
  not_found: {
    status: 404,
    codes: ['ERROR_CODE_INVALID_REQUEST'],
    isRetryable: false,
    tokens: [
      'provider not found',
      'provider_not_found',
      'game not found',
      'player_not_found',
      'bonus_buy_not_found',
    ],
    meaning: 'The provider, game, player, grant or bonus does not exist.',
  },
  conflict: {
    status: 409,
    codes: ['ERROR_CODE_IDEMPOTENCY_CONFLICT'],
    isRetryable: false,
    tokens: ['session_token_conflict'],
    meaning:
      'A launch token came again with another player, game or currency, or after its session had ended. Or the idempotency_key of a grant came again with another body.',
  },
  demo_not_supported: {
    status: 412,
    codes: ['ERROR_CODE_INVALID_REQUEST'],
    isRetryable: false,
    tokens: ['DEMO_NOT_SUPPORTED'],
    meaning: 'The game of launchDemo has demo_supported false.',
  },
  unsupported_action: {
    status: 422,
    codes: ['ERROR_CODE_INVALID_REQUEST'],
    isRetryable: false,
    tokens: ['unsupported action'],
    meaning: 'The game or its provider does not support the action.',
  },
  rate_limited: {
    status: 429,
    codes: ['ERROR_CODE_RATE_LIMITED'],
    isRetryable: true,
    // The documents put these words into parentheses. A client recognizes the status.
    tokens: ['rate limit'],
    meaning: 'The operator sends more calls than the service takes.',
  },
  internal: {
    status: 500,
    codes: ['ERROR_CODE_INTERNAL'],
    isRetryable: false,
    tokens: ['internal error'],
    meaning: 'The service failed.',
  },
  not_implemented: {
    status: 501,
    codes: ['ERROR_CODE_UNSUPPORTED_ACTION'],
    isRetryable: false,
    tokens: [],
    meaning: 'A binding whose settlement_mode is PER_ROUND does not implement the call.',
  },
  provider_error: {
    status: 502,
    codes: ['ERROR_CODE_INTERNAL'],
    isRetryable: false,
    tokens: ['provider_error'],
    meaning: 'The game provider answered with an error. The same call gives the same error again.',
  },
  provider_unavailable: {
    status: 503,
    codes: ['ERROR_CODE_MAINTENANCE'],
    isRetryable: true,
    tokens: ['provider_unavailable'],
    meaning: 'The game provider is unavailable.',
  },
  launch_in_progress: {
    status: 503,
    codes: ['ERROR_CODE_INTERNAL'],
    isRetryable: true,
    tokens: ['launch_in_progress'],
    meaning: 'The first launch with this token still runs. Retry with the same token.',
  },
  provider_timeout: {
    status: 504,
    codes: ['ERROR_CODE_INTERNAL'],
    isRetryable: true,
    tokens: ['provider_timeout'],
    meaning: 'The game provider did not answer in time.',
  },
} as const satisfies Record<string, ServiceErrorRow>;
export type ServiceErrorName = keyof typeof SERVICE_ERRORS;

/** A text with which the message of an error body begins. */
export type MessageToken = (typeof SERVICE_ERRORS)[ServiceErrorName]['tokens'][number];

export function isServiceErrorName(text: string): text is ServiceErrorName {
  return Object.hasOwn(SERVICE_ERRORS, text);
}

/** All errors, in the order of the table. */
export const SERVICE_ERROR_NAMES: readonly ServiceErrorName[] =
  Object.keys(SERVICE_ERRORS).filter(isServiceErrorName);

export function serviceError(name: ServiceErrorName): ServiceErrorRow {
  return SERVICE_ERRORS[name];
}

const ROWS_BY_TOKEN: ReadonlyMap<string, ServiceErrorRow> = new Map(
  SERVICE_ERROR_NAMES.map(serviceError).flatMap((row) => row.tokens.map((token) => [token, row] as const)),
);

/** The row that has a token. */
export function serviceErrorWith(token: MessageToken): ServiceErrorRow {
  return ROWS_BY_TOKEN.get(token)!;
}

const RETRYABLE_STATUSES: ReadonlySet<number> = new Set(
  SERVICE_ERROR_NAMES.map(serviceError)
    .filter(({ isRetryable }) => isRetryable)
    .map(({ status }) => status),
);

/** Whether a client repeats the call, with backoff: 429, 503 and 504 alone. All other statuses are final. */
export function isRetryable(status: number): boolean {
  return RETRYABLE_STATUSES.has(status);
}
