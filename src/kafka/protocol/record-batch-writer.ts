/**
 * Kafka's record batches (magic 2), written. https://kafka.apache.org/documentation/#recordbatch
 *
 * Ours instead of the client's, which makes a buffer of half a kilobyte for each record and each of its headers: a batch costs a tenth.
 */

import { writeChecksum } from './crc32c';

type Content = Buffer | string;

export interface OutgoingMessage {
  readonly key: Content | null;
  readonly value: Content | null;
  /** May be asked for several times, and gives the same each time. */
  readonly headers: Iterable<readonly [name: Content, value: Content | null]>;
  /** Absent: chosen by the key, as `partitionChooser` does. */
  readonly partition?: number;
}

/** A message as it stands in a batch, but for what is of its place there. */
export interface EncodedMessage {
  /** Key, value and headers, each with its length in front. Valid until whoever made it makes the next. */
  readonly bytes: Buffer;
  /** Whether the bytes are of no other message, and have FRONT_BYTES before them: the batch whose first it is may be written around them. */
  readonly isMovable?: boolean;
  /** Where the key begins in the bytes; null for a message without one. */
  readonly keyFrom: number | null;
  readonly keyTo: number;
  readonly partition?: number | undefined;
}

/** How the records of a batch are compressed. */
export interface Compressor {
  /** Kafka's number of the codec. */
  readonly codec: number;
  compress(records: { readonly buffer: Buffer }): Promise<Buffer>;
}

/** Writes messages, one at a time, over the one before. */
export class MessageEncoder {
  private buffer: Buffer = Buffer.allocUnsafe(INITIAL_BYTES);
  private position = 0;

  encode(message: OutgoingMessage): EncodedMessage {
    const { key, value, headers, partition } = message;
    this.position = FRONT_BYTES;
    // All at once: a large buffer that is doubled for its last bytes takes three times what it holds.
    this.reserve(likelyBytes(message));
    const keyBytes = this.content(key);
    const keyTo = this.position;
    this.content(value);
    this.varint(countOf(headers));
    for (const [name, value] of headers) {
      this.content(name);
      this.content(value);
    }
    const keyFrom = key === null ? null : keyTo - keyBytes - FRONT_BYTES;
    const bytes = this.buffer.subarray(FRONT_BYTES, this.position);
    const isMovable = bytes.length > LARGE_BYTES;
    if (isMovable) this.buffer = Buffer.allocUnsafe(INITIAL_BYTES);
    return { bytes, isMovable, keyFrom, keyTo: keyTo - FRONT_BYTES, partition };
  }

  /** Bytes with their length in front; -1 for null. @returns how many they are */
  private content(content: Content | null): number {
    if (content === null) {
      this.varint(-1);
      return 0;
    }
    const length = Buffer.byteLength(content);
    this.varint(length);
    this.reserve(length);
    if (typeof content === 'string') this.buffer.write(content, this.position);
    else content.copy(this.buffer, this.position);
    this.position += length;
    return length;
  }

  private varint(value: number): void {
    this.reserve(MAX_VARINT_BYTES);
    this.position = writeVarint(this.buffer, this.position, value);
  }

  private reserve(bytes: number): void {
    this.buffer = withRoom(this.buffer, this.position, bytes);
  }
}

/** Of a message as it is encoded, at most; more only where text is not ASCII. */
export function likelyBytes({ key, value, headers }: OutgoingMessage): number {
  let bytes = withLength(key) + withLength(value) + MAX_VARINT_BYTES;
  for (const [name, content] of headers) bytes += withLength(name) + withLength(content);
  return bytes;
}

function countOf(headers: OutgoingMessage['headers']): number {
  if (Array.isArray(headers)) return headers.length;
  let count = 0;
  for (const _ of headers) count++;
  return count;
}

function withLength(content: Content | null): number {
  return MAX_VARINT_BYTES + (content?.length ?? 0);
}

const INITIAL_BYTES = 1_024;
/** A message that takes more than this is not copied into its batch. */
const LARGE_BYTES = 1024 * 1024;

/** A record batch that is being written. */
export class RecordBatch {
  private buffer: Buffer;
  private position = HEADER_BYTES;
  private count = 0;

  /** @param bytes that it will likely take; it grows where it takes more */
  constructor(bytes: number) {
    this.buffer = Buffer.allocUnsafe(bytes);
  }

  /** So far, before it is compressed. */
  get bytes(): number {
    return this.position;
  }

  add({ bytes, isMovable }: EncodedMessage): void {
    const length = ATTRIBUTES_AND_TIME_BYTES + varintBytes(this.count) + bytes.length;
    const isMoved = isMovable && this.count === 0;
    if (isMoved) {
      const front = HEADER_BYTES + varintBytes(length) + length - bytes.length;
      this.buffer = Buffer.from(bytes.buffer, bytes.byteOffset - front, front + bytes.length);
    } else this.buffer = withRoom(this.buffer, this.position, MAX_VARINT_BYTES + length);
    let at = writeVarint(this.buffer, this.position, length);
    this.buffer[at++] = 0; // attributes
    this.buffer[at++] = 0; // time, from the batch's
    at = writeVarint(this.buffer, at, this.count++);
    if (!isMoved) this.buffer.set(bytes, at);
    this.position = at + bytes.length;
  }

  /** All of it, with one time for all messages. @param timestampMs since 1970 */
  async take(timestampMs: number, compressor: Compressor | null): Promise<Buffer> {
    const plain = this.buffer.subarray(0, this.position);
    if (compressor === null) return sealed(plain, this.count, timestampMs, 0);
    const body = await compressor.compress({ buffer: plain.subarray(HEADER_BYTES) });
    const batch = Buffer.concat([plain.subarray(0, HEADER_BYTES), body]);
    return sealed(batch, this.count, timestampMs, compressor.codec);
  }
}

const HEADER_BYTES = 61;
const MAGIC = 2;
const ATTRIBUTES_AND_TIME_BYTES = 2;

/** Fills in the header, once the records are behind it. */
function sealed(batch: Buffer, count: number, timestampMs: number, codec: number): Buffer {
  batch.writeBigInt64BE(0n, 0); // base offset: the broker's
  batch.writeInt32BE(batch.length - 12, 8);
  batch.writeInt32BE(-1, 12); // epoch of the leader: the broker's
  batch.writeInt8(MAGIC, 16);
  batch.writeInt16BE(codec, 21);
  batch.writeInt32BE(count - 1, 23);
  batch.writeBigInt64BE(BigInt(timestampMs), 27);
  batch.writeBigInt64BE(BigInt(timestampMs), 35);
  batch.writeBigInt64BE(-1n, 43); // no idempotent producer: neither id, nor epoch, nor sequence
  batch.writeInt16BE(-1, 51);
  batch.writeInt32BE(-1, 53);
  batch.writeInt32BE(count, 57);
  writeChecksum(batch);
  return batch;
}

/** The same bytes up to `position`, with room for so many more. */
function withRoom(buffer: Buffer, position: number, bytes: number): Buffer {
  if (position + bytes <= buffer.length) return buffer;
  const larger = Buffer.allocUnsafe(Math.max(2 * buffer.length, position + bytes));
  buffer.copy(larger, 0, 0, position);
  return larger;
}

/** Zigzag, of up to 32 bits. @returns where it ends */
function writeVarint(buffer: Buffer, position: number, value: number): number {
  let at = position;
  let rest = ((value << 1) ^ (value >> 31)) >>> 0;
  for (; rest >= 0x80; rest >>>= 7) buffer[at++] = (rest & 0x7f) | 0x80;
  buffer[at++] = rest;
  return at;
}

const MAX_VARINT_BYTES = 5;
/** The most that stands before the first message of a batch. */
const FRONT_BYTES = HEADER_BYTES + MAX_VARINT_BYTES + ATTRIBUTES_AND_TIME_BYTES + 1;

/** @param value zero or more */
function varintBytes(value: number): number {
  let bytes = 1;
  for (let rest = value >>> 6; rest > 0; rest >>>= 7) bytes++;
  return bytes;
}
