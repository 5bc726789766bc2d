/**
 * Reads the events of a request to the webhook: one event, or a batch of them (docs/rules.md, S1). Each event
 * is passed on as the bytes that came, so it is judged like a record with the same bytes.
 *
 * Pure and total: every sequence of bytes gets an answer. The cost is linear in their number.
 */
import { isUtf8 } from 'node:buffer';
import { scanBody } from './body-scan';
import type { JsonText } from './payload';
import { whyUnreadable } from './unreadable';

export type RequestBody =
  | {
      readonly type: 'events';
      readonly events: readonly JsonText[];
      readonly bytes: number;
      /** The number of JSON values of the whole body. */
      readonly values: number;
    }
  | { readonly type: 'too_many' }
  | { readonly type: 'too_many_values' }
  /** The body is neither an event nor a batch; `problem` explains why. */
  | { readonly type: 'malformed'; readonly isJson: boolean; readonly problem: string };

export interface BodyLimits {
  readonly maxEvents: number;
  readonly maxValues: number;
}

/**
 * The JSON values of a usual event with some more fields. Each value costs a hundred bytes of memory and some
 * microseconds.
 */
const VALUES_AN_EVENT = 40;
const LEAST_VALUES = 20_000;

/** The most JSON values that a request may hold, given the most events that it may hold. */
export function maxValuesOf(maxEvents: number): number {
  return Math.max(LEAST_VALUES, VALUES_AN_EVENT * maxEvents);
}

/**
 * The JSON values that an event adds to a batch: its own, and one for the comma before it.
 * @param json a JSON text in UTF-8
 */
export function valuesOf(json: Buffer): number {
  const scan = scanBody(json, Number.POSITIVE_INFINITY, 0);
  return scan.type === 'json' ? scan.values + 1 : 1;
}

const BEGIN = Buffer.from('{"events":[');
const COMMA = Buffer.from(',');
const END = Buffer.from(']}');

/** The body of a request with these events. */
export function bodyOf(events: readonly Buffer[]): Buffer {
  const members = events.flatMap((event, index) => (index === 0 ? [event] : [COMMA, event]));
  return Buffer.concat([BEGIN, ...members, END]);
}

/** The size of a body with so many events of `bytes` bytes in all. */
export const bodyBytes = (events: number, bytes: number): number =>
  BEGIN.length + END.length + bytes + Math.max(0, events - 1);

/** Reads the body of a request. The last of equal keys `events` wins, as in every event (V3). */
export function readBody(bytes: Buffer, { maxEvents, maxValues }: BodyLimits): RequestBody {
  if (!isUtf8(bytes)) return notJson(bytes);
  const scan = scanBody(bytes, maxValues, maxEvents);
  // A body with a byte order mark is no JSON.
  if (scan.type === 'invalid') return notJson(bytes);
  if (scan.type === 'too_many_values') return scan;
  const { root, events, eventCount, values } = scan;
  if (root === 'array') return notABatch('the body is an array; send it inside an object: {"events": [...]}');
  if (root === 'scalar') return notABatch('the body is not an object');
  const size = bytes.length;
  if (events === null) return { type: 'events', events: [{ type: 'json', bytes }], bytes: size, values };
  if (events === 'no_array') return notABatch('events is not an array');
  if (eventCount > maxEvents) return { type: 'too_many' };
  return {
    type: 'events',
    events: events.map(({ start, end }) => ({ type: 'json', bytes, from: start, to: end })),
    bytes: size,
    values,
  };
}

function notJson(bytes: Buffer): RequestBody {
  return { type: 'malformed', isJson: false, problem: `the body ${whyUnreadable(bytes)}` };
}

function notABatch(problem: string): RequestBody {
  return { type: 'malformed', isJson: true, problem };
}
