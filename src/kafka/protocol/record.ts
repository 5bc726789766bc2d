/**
 * A record of a partition, as the reader of record batches hands it over. Then its headers with their limits,
 * and the form of its fields in bytes.
 */
import { type Header, isNamed } from '../../lib/record-header';

/** Memory that a record takes beside its bytes, once it is read. */
export const RECORD_OVERHEAD_BYTES = 400;

/** A value within the bytes of its batch, JSON or not. */
export interface JsonBytes {
  readonly type: 'json';
  /** Null for a record without a value. */
  readonly bytes: Buffer | null;
  readonly from?: number;
  readonly to?: number;
}

/** A record whose value is not decoded yet. */
export interface StreamRecord {
  readonly offset: number;
  /** Milliseconds since 1970, as decimal text. */
  readonly timestamp: string;
  /** The same as a number. Absent for bytes that are no record. */
  readonly sentAtMs?: number;
  readonly key: Buffer | null;
  /** The bytes of the value; null for a tombstone. */
  readonly value: Buffer | null;
  readonly headers: Iterable<Header>;
  /** Values of the `connection-id` headers. */
  readonly claims: readonly string[];
  /** The value within the bytes of its batch, or the reason why it cannot be read. */
  readonly payload: JsonBytes | { readonly type: 'undecodable'; readonly because: string };
  /**
   * Memory that the record keeps: its bytes with key and headers, and the overhead of its headers once they
   * are read.
   */
  readonly size: number;
  /** First byte of the value, by which the decoder is chosen; undefined without a value. */
  readonly firstByte: number | undefined;
  /** Why the bytes that this record represents cannot be read. */
  readonly undecodable?: string | undefined;
}

/** Reads records one after the other. */
export interface RecordCursor {
  /** Memory that the cursor holds beside its chunk: the decompressed bytes. */
  readonly bytes: number;
  /** The next record; null after the last. */
  next(): StreamRecord | null;
}

/**
 * Consecutive records, as bytes. Offsets may be missing: markers, aborted records and compacted records are
 * left out.
 */
export interface BatchRecords {
  /** Memory that the chunk holds until it is opened. */
  readonly bytes: number;
  /** The offset after this chunk; records that were left out are counted. */
  readonly nextOffset: number;
  /**
   * Opens the records, from `fromOffset` on where it is given. Returns a promise only for compressed or large
   * batches. Bytes that cannot be read become one record with the reason.
   *
   * @throws when they cannot be decompressed at present, as for a lack of memory
   */
  open(fromOffset?: number): RecordCursor | Promise<RecordCursor>;
}

/**
 * The most headers of a sender's record. A record with more is a dead letter `undecodable` (docs/rules.md,
 * S4).
 */
export const MAX_HEADERS = 1_000;
/** Memory that a header takes beside its bytes once it is read. */
export const HEADER_OVERHEAD_BYTES = 100;

/** The headers of a dead letter. A sender's header with one of these names is left out of it. */
export const LETTER_HEADERS = {
  topic: 'source-topic',
  partition: 'source-partition',
  offset: 'source-offset',
  timestamp: 'source-timestamp',
  reason: 'dead-letter-reason',
  detail: 'dead-letter-detail',
} as const;
/**
 * Names the first source of a record that was sent back. The header stays when the record becomes a dead
 * letter again, at other coordinates.
 */
export const REPLAYED_HEADER = 'dead-letter-replayed';

const OF_LETTERS: readonly string[] = Object.values(LETTER_HEADERS);
/** The most headers of ours that a record may have beside the sender's own. */
const MAX_OUR_HEADERS = OF_LETTERS.length + 1;
const LONGEST_NAME = Math.max(...[...OF_LETTERS, REPLAYED_HEADER].map((name) => name.length));

/** Whether a header is one of LETTER_HEADERS. */
export function isOfLetter(name: Header[0]): boolean {
  return name.length <= LONGEST_NAME && OF_LETTERS.includes(name.toString());
}

/** Whether a header is REPLAYED_HEADER. */
export function isReplayed(name: Header[0]): boolean {
  return isNamed(name, REPLAYED_HEADER);
}

/**
 * The headers in a record's bytes: a varint with their number, then a name and a value each, both as bytes.
 * Each is read when the loop reaches it: a list of them would take a hundred times their bytes.
 */
export class StoredHeaders implements Iterable<Header> {
  constructor(
    private readonly bytes: Buffer,
    /** Position of their number. */
    private readonly from: number,
  ) {}

  get count(): number {
    return new FieldReader(this.bytes, this.from).varint();
  }

  *[Symbol.iterator](): Generator<Header> {
    const reader = new FieldReader(this.bytes, this.from);
    for (let left = reader.varint(); left > 0; left--) yield [reader.bytes() ?? NO_NAME, reader.bytes()];
  }

  /** Whether the sender's own headers are more than a record may have. */
  get areTooMany(): boolean {
    const { count } = this;
    if (count <= MAX_HEADERS) return false;
    if (count > MAX_HEADERS + MAX_OUR_HEADERS) return true;
    let ours = 0;
    for (const [name] of this) if (isOfLetter(name) || isReplayed(name)) ours++;
    return count - ours > MAX_HEADERS;
  }

  /** Values of the headers with this name, as text, each cut off after `maxBytes`. */
  valuesOf(wanted: string, maxBytes: number): string[] {
    const { bytes } = this;
    const reader = new FieldReader(bytes, this.from);
    const values: string[] = [];
    for (let left = reader.varint(); left > 0; left--) {
      const isWanted = reader.skipBytes() === wanted.length && endsWith(bytes, reader.position, wanted);
      const length = reader.skipBytes();
      if (!isWanted) continue;
      const from = reader.position - Math.max(0, length);
      values.push(bytes.toString('utf8', from, Math.min(reader.position, from + maxBytes)));
    }
    return values;
  }
}

/** Whether the bytes in front of `end` are this text, which is ASCII. */
function endsWith(bytes: Buffer, end: number, text: string): boolean {
  for (let index = 0; index < text.length; index++)
    if (bytes[end - text.length + index] !== text.charCodeAt(index)) return false;
  return true;
}

const NO_NAME = '';

/** A longer number may have more than 32 bits. */
const MAX_VARINT_BYTES = 4;

/**
 * Reads the fields of Kafka's records. https://kafka.apache.org/documentation/#record
 *
 * - varint, varlong: a zigzag number, 7 bits to a byte, the low bits first; the high bit marks a further byte
 * - bytes: a varint with their length, -1 for null, then the bytes
 *
 * @throws RangeError beyond the end of the buffer
 */
export class FieldReader {
  constructor(
    private readonly buffer: Buffer,
    public position: number,
  ) {}

  private byte(): number {
    const byte = this.buffer[this.position++];
    if (byte === undefined) throw new RangeError('a record ends beyond its batch');
    return byte;
  }

  varint(): number {
    let byte = this.byte();
    let value = byte & 0x7f;
    for (let shift = 7; byte >= 0x80; shift += 7) {
      if (shift > 28) throw new RangeError('a number is longer than 32 bits');
      byte = this.byte();
      value |= (byte & 0x7f) << shift;
    }
    return (value >>> 1) ^ -(value & 1);
  }

  /** A number of up to 64 bits. */
  varlong(): bigint {
    const start = this.position;
    this.skipNumber();
    let value = 0n;
    for (let at = this.position - 1; at >= start; at--)
      value = (value << 7n) | BigInt((this.buffer[at] ?? 0) & 0x7f);
    return BigInt.asIntN(64, (value >> 1n) ^ -(value & 1n));
  }

  /**
   * A number of up to 64 bits, without an allocation where it has at most 28. Beyond 2^53 it is rounded.
   */
  number(): number {
    const start = this.position;
    this.skipNumber();
    const isLong = this.position - start > MAX_VARINT_BYTES;
    this.position = start;
    return isLong ? Number(this.varlong()) : this.varint();
  }

  skipNumber(): void {
    const start = this.position;
    while (this.byte() >= 0x80) {
      if (this.position - start >= 10) throw new RangeError('a number is longer than 64 bits');
    }
  }

  bytes(): Buffer | null {
    const length = this.skipBytes();
    return length < 0 ? null : this.buffer.subarray(this.position - length, this.position);
  }

  /** @returns the length of the bytes, less than 0 for null */
  skipBytes(): number {
    const length = this.varint();
    if (length <= 0) return length;
    this.position += length;
    if (this.position > this.buffer.length) throw new RangeError('a record ends beyond its batch');
    return length;
  }
}
