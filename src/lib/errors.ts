/** What is thrown may be anything; these make the best of it. */
import { types } from 'node:util';

/** What an error says, for a line of the log. */
export function messageOf(error: unknown): string {
  if (!(error instanceof Error)) return String(error);
  // Where a name has several addresses and none of them answers, Node's error has a code alone.
  return error.message === '' && 'code' in error ? String(error.code) : error.message;
}

/** The error itself, or one that says what was thrown instead. */
export function asError(thrown: unknown): Error {
  return thrown instanceof Error ? thrown : new Error(String(thrown));
}

/** What kept `fetch` from an answer. It says no more than "fetch failed"; what it means is in the cause. */
export function fetchProblem(error: unknown): string {
  const cause = causeOf(error);
  const told = [cause?.message, cause?.code].find((text) => typeof text === 'string' && text !== '');
  if (typeof told === 'string') return told;
  return types.isNativeError(error) ? error.message : 'failed';
}

/** What an error came from, as far as that is an object. */
export function causeOf(error: unknown): { readonly message?: unknown; readonly code?: unknown } | undefined {
  const cause = types.isNativeError(error) ? error.cause : undefined;
  return typeof cause === 'object' && cause !== null ? cause : undefined;
}
