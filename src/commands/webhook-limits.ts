/** What the webhook does not take of a file, whatever its events say: for who sends by HTTP (docs/rules.md, W1). */

import type { Line } from '../cli/input-lines';
import { scanBody } from '../domain/event/body-scan';
import { maxValuesOf } from '../domain/event/request-body';
import { counted } from '../lib/printable';
import { bodyBytes } from '../webhook/client';

/** What a request may hold, unless agreed otherwise. */
export const MAX_EVENTS = 500;
export const MAX_BYTES = 1024 ** 2;
/** JSON values that a request of so many events may be made of. */
export const MAX_VALUES = maxValuesOf(MAX_EVENTS);

const AGREED = 'unless agreed otherwise: the webhook would answer 413';

/** Why an event alone is too much for a request; undefined where it is not. */
export function tooMuchAlone({ bytes }: Line): string | undefined {
  if (bytes === null) return `the event is too large for a request, which has ${MAX_BYTES} bytes at most`;
  const size = bodyBytes(1, bytes.length);
  if (size > MAX_BYTES)
    return `a request with this event has ${size} bytes, and ${MAX_BYTES} at most, ${AGREED}`;
  return scanBody(bytes, MAX_VALUES, 0).type === 'too_many_values'
    ? `the event holds more than ${MAX_VALUES} JSON values, which is the most of a request, ${AGREED}`
    : undefined;
}

/** Why a document is too much for one request; undefined where it is not. */
export function tooMuchTogether(events: number, bytes: number): string | undefined {
  if (events <= MAX_EVENTS && bytes <= MAX_BYTES) return undefined;
  return `as one request the document has ${counted(events, 'event')} and ${bytes} bytes, and ${MAX_EVENTS} events and ${MAX_BYTES} bytes at most, ${AGREED}. promo-intake send divides it`;
}
