/**
 * The messages about decisions, as bytes. QuickMessage writes the usual ones: an event of short ids without
 * characters that JSON escapes. MessageEncoder writes the others.
 */

import { type Fields, kindCode, NO_FIELDS } from '../domain/event/event';
import { idKey } from '../domain/event/id-key';
import { toMajor } from '../domain/event/money';
import type { Connection } from '../domain/reference';
import type { Reversed } from '../domain/verdict/round';
import { isPartition, type Origin } from '../intake/delivery';
import {
  type EncodedMessage,
  MessageEncoder,
  type OutgoingMessage,
} from '../kafka/protocol/record-batch-writer';
import { ACCEPTED_FIELDS, fields, outcomeFields, VERDICT_SPEC } from './outcome';
import { MAX_TEXT_BYTES, type PublishedAnswer, type RecordKey } from './published-answer';

/** The texts that are the same in all messages about events of a connection. */
interface About {
  /** The connection's fields. */
  readonly fields: string;
  readonly feed: string;
  /** The beginning of a message's key, up to the id. */
  readonly keyBegin: Buffer;
  /** The bytes from behind the id of an accepted event to the time of its decision. */
  readonly timeAt: number;
  /** By brand, kind and currency. */
  readonly middles: Map<string | null, Map<number, Middle>>;
}

/** The text of an accepted event from behind its id to its amount. */
interface Middle {
  readonly bytes: Buffer;
  /** The time of decision that the text has now. */
  time: Buffer;
}

/**
 * The buffers and the texts of connections that the writers of one publisher share. A message is copied into
 * its batch before another one is written, so no two writers need the buffers at a time.
 */
export class SharedBuffers {
  readonly encoder = new MessageEncoder();
  readonly quick = new QuickMessage();
  /** Of the connections of the reference data that is still in use. */
  private readonly connections = new WeakMap<Connection, About>();

  of(connection: Connection): About {
    const known = this.connections.get(connection);
    if (known !== undefined) return known;
    const { operator, feedId, id } = connection;
    const ofConnection = fields({ operator_id: operator.id, feed_id: feedId, connection_id: id });
    const feed = JSON.stringify(feedId);
    const about = {
      fields: ofConnection,
      feed,
      keyBegin: Buffer.from(`[${feed},"`),
      middles: new Map(),
      timeAt: Buffer.byteLength(`",${ofConnection},${ACCEPTED_FIELDS},"decided_at":`),
    };
    this.connections.set(connection, about);
    return about;
  }
}

export class VerdictWriter {
  private readonly encoder: MessageEncoder;
  private readonly quick: QuickMessage;
  /** The text from the source to the offset. */
  private readonly sourceBegin: string;
  private readonly sourceBytes: Buffer;
  private decidedAt: bigint | null = null;
  private decidedText = NO_TIME;
  private decidedBytes: Buffer = Buffer.from(NO_TIME);

  constructor(
    private readonly origin: Origin,
    private readonly shared = new SharedBuffers(),
  ) {
    this.encoder = shared.encoder;
    this.quick = shared.quick;
    this.sourceBegin = isPartition(origin)
      ? `,"source":{${fields({ topic: origin.topic, partition: origin.partition })},"offset":"`
      : ',"source":null}';
    this.sourceBytes = Buffer.from(this.sourceBegin);
  }

  /**
   * The message for an answer for which `hasMessage` holds; null for a dead letter. The key is the feed and
   * the event, so that all messages about one event stay in order.
   */
  encode(answer: PublishedAnswer): EncodedMessage | null {
    const { connection, eventId } = answer;
    const outcome = outcomeFields(answer);
    if (connection === null || outcome === null) return null;
    if (answer.eventKey !== undefined) return this.encodeKeyed(answer);
    const about = this.about(connection, answer.decidedAt ?? null);
    if (answer.reversed === undefined && this.writeQuick(about, outcome, answer)) return this.quick;
    const id = JSON.stringify(eventId);
    return this.encoder.encode({
      key: eventId === null ? null : `[${about.feed},${id}]`,
      value: `${BEGIN}${id},${about.fields},${outcome},${this.eventFields(answer)}${this.source(answer, false)}`,
      headers: NO_HEADERS,
    });
  }

  /** The message with a key of fixed length in place of each id: small, however long the ids are. */
  encodeKeyed(answer: PublishedAnswer): EncodedMessage | null {
    const { connection, eventId } = answer;
    const outcome = outcomeFields(answer);
    const key = answer.eventKey ?? (eventId === null ? undefined : idKey(eventId).toString('hex'));
    if (connection === null || outcome === null || key === undefined) return this.encode(answer);
    const about = this.about(connection, answer.decidedAt ?? null);
    const eventKey = JSON.stringify(key);
    return this.encoder.encode({
      key: `[${about.feed},${eventKey}]`,
      value: `${BEGIN}null,"event_key":${eventKey},${about.fields},${outcome},${this.eventFields(answer)}${this.source(answer, true)}`,
      headers: NO_HEADERS,
    });
  }

  /** @returns false where JSON would escape a text, or the message is long */
  private writeQuick(
    about: About,
    outcome: string,
    { eventId, fields, offset, roundKey, recordKey = null }: PublishedAnswer,
  ): boolean {
    if (
      eventId === null ||
      fields == null ||
      roundKey !== undefined ||
      (recordKey !== null && typeof recordKey !== 'string')
    )
      return false;
    const { amountMinor, currency, roundId } = fields;
    const middle =
      outcome === ACCEPTED_FIELDS ? this.middle(about, fields) : this.middleText(about, outcome, fields);
    const middleBytes = typeof middle === 'string' ? MOST_UTF8_BYTES * middle.length : middle.length;
    const bytes = about.keyBegin.length + middleBytes + this.sourceBytes.length;
    const chars = 2 * eventId.length + (roundId?.length ?? 0) + (recordKey?.length ?? 0);
    if ((roundId?.length ?? 0) > MAX_TEXT_BYTES || !this.quick.hasRoom(bytes + chars)) return false;
    const { quick } = this;
    quick.beginKey(about.keyBegin.length + eventId.length + KEY_END.length);
    quick.bytesOf(about.keyBegin);
    quick.plain(eventId);
    quick.bytesOf(KEY_END);
    quick.beginValue();
    quick.bytesOf(BEGIN_BYTES);
    quick.plain(eventId);
    if (typeof middle === 'string') quick.json(middle);
    else quick.bytesOf(middle);
    if (amountMinor === null || currency === null) quick.bytesOf(NULL);
    else quick.amount(amountMinor, currency.scale);
    quick.bytesOf(ROUND);
    quick.textOrNull(roundId);
    quick.bytesOf(this.sourceBytes);
    if (isPartition(this.origin)) {
      quick.digits(offset);
      quick.bytesOf(RECORD_KEY);
      quick.textOrNull(recordKey);
      quick.bytesOf(END);
    }
    return quick.end();
  }

  /** From behind the id of an event to its amount. */
  private middleText(about: About, outcome: string, { kind, brand, currency }: Fields): string {
    const event = fields(head(kind, brand, currency?.code));
    return `",${about.fields},${outcome},"decided_at":${this.decidedText},${event},"amount":`;
  }

  /** The same for an accepted event. */
  private middle(about: About, of: Fields): Buffer {
    const { kind, brand, currency } = of;
    let ofBrand = about.middles.get(brand);
    if (ofBrand === undefined) {
      ofBrand = new Map();
      about.middles.set(brand, ofBrand);
    }
    const index = (kind === null ? 0 : kindCode(kind)) * MAX_CURRENCIES + (currency?.no ?? 0);
    const { decidedBytes } = this;
    const known = ofBrand.get(index);
    if (known?.time === decidedBytes) return known.bytes;
    if (known !== undefined && known.time.length === decidedBytes.length) {
      known.bytes.set(decidedBytes, about.timeAt);
      known.time = decidedBytes;
      return known.bytes;
    }
    const bytes = Buffer.from(this.middleText(about, ACCEPTED_FIELDS, of));
    ofBrand.set(index, { bytes, time: decidedBytes });
    return bytes;
  }

  /** The fields of the event, and the time of its answer. */
  private eventFields({ fields: read, roundKey, reversed }: PublishedAnswer): string {
    const { kind, brand, amountMinor, currency, roundId } = read ?? NO_FIELDS;
    const isLong = roundId !== null && Buffer.byteLength(roundId) > MAX_TEXT_BYTES;
    const key = isLong ? idKey(roundId).toString('hex') : roundKey;
    const rest = {
      ...head(kind, brand, currency?.code),
      amount: amountMinor === null || currency === null ? null : toMajor(amountMinor, currency.scale),
      round_id: isLong ? null : roundId,
      ...(key !== undefined && { round_key: key }),
      ...(reversed !== undefined && { reversed: reversed.map(sumsOf) }),
    };
    return `"decided_at":${this.decidedText},${fields(rest)}`;
  }

  /** @param isShort leaves the record's key out */
  private source({ offset, recordKey = null }: PublishedAnswer, isShort: boolean): string {
    if (!isPartition(this.origin)) return this.sourceBegin;
    const key =
      isShort && typeof recordKey === 'string' ? { bytes: Buffer.byteLength(recordKey) } : recordKey;
    return `${this.sourceBegin}${offset}",${fields(keyFields(key))}}}`;
  }

  private about(connection: Connection, decidedAt: bigint | null): About {
    if (decidedAt !== this.decidedAt) {
      this.decidedAt = decidedAt;
      this.decidedText = decidedAt === null ? NO_TIME : `"${instantOf(decidedAt)}"`;
      this.decidedBytes = Buffer.from(this.decidedText);
    }
    return this.shared.of(connection);
  }
}

function head(kind: string | null, brand: string | null, currency: string | undefined) {
  return { kind, brand, currency: currency ?? null };
}

function keyFields(key: RecordKey | null): Record<string, unknown> {
  if (key === null || typeof key === 'string') return { key };
  return 'base64' in key ? { key: null, key_base64: key.base64 } : { key: null, key_bytes: key.bytes };
}

function sumsOf({ currency: { code, scale }, bet, win, settled }: Reversed) {
  return {
    currency: code,
    bet: toMajor(bet, scale),
    win: toMajor(win, scale),
    settled: toMajor(settled, scale),
  };
}

/** Microseconds since 1970 as RFC 3339 in UTC. */
function instantOf(micros: bigint): string {
  const toMillisecond = new Date(Number(micros / 1000n)).toISOString().slice(0, -1);
  return `${toMillisecond}${String(micros % 1000n).padStart(3, '0')}Z`;
}

const NO_TIME = 'null';
/** The most bytes that UTF-8 has for a unit of UTF-16. */
const MOST_UTF8_BYTES = 3;
/** More than the number of any currency. */
const MAX_CURRENCIES = 100_000;
const BEGIN = `{${fields({ spec: VERDICT_SPEC })},"event_id":`;
const BEGIN_BYTES = Buffer.from(`${BEGIN}"`);
const KEY_END = Buffer.from('"]');
const ROUND = Buffer.from(',"round_id":');
const RECORD_KEY = Buffer.from('","key":');
const END = Buffer.from('}}');
const NULL = Buffer.from('null');
const NO_HEADERS: OutgoingMessage['headers'] = [];

// --- messages of plain texts

/** A longer message is written by MessageEncoder. The length of this one takes two bytes. */
const MAX_BYTES = 4_096;
/** Room for the lengths, an amount, an offset and the constant texts of a message. */
const REST_BYTES = 512;
/** The least and the end of the lengths that take two bytes. */
const TWO_BYTES = 64;
const THREE_BYTES = 8_192;

/** A message of plain texts, written into one buffer over the message before it. */
class QuickMessage implements EncodedMessage {
  bytes: Buffer = NO_BYTES;
  keyFrom = 0;
  keyTo = 0;
  private readonly buffer = Buffer.allocUnsafe(MAX_BYTES);
  /** The bytes of a message of each length: a new view for each message would cost as much as its text. */
  private readonly views: Buffer[] = [];
  private at = 0;
  private isPlain = true;

  /** @param bytes of the texts, beside amount, offset and constants */
  hasRoom(bytes: number): boolean {
    return bytes + REST_BYTES <= MAX_BYTES;
  }

  /** Begins a message. @param length of its key */
  beginKey(length: number): void {
    this.at = 0;
    this.isPlain = true;
    this.length(length, length < TWO_BYTES);
    this.keyFrom = this.at;
  }

  beginValue(): void {
    this.keyTo = this.at;
    this.at += 2;
  }

  /** @returns false where JSON would escape one of its texts: the message is then invalid */
  end(): boolean {
    const { at } = this;
    const length = at - this.keyTo - 2;
    if (!this.isPlain || length < TWO_BYTES || length >= THREE_BYTES) return false;
    this.at = this.keyTo;
    this.length(length, false);
    this.buffer[at] = 0; // no headers
    const end = at + 1;
    this.bytes = this.views[end] ??= this.buffer.subarray(0, end);
    return true;
  }

  bytesOf(constant: Buffer): void {
    this.buffer.set(constant, this.at);
    this.at += constant.length;
  }

  plain(text: string): void {
    const { buffer } = this;
    let { at } = this;
    for (let index = 0; index < text.length; index++) {
      const unit = text.charCodeAt(index);
      // JSON writes these without an escape, and UTF-8 as one byte.
      if (unit < 0x20 || unit >= 0x7f || unit === QUOTE || unit === BACKSLASH) this.isPlain = false;
      buffer[at++] = unit;
    }
    this.at = at;
  }

  /** A text that is JSON already, in any letters. */
  json(text: string): void {
    this.at += this.buffer.write(text, this.at);
  }

  textOrNull(text: string | null): void {
    if (text === null) {
      this.plain('null');
      return;
    }
    this.buffer[this.at++] = QUOTE;
    this.plain(text);
    this.buffer[this.at++] = QUOTE;
  }

  /** An amount in major units, in quotes. */
  amount(minor: bigint, scale: number): void {
    if (minor > MOST_EXACT) {
      this.textOrNull(toMajor(minor, scale));
      return;
    }
    this.buffer[this.at++] = QUOTE;
    this.decimal(Number(minor), scale);
    this.buffer[this.at++] = QUOTE;
  }

  digits(value: number): void {
    this.decimal(value, 0);
  }

  /** @param value an exact integer, zero or more */
  private decimal(value: number, scale: number): void {
    let digits = 1;
    for (let power = 10; power <= value; power *= 10) digits++;
    const width = Math.max(digits, scale + 1);
    const end = this.at + width + (scale > 0 ? 1 : 0);
    let position = end;
    let rest = value;
    for (let index = 0; index < width; index++) {
      if (scale > 0 && index === scale) this.buffer[--position] = DOT;
      const tens = Math.floor(rest / 10);
      this.buffer[--position] = ZERO + (rest - tens * 10);
      rest = tens;
    }
    this.at = end;
  }

  /** A zigzag number of one or two bytes. */
  private length(length: number, isShort: boolean): void {
    const zigzag = length * 2;
    if (isShort) {
      this.buffer[this.at++] = zigzag;
      return;
    }
    this.buffer[this.at++] = (zigzag & 0x7f) | 0x80;
    this.buffer[this.at++] = zigzag >>> 7;
  }
}

const NO_BYTES = Buffer.alloc(0);
const MOST_EXACT = BigInt(Number.MAX_SAFE_INTEGER);
const QUOTE = 0x22;
const BACKSLASH = 0x5c;
const DOT = 0x2e;
const ZERO = 0x30;
