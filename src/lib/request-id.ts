import { randomUUID } from 'node:crypto';

const REQUEST_ID = /^[\w.:@+/=-]{1,128}$/;

/** The sender's own request id if it is fit to be logged, else a new id. */
export function requestIdOf({
  headers,
}: {
  readonly headers: Readonly<Record<string, string | readonly string[] | undefined>>;
}): string {
  const given = headers['x-request-id'];
  return typeof given === 'string' && REQUEST_ID.test(given) ? given : randomUUID();
}
