/**
 * From a payload to an object with an event_id (docs/rules.md, V3), or why there is none.
 *
 * Pure and total: any bytes get an answer. Cost is linear in the payload's size.
 */
import { isUtf8 } from 'node:buffer';
import type { Fault, Json } from './event';
import { describeEventId, describeNoObject } from './fault-words';
import { BACKSLASH, COMMA, isOpening, QUOTE } from './json-spans';
import { whyUnreadable } from './unreadable';

/** A JSON text: bytes, or those from `from` up to `to`, so that an event among others needs no Buffer of its own. */
export interface JsonText {
  readonly type: 'json';
  /** Null for a record without a value. */
  readonly bytes: Buffer | null;
  readonly from?: number;
  readonly to?: number;
}

/** What a transport hands over: a JSON text, a value decoded from another format, or something that could not be decoded. */
export type Payload =
  | JsonText
  | { readonly type: 'value'; readonly value: unknown }
  | { readonly type: 'not_json'; readonly because?: string };

/** Values that a payload may be made of (V3): two bytes may stand for one that takes a hundred in memory. */
export const MAX_PARTS = 1_000_000;

const noEvent = (detail: string, field = ''): Fault => ({ reason: 'no_idempotency_key', field, detail });

/** The object and its event_id, or why there is no usable one. */
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
 * Whether a JSON text is made of more values than are read. A value has a comma before it, or what opens its array or object; what stands in
 * texts does not count.
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

/** What is known of an object's texts: in JSON that is valid UTF-8 and escapes nothing, none holds what cannot be stored. */
export type Texts = 'storable' | 'any';

/** Whether Postgres can hold the text: no U+0000, and UTF-16 that has a UTF-8 form. */
export function isStorable(text: string, texts: Texts): boolean {
  return texts === 'storable' || (text.isWellFormed() && !text.includes('\0'));
}
