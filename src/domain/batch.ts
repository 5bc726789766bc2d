/**
 * What a request to the webhook holds: one event, or a batch of them (docs/rules.md, S1). Each event is handed on as the bytes that it came in, so that
 * it is judged as a record with the same bytes would be.
 *
 * Pure and total: any bytes get an answer. Cost is linear in their number.
 */
import { isUtf8 } from 'node:buffer';
import { lastArrayOf, membersOf } from './json-text';
import { hasTooManyParts, type JsonText, MAX_PARTS } from './payload';
import { whyUnreadable } from './unreadable';

export type RequestBody =
  | { readonly type: 'events'; readonly events: readonly JsonText[]; readonly bytes: number }
  | { readonly type: 'too_many' }
  /** Neither an event nor a batch, and why. */
  | { readonly type: 'malformed'; readonly isJson: boolean; readonly problem: string };

/** Reads the body of a request. Of equal keys `events` the last wins, as everywhere (V3). */
export function readBody(bytes: Buffer, maxEvents: number): RequestBody {
  if (hasTooManyParts(bytes)) return notABatch(`the body holds more than ${MAX_PARTS} values`);
  const parsed = parse(bytes);
  if (parsed === undefined)
    return { type: 'malformed', isJson: false, problem: `the body ${whyUnreadable(bytes)}` };
  const { value } = parsed;
  if (Array.isArray(value))
    return notABatch('the body is an array; put it into an object: {"events": [...]}');
  if (typeof value !== 'object' || value === null) return notABatch('the body is not an object');
  const size = bytes.length;
  if (!Object.hasOwn(value, 'events'))
    return { type: 'events', events: [{ type: 'json', bytes }], bytes: size };
  const events: unknown = Reflect.get(value, 'events');
  if (!Array.isArray(events)) return notABatch('events is not an array');
  if (events.length > maxEvents) return { type: 'too_many' };
  const spans = membersOf(bytes, lastArrayOf(bytes, bytes.indexOf('{'), 'events'));
  return {
    type: 'events',
    events: spans.map(({ start, end }) => ({ type: 'json', bytes, from: start, to: end })),
    bytes: size,
  };
}

function notABatch(problem: string): RequestBody {
  return { type: 'malformed', isJson: true, problem };
}

/** Undefined where it is no JSON. A byte order mark makes it so. */
function parse(bytes: Buffer): { value: unknown } | undefined {
  if (!isUtf8(bytes)) return undefined;
  try {
    return { value: JSON.parse(bytes.toString('utf8')) };
  } catch {
    return undefined;
  }
}
