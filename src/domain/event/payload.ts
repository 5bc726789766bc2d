/**
 * Turns a payload into an object with an event_id (docs/rules.md, V3), or into the reason why there is none.
 *
 * Pure and total: every sequence of bytes gets an answer. The cost is linear in the payload's size.
 */
import { isUtf8 } from 'node:buffer';
import type { Fault, Json } from './event';
import { describeEventId, describeNoObject } from './fault-words';
import { BACKSLASH, COMMA, isOpening, QUOTE } from './json-spans';
import { whyUnreadable } from './unreadable';

/**
 * A JSON text: the whole of `bytes`, or the part from `from` up to `to`. So an event of a batch needs no
 * Buffer of its own.
 */
export interface JsonText {
  readonly type: 'json';
  /** Null for a record without a value. */
  readonly bytes: Buffer | null;
  readonly from?: number;
  readonly to?: number;
}

/**
 * The payload that a transport passes on: a JSON text, a value decoded from another format, or an undecodable
 * payload.
 */
export type Payload =
  | JsonText
  | { readonly type: 'value'; readonly value: unknown }
  | { readonly type: 'not_json'; readonly because?: string };

/**
 * The most values that a payload may hold (V3). Two bytes of JSON can become a value that takes a hundred
 * bytes of memory.
 */
export const MAX_PARTS = 1_000_000;

const noEvent = (detail: string, field = ''): Fault => ({ reason: 'no_idempotency_key', field, detail });

/** Reads the object and its event_id, or the fault that explains why there is no usable event_id. */
export function readEventId(payload: Payload): { json: Json; eventId: string; texts: Texts } | Fault {
  const event = readObject(payload);
  if ('reason' in event) return event;
  const { json, texts } = event;
  const eventId = json.event_id;
  if (typeof eventId === 'string' && eventId !== '' && isStorable(eventId, texts))
    return { json, eventId, texts };
  return noEvent(describeEventId(json), '/event_id');
}

function readObject(payload: Payload): { json: Json; texts: Texts } | Fault {
  const parsed = parse(payload);
  if ('reason' in parsed) return parsed;
  const { value, texts } = parsed;
  if (typeof value !== 'object' || value === null || Array.isArray(value))
    return noEvent(describeNoObject(value));
  return { json: value as Json, texts };
}

function parse(payload: Payload): { value: unknown; texts: Texts } | Fault {
  if (payload.type === 'value') return { value: payload.value, texts: 'any' };
  if (payload.type === 'not_json') return noEvent(payload.because ?? 'the payload cannot be decoded');
  const bytes = payload.bytes?.subarray(payload.from, payload.to);
  if (bytes === undefined) return noEvent('the record has no value (a tombstone)');
  if (!isUtf8(bytes)) return noEvent(`the payload ${whyUnreadable(bytes)}`);
  if (hasTooManyParts(bytes)) return noEvent(`the payload holds more than ${MAX_PARTS} values`);
  const text = bytes.toString('utf8');
  try {
    return { value: JSON.parse(text), texts: text.includes('\\') ? 'any' : 'storable' };
  } catch {
    return noEvent(`the payload ${whyUnreadable(bytes)}`);
  }
}

/**
 * Whether a JSON text holds more values than `MAX_PARTS`. Each value follows a comma or the opening of its
 * array or object, so these bytes are counted. Those inside texts are not.
 */
export function hasTooManyParts(json: Buffer): boolean {
  if (json.length <= MAX_PARTS) return false;
  let parts = 0;
  let inText = false;
  for (let at = 0; at < json.length; at++) {
    const byte = json[at];
    if (byte === QUOTE) inText = !inText;
    else if (byte === BACKSLASH) at++;
    else if (!inText && (byte === COMMA || isOpening(byte))) parts++;
  }
  return parts > MAX_PARTS;
}

/**
 * Whether every text of an object is known to be storable. The texts of valid UTF-8 JSON without escapes are.
 */
export type Texts = 'storable' | 'any';

/** Whether Postgres can hold the text: it has no U+0000, and its UTF-16 has a UTF-8 form. */
export function isStorable(text: string, texts: Texts): boolean {
  return texts === 'storable' || (text.isWellFormed() && !text.includes('\0'));
}
