/** Helpers for thrown values, which may be of any type. */
import { types } from 'node:util';

/** The message of an error, for a line of the log. */
export function messageOf(error: unknown): string {
  if (!(error instanceof Error)) return String(error);
  // Node's error has only a code where a name has several addresses and none of them answers.
  return error.message === '' && 'code' in error ? String(error.code) : error.message;
}

/** The error itself, or an error that describes another thrown value. */
export function asError(thrown: unknown): Error {
  return thrown instanceof Error ? thrown : new Error(String(thrown));
}

/** The problem that kept `fetch` from an answer. Its error only says "fetch failed"; the cause says more. */
export function fetchProblem(error: unknown): string {
  const cause = causeOf(error);
  const problem = [cause?.message, cause?.code].find((text) => typeof text === 'string' && text !== '');
  if (typeof problem === 'string') return problem;
  return types.isNativeError(error) ? error.message : 'failed';
}

/** The cause of an error, where it is an object. */
export function causeOf(error: unknown): { readonly message?: unknown; readonly code?: unknown } | undefined {
  const cause = types.isNativeError(error) ? error.cause : undefined;
  return typeof cause === 'object' && cause !== null ? cause : undefined;
}
