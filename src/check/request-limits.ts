/** The webhook's size limits, so that `check` warns users who send a file over HTTP (docs/rules.md, W1). */

import { scanBody } from '../domain/event/body-scan';
import { bodyBytes, maxValuesOf } from '../domain/event/request-body';
import { counted } from '../lib/printable';
import type { Line } from './lines';

/** The limits of a request, unless agreed otherwise. */
export const MAX_EVENTS = 500;
export const MAX_BYTES = 1024 ** 2;
/** The most JSON values of a request with MAX_EVENTS events. */
export const MAX_VALUES = maxValuesOf(MAX_EVENTS);

const AGREED = 'unless agreed otherwise: the webhook would answer 413';

/** Why a single event exceeds the limits of a request; undefined if it does not. */
export function tooMuchAlone({ bytes }: Line): string | undefined {
  if (bytes === null) return `the event is too large for a request of at most ${MAX_BYTES} bytes`;
  const size = bodyBytes(1, bytes.length);
  if (size > MAX_BYTES)
    return `a request with this event has ${size} bytes, more than the limit of ${MAX_BYTES}, ${AGREED}`;
  return scanBody(bytes, MAX_VALUES, 0).type === 'too_many_values'
    ? `the event has more than ${MAX_VALUES} JSON values, the limit of a request, ${AGREED}`
    : undefined;
}

/** Why a document exceeds the limits of one request; undefined if it does not. */
export function tooMuchTogether(events: number, bytes: number): string | undefined {
  if (events <= MAX_EVENTS && bytes <= MAX_BYTES) return undefined;
  return `as one request, the document has ${counted(events, 'event')} and ${bytes} bytes; the limits are ${MAX_EVENTS} events and ${MAX_BYTES} bytes, ${AGREED}. promo-intake send divides it`;
}
