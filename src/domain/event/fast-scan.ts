/**
 * The fast way from bytes to fields, for events in their usual form. The usual form is one flat JSON object
 * in ASCII, without escapes, whose fields all belong to the schema and are all valid.
 *
 * This scan may only accept. Every other event, valid or not, goes to the parser and the schema (judge.ts).
 * An accepted event has the same fields there: test/fuzz/fast-scan.test.ts compares the two.
 */
import {
  type Fields,
  hasMoney,
  isRoundKind,
  KINDS,
  type Kind,
  MAX_NAME_BYTES,
  SPEC as SPEC_NAME,
} from './event';
import { type Currency, currencyOf, EXACT_DOUBLE_DIGITS } from './money';
import { scanInstant } from './timestamp';

/** An event that the schema accepts. */
export interface Scanned {
  readonly eventId: string;
  /** The brand that the event names; undefined where it names none. */
  readonly brand: string | undefined;
  readonly hasGame: boolean;
  readonly fields: Fields;
}

const SPACE = 0x20;
const QUOTE = 0x22;
const COMMA = 0x2c;
const DOT = 0x2e;
const ZERO = 0x30;
const COLON = 0x3a;
const BACKSLASH = 0x5c;
const OPEN = 0x7b;
const CLOSE = 0x7d;
const TILDE = 0x7e;

const POWERS = Array.from({ length: EXACT_DOUBLE_DIGITS + 1 }, (_, exponent) => 10 ** exponent);

/** A field's name with its closing quote, and its bit in the set of seen fields. */
function field(name: string, bit: number) {
  return { bytes: Buffer.from(`${name}"`), bit };
}
const SPEC = field('spec', 1);
const EVENT_ID = field('event_id', 2);
const KIND = field('kind', 4);
const PLAYER_REF = field('player_ref', 8);
const OCCURRED_AT = field('occurred_at', 16);
const BRAND = field('brand', 32);
const ROUND_ID = field('round_id', 64);
const GAME = field('game', 128);
const AMOUNT = field('amount', 256);
const CURRENCY = field('currency', 512);
const ID = field('id', 0);

const REQUIRED = SPEC.bit | EVENT_ID.bit | KIND.bit | PLAYER_REF.bit | OCCURRED_AT.bit;
const MONEY = AMOUNT.bit | CURRENCY.bit;

const SPEC_VALUE = Buffer.from(SPEC_NAME);
const RULES = new Map<string, { kind: Kind; needs: number }>(
  KINDS.map((kind) => {
    const needs = REQUIRED | (hasMoney(kind) ? MONEY : 0) | (isRoundKind(kind) ? ROUND_ID.bit : 0);
    return [kind, { kind, needs }];
  }),
);

/**
 * Texts that were read before. A text's length and last two bytes choose its place; the next text with the
 * same place replaces it.
 */
const CACHE_SIZE = 509;
const MAX_CACHED = 40;
const cache = new Array<string>(CACHE_SIZE).fill('');

/**
 * Reads the event between two positions of the bytes.
 *
 * @param onlyBrand the brand that the connection supplies where the event names none
 * @returns undefined where the event is not in its usual form
 */
export function scan(
  bytes: Buffer,
  onlyBrand: string | null = null,
  from = 0,
  to = bytes.length,
): Scanned | undefined {
  scanner.begin(bytes, from, to);
  return scanner.object() ? scanner.event(onlyBrand) : undefined;
}

const NO_BYTES = Buffer.alloc(0);

class Scanner {
  private bytes: Buffer = NO_BYTES;
  private position = 0;
  /**
   * The end of the event; another event may follow. Texts and spaces stop here. The check at the end of the
   * object finds any other read beyond it.
   */
  private limit = 0;
  /** The start of the text that was read last. */
  private start = 0;
  private end = 0;
  /** The bits of the fields that were read. */
  private seen = 0;
  private eventId = '';
  private kind = '';
  private brand: string | undefined;
  private playerRef = '';
  private roundId: string | null = null;
  private gameId: string | null = null;
  private currencyCode = '';
  /** NaN where the time is invalid, or valid in another than its plainest form. */
  private occurredAtMicros = 0;
  /** The start of the amount. It is converted at the end, since its conversion depends on the currency. */
  private amountStart = 0;
  private amountEnd = 0;

  begin(bytes: Buffer, from: number, to: number): void {
    this.bytes = bytes;
    this.position = from;
    this.limit = to;
    this.seen = 0;
    // An event may lack these two fields. It is accepted only with every other field that its kind reads.
    this.brand = undefined;
    this.gameId = null;
  }

  /**
   * Reads the object, from the first byte to the last.
   * @returns whether it holds fields of the schema only, each once
   */
  object(): boolean {
    if (!this.take(OPEN)) return false;
    do {
      this.skipSpaces();
      const found = this.name();
      if (found === undefined || (this.seen & found.bit) !== 0) return false;
      this.seen |= found.bit;
      this.skipSpaces();
      if (!(found === GAME ? this.game() : this.text() && this.keep(found))) return false;
      this.skipSpaces();
    } while (this.take(COMMA));
    return this.take(CLOSE) && this.position === this.limit;
  }

  /** Returns the event if every field that its kind needs is present and valid. */
  event(onlyBrand: string | null): Scanned | undefined {
    const { seen, eventId, brand, playerRef, roundId } = this;
    const rules = RULES.get(this.kind);
    if (rules === undefined || (seen & rules.needs) !== rules.needs) return undefined;
    const isRound = isRoundKind(rules.kind);
    // Every character is one byte here.
    if (eventId === '' || playerRef === '' || playerRef.length > MAX_NAME_BYTES) return undefined;
    if (brand !== undefined && brand.length > MAX_NAME_BYTES) return undefined;
    if (Number.isNaN(this.occurredAtMicros) || (isRound && roundId === '')) return undefined;
    let currency: Currency | null = null;
    let amountMinor: bigint | null = null;
    if (hasMoney(rules.kind)) {
      currency = currencyOf(this.currencyCode) ?? null;
      const minor = currency === null ? -1 : this.minor(this.amountStart, this.amountEnd, currency.scale);
      if (minor < 0) return undefined;
      amountMinor = BigInt(minor);
    }
    const fields: Fields = {
      kind: rules.kind,
      brand: brand ?? onlyBrand,
      playerRef,
      roundId: isRound ? roundId : null,
      gameId: isRound ? this.gameId : null,
      amountMinor,
      currency,
      occurredAtMicros: BigInt(this.occurredAtMicros),
    };
    return { eventId, brand, hasGame: (seen & GAME.bit) !== 0, fields };
  }

  /**
   * Keeps the text that was read last as the value of a field.
   * @returns false where no event can have this value
   */
  private keep(found: ReturnType<typeof field>): boolean {
    switch (found) {
      case SPEC:
        return this.holds(SPEC_VALUE);
      case EVENT_ID:
        this.eventId = this.lastText();
        break;
      case KIND:
        this.kind = this.cachedText();
        break;
      case PLAYER_REF:
        this.playerRef = this.cachedText();
        break;
      case BRAND:
        this.brand = this.cachedText();
        break;
      case ROUND_ID:
        this.roundId = this.cachedText();
        break;
      case CURRENCY:
        this.currencyCode = this.cachedText();
        break;
      case AMOUNT:
        this.amountStart = this.start;
        this.amountEnd = this.end;
        break;
      case OCCURRED_AT:
        this.occurredAtMicros = scanInstant(this.bytes, this.start, this.end);
        break;
    }
    return true;
  }

  private take(byte: number): boolean {
    if (this.bytes[this.position] !== byte) return false;
    this.position++;
    return true;
  }

  private skipSpaces(): void {
    while (this.position < this.limit && this.bytes[this.position] === SPACE) this.position++;
  }

  /** Reads the name of a field and the colon after it; undefined for a name that the schema does not have. */
  private name(): ReturnType<typeof field> | undefined {
    if (!this.take(QUOTE)) return undefined;
    const candidate = candidateFor(this.bytes[this.position]);
    return candidate !== undefined && this.isNamed(candidate) ? candidate : undefined;
  }

  private isNamed({ bytes: name }: ReturnType<typeof field>): boolean {
    for (let i = 0; i < name.length; i++) if (this.bytes[this.position + i] !== name[i]) return false;
    this.position += name.length;
    this.skipSpaces();
    return this.take(COLON);
  }

  /** Reads a text of printable ASCII without escapes. */
  private text(): boolean {
    if (!this.take(QUOTE)) return false;
    const { bytes, limit } = this;
    for (let at = this.position; at < limit; at++) {
      const byte = bytes[at] ?? 0;
      if (byte === QUOTE) {
        this.start = this.position;
        this.end = at;
        this.position = at + 1;
        return true;
      }
      if (byte < SPACE || byte > TILDE || byte === BACKSLASH) return false;
    }
    return false;
  }

  private lastText(): string {
    return this.bytes.latin1Slice(this.start, this.end);
  }

  /**
   * Like `lastText`, for texts that repeat: returns the cached text if it equals the text that was read last.
   */
  private cachedText(): string {
    const { bytes, start, end } = this;
    const length = end - start;
    if (length === 0 || length > MAX_CACHED) return this.lastText();
    const place = ((bytes[end - 1] ?? 0) * 7 + (bytes[end - 2] ?? 0) * 31 + length) % CACHE_SIZE;
    const cached = cache[place] ?? '';
    let equal = cached.length === length;
    for (let i = 0; equal && i < length; i++) equal = cached.charCodeAt(i) === bytes[start + i];
    if (equal) return cached;
    const text = this.lastText();
    cache[place] = text;
    return text;
  }

  private holds(expected: Buffer): boolean {
    if (this.end - this.start !== expected.length) return false;
    for (let i = 0; i < expected.length; i++) if (this.bytes[this.start + i] !== expected[i]) return false;
    return true;
  }

  /** Reads an object that holds an id and nothing else. */
  private game(): boolean {
    if (!this.take(OPEN)) return false;
    this.skipSpaces();
    if (!this.take(QUOTE) || !this.isNamed(ID)) return false;
    this.skipSpaces();
    if (!this.text()) return false;
    this.gameId = this.cachedText();
    this.skipSpaces();
    return this.take(CLOSE);
  }

  /**
   * Minor units of an amount (M1, M2). -1 where the amount is invalid, or too long to be exact as a double.
   */
  private minor(start: number, end: number, scale: number): number {
    const { bytes } = this;
    let value = 0;
    let decimals = -1;
    for (let at = start; at < end; at++) {
      const byte = bytes[at] ?? 0;
      if (byte === DOT) {
        if (decimals >= 0 || at === start) return -1;
        decimals = 0;
      } else {
        if (byte < ZERO || byte > ZERO + 9) return -1;
        value = value * 10 + byte - ZERO;
        if (decimals >= 0) decimals++;
      }
    }
    if (decimals === 0 || end === start) return -1;
    if (decimals < 0) decimals = 0;
    const wholeEnd = decimals === 0 ? end : end - decimals - 1;
    if (bytes[start] === ZERO && wholeEnd - start > 1) return -1;
    if (decimals > scale || wholeEnd - start + scale > EXACT_DOUBLE_DIGITS) return -1;
    return value * (POWERS[scale - decimals] ?? Number.NaN);
  }
}

/**
 * One scanner for all events. A new one for each event would be a tenth of the garbage that the worker's
 * collector handles.
 */
const scanner = new Scanner();

/** The only field whose name can begin with this character. */
function candidateFor(first: number | undefined): ReturnType<typeof field> | undefined {
  switch (first) {
    case 0x61: // a
      return AMOUNT;
    case 0x62: // b
      return BRAND;
    case 0x63: // c
      return CURRENCY;
    case 0x65: // e
      return EVENT_ID;
    case 0x67: // g
      return GAME;
    case 0x6b: // k
      return KIND;
    case 0x6f: // o
      return OCCURRED_AT;
    case 0x70: // p
      return PLAYER_REF;
    case 0x72: // r
      return ROUND_ID;
    case 0x73: // s
      return SPEC;
    default:
      return undefined;
  }
}
