/** What is thrown may be anything; these make the best of it. */

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
