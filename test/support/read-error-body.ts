/** Reads the body of an error as a client of the service does, and finds its row of the contract. */
import type { ErrorBody } from '../../src/contract/error-body';
import { isErrorCode } from '../../src/contract/error-codes';
import { SERVICE_ERROR_NAMES, type ServiceErrorName, serviceError } from '../../src/contract/service-errors';
import { isObject, parseJson } from '../../src/lib/json';

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
