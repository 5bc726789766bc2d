/**
 * What a request to the webhook holds: one event, or a batch of them (docs/rules.md, S1). Each event is handed on as the bytes that it came in, so that
 * it is judged as a record with the same bytes would be.
 *
 * Pure and total: any bytes get an answer. Cost is linear in their number.
 */
import { isUtf8 } from 'node:buffer';
import type { JsonText } from './payload';

export type RequestBody =
  | { readonly type: 'events'; readonly events: readonly JsonText[] }
  /** Neither an event nor a batch, and why. */
  | { readonly type: 'malformed'; readonly isJson: boolean; readonly problem: string };

/** Reads the body of a request. Of equal keys `events` the last wins, as everywhere (V3). */
export function readBody(bytes: Buffer): RequestBody {
  const parsed = parse(bytes);
  if (parsed === undefined)
    return { type: 'malformed', isJson: false, problem: 'the body is not JSON in UTF-8' };
  const { value } = parsed;
  if (Array.isArray(value))
    return notABatch('the body is an array; put it into an object: {"events": [...]}');
  if (typeof value !== 'object' || value === null) return notABatch('the body is not an object');
  if (!Object.hasOwn(value, 'events')) return { type: 'events', events: [{ type: 'json', bytes }] };
  if (!Array.isArray(Reflect.get(value, 'events'))) return notABatch('events is not an array');
  return { type: 'events', events: eventsIn(bytes) };
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

const QUOTE = 0x22;
const COMMA = 0x2c;
const COLON = 0x3a;
const BACKSLASH = 0x5c;
const CLOSE_ARRAY = 0x5d;
const CLOSE_OBJECT = 0x7d;

/** The events of a body that is known to be an object with an array `events`: nothing is checked again. */
function eventsIn(bytes: Buffer): JsonText[] {
  const walk = new Walk(bytes);
  let arrayAt = 0;
  walk.at = walk.space(0) + 1;
  for (;;) {
    const from = walk.space(walk.at);
    if (bytes[from] === CLOSE_OBJECT) break;
    const to = walk.value(from);
    const key: unknown = JSON.parse(bytes.toString('utf8', from, to));
    const valueAt = walk.space(walk.space(to) + 1);
    if (key === 'events') arrayAt = valueAt;
    walk.next(walk.value(valueAt));
  }
  const events: JsonText[] = [];
  walk.at = arrayAt + 1;
  for (;;) {
    const from = walk.space(walk.at);
    if (bytes[from] === CLOSE_ARRAY) return events;
    const to = walk.value(from);
    events.push({ type: 'json', bytes, from, to });
    walk.next(to);
  }
}

/** Walks over a text that is known to be JSON. */
class Walk {
  /** What comes next: the first member of what was opened last, or the next one. */
  at = 0;

  constructor(private readonly bytes: Buffer) {}

  /** Passes over the comma after a member, where there is one. */
  next(end: number): void {
    const at = this.space(end);
    this.at = this.bytes[at] === COMMA ? at + 1 : at;
  }

  /** The first place from here on that is no white space. */
  space(from: number): number {
    let at = from;
    while (isSpace(this.bytes[at])) at++;
    return at;
  }

  /** The end of the value that begins here. */
  value(from: number): number {
    const { bytes } = this;
    let depth = 0;
    let at = from;
    do {
      const byte = bytes[at];
      if (byte === undefined) throw new RangeError('a text was walked over that is not JSON');
      if (byte === QUOTE) at = this.text(at);
      else if (isOpening(byte)) {
        depth++;
        at++;
      } else if (isClosing(byte)) {
        depth--;
        at++;
      } else if (byte === COMMA || byte === COLON || isSpace(byte)) at++;
      else at = this.literal(at);
    } while (depth > 0);
    return at;
  }

  /** The end of the text that begins with the quote here. */
  private text(from: number): number {
    const { bytes } = this;
    let at = from + 1;
    while (bytes[at] !== QUOTE) {
      if (at >= bytes.length) throw new RangeError('a text was walked over that is not JSON');
      at += bytes[at] === BACKSLASH ? 2 : 1;
    }
    return at + 1;
  }

  /** The end of a number, or of true, false or null. */
  private literal(from: number): number {
    let at = from;
    for (let byte = this.bytes[at]; byte !== undefined && isOfLiteral(byte); byte = this.bytes[at]) at++;
    return at;
  }
}

function isSpace(byte: number | undefined): boolean {
  return byte === 0x20 || byte === 0x0a || byte === 0x0d || byte === 0x09;
}

/** Of an array or an object: the two differ in one bit. */
function isOpening(byte: number): boolean {
  return (byte | 0x20) === 0x7b;
}

function isClosing(byte: number): boolean {
  return (byte | 0x20) === CLOSE_OBJECT;
}

function isOfLiteral(byte: number): boolean {
  return byte !== COMMA && byte !== COLON && !isClosing(byte) && !isSpace(byte);
}
