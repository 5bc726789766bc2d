/**
 * Writes Kafka's record batches of format 2. record-batch-layout.ts has the layout of a batch,
 * records-reader.ts the layout of a record.
 *
 * kafkajs allocates half a kilobyte for each record and each of its headers: this writer costs a tenth.
 */
import {
  ATTRIBUTES_AT,
  BASE_OFFSET_AT,
  COUNT_AT,
  FIRST_SEQUENCE_AT,
  FIRST_TIMESTAMP_AT,
  FORMAT,
  FORMAT_AT,
  HEADER_BYTES,
  LAST_OFFSET_DELTA_AT,
  LEADER_EPOCH_AT,
  LENGTH_AT,
  MAX_TIMESTAMP_AT,
  PREFIX_BYTES,
  PRODUCER_EPOCH_AT,
  PRODUCER_ID_AT,
  writeChecksum,
} from './record-batch-layout';

type Content = Buffer | string;

export interface OutgoingMessage {
  readonly key: Content | null;
  readonly value: Content | null;
  /** May be iterated several times; yields the same headers each time. */
  readonly headers: Iterable<readonly [name: Content, value: Content | null]>;
  /** Absent: chosen by the key, as `partitionChooser` does. */
  readonly partition?: number;
}

/** A message as it is written into a batch, without the fields that depend on its place there. */
export interface EncodedMessage {
  /**
   * Key, value and headers, each with its length in front. Valid until its encoder encodes the next message.
   */
  readonly bytes: Buffer;
  /**
   * Whether the buffer holds no other message, and has FRONT_BYTES in front of this one. A batch with this
   * message as its first may then be written around it, without a copy.
   */
  readonly isAdoptable?: boolean;
  /** Begin of the key in the bytes; null for a message without a key. */
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

/** Encodes messages one at a time, each over the one before. */
export class MessageEncoder {
  private buffer: Buffer = Buffer.allocUnsafe(INITIAL_BYTES);
  private position = 0;

  encode(message: OutgoingMessage): EncodedMessage {
    const { key, value, headers, partition } = message;
    this.position = FRONT_BYTES;
    // Reserved at once: a large buffer that is doubled for its last bytes takes three times the memory.
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
    const isAdoptable = bytes.length > LARGE_BYTES;
    if (isAdoptable) this.buffer = Buffer.allocUnsafe(INITIAL_BYTES);
    return { bytes, isAdoptable, keyFrom, keyTo: keyTo - FRONT_BYTES, partition };
  }

  /** Writes bytes with their length in front, -1 for null. @returns the length */
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

/** The most bytes that an encoded message takes; it takes more only if its text is not ASCII. */
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

  /** @param room the likely size of the batch, or a buffer for it; a batch that outgrows it is copied */
  constructor(room: number | Buffer) {
    this.buffer = typeof room === 'number' ? Buffer.allocUnsafe(room) : room;
  }

  /** Its memory. Free for another batch once nothing needs the bytes of this one. */
  get memory(): Buffer {
    return this.buffer;
  }

  /** The size at present, before compression. */
  get bytes(): number {
    return this.position;
  }

  add({ bytes, isAdoptable }: EncodedMessage): void {
    const length = ATTRIBUTES_AND_TIME_BYTES + varintBytes(this.count) + bytes.length;
    const isAdopted = isAdoptable && this.count === 0;
    if (isAdopted) {
      const front = HEADER_BYTES + varintBytes(length) + length - bytes.length;
      this.buffer = Buffer.from(bytes.buffer, bytes.byteOffset - front, front + bytes.length);
    } else this.buffer = withRoom(this.buffer, this.position, MAX_VARINT_BYTES + length);
    let at = writeVarint(this.buffer, this.position, length);
    this.buffer[at++] = 0; // attributes
    this.buffer[at++] = 0; // timestamp: the batch's first
    at = writeVarint(this.buffer, at, this.count++);
    if (!isAdopted) this.buffer.set(bytes, at);
    this.position = at + bytes.length;
  }

  /** The complete batch, with one timestamp for all messages. @param timestampMs milliseconds since 1970 */
  async take(timestampMs: number, compressor: Compressor | null): Promise<Buffer> {
    if (compressor === null) return this.takePlain(timestampMs);
    const plain = this.buffer.subarray(0, this.position);
    const body = await compressor.compress({ buffer: plain.subarray(HEADER_BYTES) });
    const batch = Buffer.concat([plain.subarray(0, HEADER_BYTES), body]);
    return sealed(batch, this.count, timestampMs, compressor.codec);
  }

  /** The same, not compressed, and at once. */
  takePlain(timestampMs: number): Buffer {
    return sealed(this.buffer.subarray(0, this.position), this.count, timestampMs, 0);
  }
}

const ATTRIBUTES_AND_TIME_BYTES = 2;

/** Writes the header in front of the records that the batch already holds. */
function sealed(batch: Buffer, count: number, timestampMs: number, codec: number): Buffer {
  // The broker sets the base offset and the leader's epoch.
  batch.writeBigInt64BE(0n, BASE_OFFSET_AT);
  batch.writeInt32BE(batch.length - PREFIX_BYTES, LENGTH_AT);
  batch.writeInt32BE(-1, LEADER_EPOCH_AT);
  batch.writeInt8(FORMAT, FORMAT_AT);
  batch.writeInt16BE(codec, ATTRIBUTES_AT);
  batch.writeInt32BE(count - 1, LAST_OFFSET_DELTA_AT);
  batch.writeBigInt64BE(BigInt(timestampMs), FIRST_TIMESTAMP_AT);
  batch.writeBigInt64BE(BigInt(timestampMs), MAX_TIMESTAMP_AT);
  // The producer is not idempotent: it has no id, no epoch and no sequence.
  batch.writeBigInt64BE(-1n, PRODUCER_ID_AT);
  batch.writeInt16BE(-1, PRODUCER_EPOCH_AT);
  batch.writeInt32BE(-1, FIRST_SEQUENCE_AT);
  batch.writeInt32BE(count, COUNT_AT);
  writeChecksum(batch);
  return batch;
}

/** A buffer with the same bytes up to `position`, and room for `bytes` more. */
function withRoom(buffer: Buffer, position: number, bytes: number): Buffer {
  if (position + bytes <= buffer.length) return buffer;
  const larger = Buffer.allocUnsafe(Math.max(2 * buffer.length, position + bytes));
  buffer.copy(larger, 0, 0, position);
  return larger;
}

/** Writes a zigzag number of up to 32 bits. @returns its end */
function writeVarint(buffer: Buffer, position: number, value: number): number {
  let at = position;
  let rest = ((value << 1) ^ (value >> 31)) >>> 0;
  for (; rest >= 0x80; rest >>>= 7) buffer[at++] = (rest & 0x7f) | 0x80;
  buffer[at++] = rest;
  return at;
}

const MAX_VARINT_BYTES = 5;
/**
 * The most bytes in front of the first message of a batch: the header, and the record's length, attributes
 * and deltas.
 */
const FRONT_BYTES = HEADER_BYTES + MAX_VARINT_BYTES + ATTRIBUTES_AND_TIME_BYTES + 1;

/** @param value zero or more */
function varintBytes(value: number): number {
  let bytes = 1;
  for (let rest = value >>> 6; rest > 0; rest >>>= 7) bytes++;
  return bytes;
}
