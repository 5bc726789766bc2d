/** A message of plain texts, written into one buffer over the message before it. */
import { toMajor } from '../domain/event/money';
import type { EncodedMessage } from '../kafka/protocol/record-batch-writer';

/** A longer message is written by MessageEncoder. The length of this one takes two bytes. */
const MAX_BYTES = 4_096;
/** Room for the lengths, an amount, an offset and the constant texts of a message. */
const REST_BYTES = 512;
/** The least and the end of the lengths that take two bytes. */
const TWO_BYTES = 64;
const THREE_BYTES = 8_192;

export class QuickMessage implements EncodedMessage {
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
