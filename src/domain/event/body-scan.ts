/**
 * Reads the body of a request to the webhook in one pass. It checks that the body is JSON, counts its values,
 * and finds the events of a batch. It builds no values, so a body of many small values costs no more than its
 * bytes.
 *
 * Pure and total: every sequence of bytes gets an answer. The cost is linear in their number, and the pass
 * ends at the limit of values.
 */
import { BACKSLASH, COMMA, isOpening, QUOTE, type Span } from './json-spans';

/** The content of a body. */
export type BodyScan =
  /**
   * The body is no JSON text. `at` is the first byte that cannot be part of one. Where the body ends too
   * early, `at` is its length.
   */
  | { readonly type: 'invalid'; readonly at: number }
  | { readonly type: 'too_many_values' }
  | {
      readonly type: 'json';
      readonly root: 'object' | 'array' | 'scalar';
      /**
       * The value of the key `events`: the members of an array, or `no_array` for any other value. Null
       * without such a key.
       */
      readonly events: readonly Span[] | 'no_array' | null;
      /** The number of members of that array, including those beyond `maxEvents`, which have no span. */
      readonly eventCount: number;
      /**
       * The number of values of the whole text. A comma precedes each value, or the value opens an array or
       * an object.
       */
      readonly values: number;
    };

const SPACE = 0x20;
const TAB = 0x09;
const NEWLINE = 0x0a;
const RETURN = 0x0d;
const OPEN_OBJECT = 0x7b;
const OPEN_ARRAY = 0x5b;
/** A closing bracket has the code of its opening one, plus this. */
const TO_CLOSING = 2;
const COLON = 0x3a;
const MINUS = 0x2d;
const PLUS = 0x2b;
const DOT = 0x2e;
const ZERO = 0x30;
const NINE = 0x39;
const LETTER_E = 0x45;
const LETTER_U = 0x75;
const LOWER_CASE = 0x20;
const EVENTS = 'events';
/** The sender may write each character as \uXXXX, between quotes. A longer key is a different key. */
const LONGEST_EVENTS_KEY = EVENTS.length * 6 + 2;
const LITERALS = ['true', 'false', 'null'].map((text) => Buffer.from(text));
const ESCAPES: ReadonlySet<number> = new Set(Buffer.from('"\\/bfnrt'));

/** @param bytes valid UTF-8 */
export function scanBody(bytes: Buffer, maxValues: number, maxEvents: number): BodyScan {
  return new Scan(bytes, maxValues, maxEvents).run();
}

class Scan {
  private at = 0;
  private values = 0;
  /** The opening bracket of each array and object around `at`. */
  private readonly open: number[] = [];
  private events: Span[] | 'no_array' | null = null;
  private eventCount = 0;
  /** Whether the members at depth 2 belong to `events`, and the start of the current one. */
  private isInEvents = false;
  private memberStart = 0;

  constructor(
    private readonly bytes: Buffer,
    private readonly maxValues: number,
    private readonly maxEvents: number,
  ) {}

  run(): BodyScan {
    this.skipBlanks();
    const first = this.bytes[this.at];
    for (;;) {
      if (this.isInEvents && this.open.length === 2) this.memberStart = this.at;
      const opened = this.open.length;
      if (!this.value()) return this.invalid();
      if (this.values > this.maxValues) return { type: 'too_many_values' };
      if (this.open.length > opened) continue;
      // A value is complete. Each closing bracket after it completes a further one.
      for (;;) {
        if (this.isInEvents && this.open.length === 2) this.addEvent();
        this.skipBlanks();
        const top = this.open.at(-1);
        if (top === undefined) {
          if (this.at < this.bytes.length) return this.invalid();
          const root = first === OPEN_OBJECT ? 'object' : first === OPEN_ARRAY ? 'array' : 'scalar';
          const { events, eventCount, values } = this;
          return { type: 'json', root, events, eventCount, values };
        }
        if (this.bytes[this.at] === COMMA) {
          if (++this.values > this.maxValues) return { type: 'too_many_values' };
          this.at++;
          this.skipBlanks();
          if (top === OPEN_OBJECT && !this.key()) return this.invalid();
          break;
        }
        if (this.bytes[this.at] !== top + TO_CLOSING) return this.invalid();
        this.at++;
        this.close();
      }
    }
  }

  private invalid(): BodyScan {
    return { type: 'invalid', at: Math.min(this.at, this.bytes.length) };
  }

  private skipBlanks(): void {
    for (;;) {
      const byte = this.bytes[this.at];
      if (byte !== SPACE && byte !== NEWLINE && byte !== RETURN && byte !== TAB) return;
      this.at++;
    }
  }

  /**
   * Passes a text, a number, a literal, an empty array or object, or the opening of a non-empty one.
   * @returns whether the bytes are one of these
   */
  private value(): boolean {
    const byte = this.bytes[this.at];
    if (byte === QUOTE) return this.text();
    if (byte === undefined) return false;
    if (!isOpening(byte)) return byte === MINUS || isDigit(byte) ? this.number() : this.literal();
    this.values++;
    this.open.push(byte);
    this.at++;
    this.skipBlanks();
    if (this.bytes[this.at] !== byte + TO_CLOSING) return byte === OPEN_ARRAY || this.key();
    this.at++;
    this.close();
    return true;
  }

  private close(): void {
    this.open.pop();
    if (this.open.length === 1) this.isInEvents = false;
  }

  /** Passes a key and its colon. */
  private key(): boolean {
    const start = this.at;
    if (this.bytes[start] !== QUOTE || !this.text()) return false;
    const end = this.at;
    this.skipBlanks();
    if (this.bytes[this.at] !== COLON) return false;
    this.at++;
    this.skipBlanks();
    if (this.open.length === 1 && this.isEventsKey(start, end)) {
      // The last of equal keys wins, as in JSON.parse.
      this.isInEvents = this.bytes[this.at] === OPEN_ARRAY;
      this.events = this.isInEvents ? [] : 'no_array';
      this.eventCount = 0;
    }
    return true;
  }

  private isEventsKey(start: number, end: number): boolean {
    if (end - start > LONGEST_EVENTS_KEY) return false;
    const written = this.bytes.toString('latin1', start, end);
    if (!written.includes('\\')) return written === `"${EVENTS}"`;
    const key: unknown = JSON.parse(written);
    return key === EVENTS;
  }

  private addEvent(): void {
    this.eventCount++;
    if (Array.isArray(this.events) && this.eventCount <= this.maxEvents)
      this.events.push({ start: this.memberStart, end: this.at });
  }

  private text(): boolean {
    const { bytes } = this;
    let at = this.at + 1;
    for (;;) {
      const byte = bytes[at] ?? 0;
      if (byte === QUOTE) break;
      if (byte === BACKSLASH) {
        const escaped = bytes[at + 1] ?? 0;
        if (ESCAPES.has(escaped)) at += 2;
        else if (escaped === LETTER_U && areHexDigits(bytes, at + 2)) at += 6;
        else {
          this.at = at + 1;
          return false;
        }
      } else if (byte < SPACE) {
        this.at = at;
        return false;
      } else at++;
    }
    this.at = at + 1;
    return true;
  }

  private number(): boolean {
    const { bytes } = this;
    if (bytes[this.at] === MINUS) this.at++;
    if (bytes[this.at] === ZERO) this.at++;
    else if (!this.digits()) return false;
    if (bytes[this.at] === DOT) {
      this.at++;
      if (!this.digits()) return false;
    }
    if (((bytes[this.at] ?? 0) & ~LOWER_CASE) === LETTER_E) {
      this.at++;
      const sign = bytes[this.at];
      if (sign === PLUS || sign === MINUS) this.at++;
      if (!this.digits()) return false;
    }
    return true;
  }

  /**
   * Passes digits.
   * @returns whether there is at least one
   */
  private digits(): boolean {
    const start = this.at;
    while (isDigit(this.bytes[this.at] ?? 0)) this.at++;
    return this.at > start;
  }

  private literal(): boolean {
    const { bytes, at } = this;
    const literal = LITERALS.find((each) => each[0] === bytes[at]);
    if (literal === undefined) return false;
    for (const byte of literal) {
      if (bytes[this.at] !== byte) return false;
      this.at++;
    }
    return true;
  }
}

function isDigit(byte: number): boolean {
  return byte >= ZERO && byte <= NINE;
}

function areHexDigits(bytes: Buffer, start: number): boolean {
  for (let at = start; at < start + 4; at++) {
    const byte = bytes[at] ?? 0;
    const letter = byte | LOWER_CASE;
    if (!isDigit(byte) && (letter < 0x61 || letter > 0x66)) return false;
  }
  return true;
}
