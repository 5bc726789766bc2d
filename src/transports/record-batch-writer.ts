/**
 * Kafka's record batches (magic 2), written. https://kafka.apache.org/documentation/#recordbatch
 *
 * Ours instead of the client's, which makes a buffer of half a kilobyte for each record and each of its headers: a batch costs a tenth.
 */

type Content = Buffer | string;

export interface OutgoingMessage {
  readonly key: Content | null;
  /** In parts where most of it is the same from one message to the next: put together as a text, it would be made and copied once more. */
  readonly value: Content | readonly Content[] | null;
  readonly headers: Readonly<Record<string, Content | readonly Content[]>>;
  /** Absent: chosen by the key, as `partitionChooser` does. */
  readonly partition?: number;
}

/** How the records of a batch are compressed. */
export interface Compressor {
  /** Kafka's number of the codec. */
  readonly codec: number;
  compress(records: { readonly buffer: Buffer }): Promise<Buffer>;
}

const HEADER_BYTES = 61;
/** Where the bytes begin that the checksum is of. */
const CHECKED_FROM = 21;
const MAGIC = 2;
/** What a record may take beside its key, its value and its headers: its length, attributes, two deltas, three lengths. */
const RECORD_OVERHEAD_BYTES = 40;
const HEADER_OVERHEAD_BYTES = 10;

/** The batch of the messages, all of them with one time. @param timestampMs since 1970 */
export async function encodeRecordBatch(
  messages: readonly OutgoingMessage[],
  timestampMs: number,
  compressor: Compressor | null,
): Promise<Buffer> {
  const plain = new RecordWriter(HEADER_BYTES, messages).take();
  if (compressor === null) return sealed(plain, messages.length, timestampMs, 0);
  const body = await compressor.compress({ buffer: plain.subarray(HEADER_BYTES) });
  const batch = Buffer.concat([plain.subarray(0, HEADER_BYTES), body]);
  return sealed(batch, messages.length, timestampMs, compressor.codec);
}

/** What a message takes in a batch where its texts are ASCII, at most some forty bytes less; other texts may take three times as much. */
export function bytesOf({ key, value, headers }: OutgoingMessage): number {
  let bytes = RECORD_OVERHEAD_BYTES + (key?.length ?? 0) + lengthOf(partsOf(value ?? ''));
  for (const name in headers) {
    for (const each of partsOf(headers[name] ?? ''))
      bytes += HEADER_OVERHEAD_BYTES + name.length + each.length;
  }
  return bytes;
}

function lengthOf(parts: readonly Content[]): number {
  let length = 0;
  for (const part of parts) length += part.length;
  return length;
}

function partsOf(content: Content | readonly Content[]): readonly Content[] {
  return typeof content === 'string' || Buffer.isBuffer(content) ? [content] : content;
}

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
  batch.writeUInt32BE(crc32c(batch, CHECKED_FROM), 17);
  return batch;
}

/** Writes records behind room for a header. */
class RecordWriter {
  private buffer: Buffer;
  /** Of the last record; the next one is likely to be as long. */
  private lastLength = 0;

  constructor(
    private position: number,
    messages: readonly OutgoingMessage[],
  ) {
    const sizes = messages.map(bytesOf);
    // Room is made for what each text may take: without the rest, the last one would have all of the batch copied.
    const largest = sizes.reduce((max, size) => Math.max(max, size), 0);
    const rest = (MAX_BYTES_PER_UNIT - 1) * largest;
    this.buffer = Buffer.allocUnsafe(position + sizes.reduce((sum, size) => sum + size, rest));
    messages.forEach((message, index) => {
      this.record(message, index);
    });
  }

  take(): Buffer {
    return this.buffer.subarray(0, this.position);
  }

  /** Makes room for so many more bytes. */
  private reserve(bytes: number): void {
    if (this.position + bytes <= this.buffer.length) return;
    const larger = Buffer.allocUnsafe(Math.max(2 * this.buffer.length, this.position + bytes));
    this.buffer.copy(larger, 0, 0, this.position);
    this.buffer = larger;
  }

  private record(message: OutgoingMessage, offsetDelta: number): void {
    // Its length stands in front and is known at the end: room is left for what it is likely to take.
    const start = this.position;
    this.varint(this.lastLength);
    const begin = this.position;
    this.reserve(1);
    this.buffer[this.position++] = 0; // attributes
    this.varint(0); // time, from the batch's
    this.varint(offsetDelta);
    this.content(message.key);
    this.content(message.value);
    this.headers(message.headers);
    const length = this.position - begin;
    const from = start + varintBytes(length);
    if (from !== begin) {
      this.reserve(MAX_VARINT_BYTES);
      this.buffer.copyWithin(from, begin, begin + length);
    }
    this.position = start;
    this.varint(length);
    this.position = from + length;
    this.lastLength = length;
  }

  private headers(headers: OutgoingMessage['headers']): void {
    const entries = Object.entries(headers).flatMap(([name, values]) =>
      partsOf(values).map((value) => ({ name, value })),
    );
    this.varint(entries.length);
    for (const { name, value } of entries) {
      this.content(name);
      this.content(value);
    }
  }

  /**
   * Bytes with their length in front; -1 for null. Nearly all texts are ASCII, and as long as they seem: to count the bytes of each before
   * costs as much as to write them.
   */
  private content(content: OutgoingMessage['value']): void {
    if (content === null) {
      this.varint(-1);
      return;
    }
    const parts = partsOf(content);
    const likely = lengthOf(parts);
    const start = this.position;
    this.varint(likely);
    const begin = this.position;
    this.append(parts);
    const length = this.position - begin;
    if (length === likely) return;
    this.position = start;
    this.varint(length);
    this.append(parts);
  }

  private append(parts: readonly Content[]): void {
    for (const part of parts) {
      if (typeof part === 'string') {
        this.reserve(MAX_BYTES_PER_UNIT * part.length);
        this.position += this.buffer.write(part, this.position);
      } else {
        this.reserve(part.length);
        this.position += part.copy(this.buffer, this.position);
      }
    }
  }

  /** Zigzag, of up to 32 bits. */
  private varint(value: number): void {
    this.reserve(MAX_VARINT_BYTES);
    let rest = ((value << 1) ^ (value >> 31)) >>> 0;
    for (; rest >= 0x80; rest >>>= 7) this.buffer[this.position++] = (rest & 0x7f) | 0x80;
    this.buffer[this.position++] = rest;
  }
}

const MAX_VARINT_BYTES = 5;

/** @param value zero or more */
function varintBytes(value: number): number {
  let bytes = 1;
  for (let rest = value >>> 6; rest > 0; rest >>>= 7) bytes++;
  return bytes;
}

/** Of UTF-8, for a unit of UTF-16. */
export const MAX_BYTES_PER_UNIT = 3;
const WORD_BYTES = 4;

/** Eight tables of 256 words, so that eight bytes are taken in one step. A DataView: twice as fast as an array that may hold nothing at an index. */
const CRC32C_TABLES = crc32cTables();
const TABLE_BYTES = 1_024;

function crc32cTables(): DataView {
  const words = new Uint32Array(8 * 256);
  for (let byte = 0; byte < 256; byte++) {
    let crc = byte;
    for (let bit = 0; bit < 8; bit++) crc = crc & 1 ? (crc >>> 1) ^ 0x82f63b78 : crc >>> 1;
    words[byte] = crc;
  }
  for (let index = 256; index < words.length; index++) {
    const before = words[index - 256] ?? 0;
    words[index] = (words[before & 0xff] ?? 0) ^ (before >>> 8);
  }
  const tables = new DataView(new ArrayBuffer(words.byteLength));
  for (const [index, word] of words.entries()) tables.setUint32(index * WORD_BYTES, word);
  return tables;
}

/** CRC-32C (Castagnoli) of the bytes from `start` on. https://www.rfc-editor.org/rfc/rfc3720#appendix-B.4 */
export function crc32c(bytes: Buffer, start: number): number {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.length);
  let crc = -1;
  let at = start;
  for (; at + 8 <= bytes.length; at += 8) {
    const low = crc ^ view.getInt32(at, true);
    const high = view.getInt32(at + 4, true);
    crc =
      fromTable(7, low) ^
      fromTable(6, low >>> 8) ^
      fromTable(5, low >>> 16) ^
      fromTable(4, low >>> 24) ^
      fromTable(3, high) ^
      fromTable(2, high >>> 8) ^
      fromTable(1, high >>> 16) ^
      fromTable(0, high >>> 24);
  }
  for (; at < bytes.length; at++) crc = fromTable(0, crc ^ view.getUint8(at)) ^ (crc >>> 8);
  return ~crc >>> 0;
}

/** The word of a table for the lowest byte. */
function fromTable(number: number, byte: number): number {
  return CRC32C_TABLES.getInt32(number * TABLE_BYTES + (byte & 0xff) * WORD_BYTES);
}
