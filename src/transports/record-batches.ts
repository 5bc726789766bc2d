/**
 * Kafka's record batches (magic 2), read from the bytes of a fetch. https://kafka.apache.org/documentation/#recordbatch
 * A message of the formats before (magic 0 and 1), as a topic may hold that is older than Kafka 0.11, is taken for a batch that cannot be read.
 *
 * Ours instead of the client's, whose decoder a producer can end: it spreads a batch's records over the stack (300,000 tiny records
 * overflow it), copies all headers for each header, lets a batch that cannot be decompressed fail the whole fetch for good, and takes
 * any record with a key of four zero bytes for the end of an aborted transaction. It is also several times faster, and leaves the records
 * in their bytes until they are decided: tens of thousands wait at any moment, and as objects they would take several times the memory.
 */

import type { JsonText } from '../domain/payload';
import type { Header, TopicPartition } from '../intake';
import { DecompressionError } from './codecs';
import { hasChecksum } from './crc32c';
import { RecordReader } from './record-reader';
import type { Chunk, RecordCursor, StreamRecord } from './record-source';
import { formatOf, notSupported, OldMessage, undecodable } from './undecodable';

const CONNECTION_ID_HEADER = 'connection-id';
const NO_CLAIMS: readonly string[] = [];

/** Where records stand, and what they have in common. */
interface Body {
  readonly bytes: Buffer;
  readonly firstOffset: number;
  readonly firstTimestamp: bigint;
  /** The time of all its records, where the topic keeps the time of the append. */
  readonly appendTime: bigint | null;
}

/** A record as it stands in a batch. What few readers ask for is taken from the bytes when they do. */
class FetchedRecord implements StreamRecord {
  constructor(
    readonly offset: number,
    private readonly body: Body,
    /** Where its attributes stand in the body; what follows them has been checked. */
    private readonly at: number,
    /** Where its value ends, and its headers begin. */
    private readonly valueEnd: number,
    /** Less than 0 for null. */
    private readonly valueLength: number,
  ) {}

  get size(): number {
    return Math.max(0, this.valueLength);
  }

  get firstByte(): number | undefined {
    return this.valueLength > 0 ? this.body.bytes[this.valueEnd - this.valueLength] : undefined;
  }

  get value(): Buffer | null {
    const { valueEnd, valueLength } = this;
    return valueLength < 0 ? null : this.body.bytes.subarray(valueEnd - valueLength, valueEnd);
  }

  get payload(): JsonText {
    const { valueEnd, valueLength } = this;
    const bytes = valueLength < 0 ? null : this.body.bytes;
    return { type: 'json', bytes, from: valueEnd - valueLength, to: valueEnd };
  }

  get claims(): readonly string[] {
    const { headers } = this;
    if (headers === NO_HEADERS) return NO_CLAIMS;
    return headers.flatMap(([name, value]) =>
      name === CONNECTION_ID_HEADER ? (value?.toString('utf8') ?? '') : [],
    );
  }

  get key(): Buffer | null {
    return this.reader('key').bytes();
  }

  get headers(): readonly Header[] {
    if (this.body.bytes[this.valueEnd] === 0) return NO_HEADERS;
    return readHeaders(new RecordReader(this.body.bytes, this.valueEnd));
  }

  /** Milliseconds since 1970, as decimal text. */
  get timestamp(): string {
    const { appendTime, firstTimestamp } = this.body;
    return (appendTime ?? firstTimestamp + this.reader('timestamp').varlong()).toString();
  }

  private reader(to: 'timestamp' | 'key'): RecordReader {
    const reader = new RecordReader(this.body.bytes, this.at + 1);
    if (to === 'timestamp') return reader;
    reader.skipNumber();
    reader.varint();
    return reader;
  }
}

export interface AbortedTransaction {
  readonly producerId: bigint;
  readonly firstOffset: number;
}

/**
 * Decompresses what the codec with this number (1 gzip, 2 snappy, 3 lz4, 4 zstd) compressed.
 *
 * @throws DecompressionError for what no further try can decompress; any other error may pass
 */
export type Decompress = (codec: number, bytes: Buffer) => Promise<Buffer>;

const MAGIC = 2;
/** Base offset and length, which stand in front of what the length counts. */
const PREFIX_BYTES = 12;
const HEADER_BYTES = 61;
const CODEC_MASK = 0x07;
const LAST_CODEC = 4;
const LOG_APPEND_TIME = 0x08;
const TRANSACTIONAL = 0x10;
const CONTROL = 0x20;
/** A record is at least this long: length, attributes, two deltas, two lengths and the number of headers, a byte each. */
const MIN_RECORD_BYTES = 7;
/** Of a record: a header of two bytes takes a hundred in memory. */
const MAX_HEADERS = 100_000;

/** What stands between two offsets: the records of a batch, when they are asked for, and what its header says of them. */
type RecordBatch = CurrentBatch | OldMessage;

/** A batch in its bytes. */
class CurrentBatch {
  readonly firstOffset: number;
  /** As its header says, unless that is damaged: see `endsBefore` and `endsBySize`. */
  lastOffset: number;
  readonly producerId: bigint;
  readonly isTransactional: boolean;
  private readonly attributes: number;
  private soundness: boolean | undefined;

  constructor(readonly bytes: Buffer) {
    this.firstOffset = Number(bytes.readBigInt64BE(0));
    this.attributes = bytes.readInt16BE(21);
    this.lastOffset = this.firstOffset + bytes.readInt32BE(23);
    this.producerId = bytes.readBigInt64BE(43);
    this.isTransactional = (this.attributes & TRANSACTIONAL) !== 0;
  }

  /** Whether it can be believed: its format is known, and its checksum is of its bytes. */
  get isSound(): boolean {
    this.soundness ??= formatOf(this.bytes) === MAGIC && hasChecksum(this.bytes);
    return this.soundness;
  }

  /** Ends where the next one begins, which is known where it says something else and is damaged. */
  endsBefore(nextOffset: number): void {
    if (this.lastOffset + 1 !== nextOffset && !this.isSound)
      this.lastOffset = Math.max(this.firstOffset, nextOffset - 1);
  }

  /** Ends where the lesser of what a damaged header says of that allows: what is passed over is gone, and what is fetched once more is not. */
  endsBySize(): void {
    const lastOfCount = this.firstOffset + this.count - 1;
    this.lastOffset = Math.max(this.firstOffset, Math.min(this.lastOffset, lastOfCount));
  }

  /** How many records it says that it has. */
  private get count(): number {
    return this.bytes.readInt32BE(57);
  }

  get isControl(): boolean {
    return (this.attributes & CONTROL) !== 0;
  }

  /** Which end of a transaction it marks; null for a batch of records, and for a marker that cannot be read. */
  get marker(): 'abort' | 'commit' | null {
    if (!this.isControl || !this.isSound) return null;
    const record = this.read(this.bytes.subarray(HEADER_BYTES), 0).next();
    if (record?.undecodable !== undefined) return null;
    // Its key is a version and a type, 16 bits each; type 0 aborts, 1 commits.
    const key = record?.key;
    return key && key.length >= 4 && key.readInt16BE(2) === 0 ? 'abort' : 'commit';
  }

  /** Its records from an offset on. A promise only where they are compressed; a batch that cannot be read is one record. */
  open(fromOffset: number, decompress: Decompress): RecordCursor | Promise<RecordCursor> {
    const stored = this.bytes.subarray(HEADER_BYTES);
    const codec = this.attributes & CODEC_MASK;
    if (formatOf(this.bytes) !== MAGIC) return this.undecodable(notSupported(formatOf(this.bytes)));
    // Brokers do not look at it when they are read from: what a disk has changed may still be read, as another amount.
    if (!this.isSound) return this.undecodable('its checksum is of other bytes');
    if (codec === 0) return this.read(stored, fromOffset);
    if (codec > LAST_CODEC) return this.undecodable(`there is no codec ${codec}`);
    return decompress(codec, stored).then(
      (body) => this.read(body, fromOffset, body.length),
      (error: unknown) => {
        // Whatever else fails, such as a lack of memory, says nothing of the bytes.
        if (error instanceof DecompressionError) return this.undecodable(error.message);
        throw error;
      },
    );
  }

  /** @param decompressed bytes that are held beside the batch's own */
  private read(bytes: Buffer, fromOffset: number, decompressed = 0): RecordCursor {
    try {
      if (!Number.isSafeInteger(this.lastOffset)) throw new RangeError('an offset is beyond 2^53');
      const { count } = this;
      checkRecords(bytes, count, this.lastOffset - this.firstOffset);
      const body = {
        bytes,
        firstOffset: this.firstOffset,
        firstTimestamp: this.bytes.readBigInt64BE(27),
        appendTime: (this.attributes & LOG_APPEND_TIME) === 0 ? null : this.bytes.readBigInt64BE(35),
      };
      return new BodyCursor(body, count, fromOffset, decompressed);
    } catch (error) {
      if (error instanceof RangeError) return this.undecodable(error.message);
      throw error;
    }
  }

  private undecodable(reason: string): RecordCursor {
    return undecodable(this.firstOffset, this.bytes, this.bytes.readBigInt64BE(35), reason);
  }
}

/** Finds what does not fit, so that the records can then be read without doubt. @throws RangeError with what it is */
function checkRecords(body: Buffer, count: number, lastOffsetDelta: number): void {
  if (count < 0 || count * MIN_RECORD_BYTES > body.length)
    throw new RangeError(`${count} records do not fit into the batch`);
  const reader = new RecordReader(body, 0);
  let previous = -1;
  for (let i = 0; i < count; i++) {
    const end = reader.varint() + reader.position;
    reader.position++; // attributes: unused
    reader.skipNumber();
    const offsetDelta = reader.varint();
    if (offsetDelta <= previous || offsetDelta > lastOffsetDelta)
      throw new RangeError("a record's offset is not of its batch");
    previous = offsetDelta;
    reader.skipBytes();
    reader.skipBytes();
    const headers = reader.varint();
    if (headers > MAX_HEADERS) throw new RangeError(`a record has more than ${MAX_HEADERS} headers`);
    for (let header = 0; header < headers; header++) {
      reader.skipBytes();
      reader.skipBytes();
    }
    if (reader.position !== end) throw new RangeError('a record does not end where it says');
  }
}

class BodyCursor implements RecordCursor {
  private readonly reader: RecordReader;
  constructor(
    private readonly body: Body,
    private left: number,
    private readonly fromOffset: number,
    readonly bytes: number,
  ) {
    this.reader = new RecordReader(body.bytes, 0);
  }

  next(): FetchedRecord | null {
    const { reader } = this;
    while (this.left > 0) {
      this.left--;
      const end = reader.varint() + reader.position;
      const at = reader.position;
      reader.position++;
      reader.skipNumber();
      const offset = this.body.firstOffset + reader.varint();
      reader.skipBytes();
      const valueLength = reader.skipBytes();
      const valueEnd = reader.position;
      reader.position = end;
      if (offset >= this.fromOffset) return new FetchedRecord(offset, this.body, at, valueEnd, valueLength);
    }
    return null;
  }
}

const NO_HEADERS: readonly Header[] = [];

function readHeaders(reader: RecordReader): readonly Header[] {
  const count = reader.varint();
  const headers: Header[] = [];
  for (let i = 0; i < count; i++) headers.push([reader.bytes()?.toString('utf8') ?? '', reader.bytes()]);
  return headers;
}

const NO_RECORDS: RecordCursor = { bytes: 0, next: () => null };
/** Made here, where it holds nothing: made beside what opens a batch, it would keep the whole fetch as long as its chunk waits. */
const openNothing = () => NO_RECORDS;

/** What a fetch brought of one partition. */
export class Fetched {
  private readonly batches: readonly RecordBatch[];

  constructor(
    bytes: Buffer,
    private readonly aborted: readonly AbortedTransaction[],
    private readonly decompress: Decompress,
  ) {
    // A copy, since batches keep it: they would keep the whole fetch, with what it brought of other partitions.
    this.batches = splitBatches(Buffer.from(bytes));
  }

  /** Whether no batch is there whole. */
  get isEmpty(): boolean {
    return this.batches.length === 0;
  }

  /** Offset of the last record, whether it can be seen or not; -1 where there is none. */
  get lastOffset(): number {
    return this.batches.at(-1)?.lastOffset ?? -1;
  }

  /**
   * A chunk for each batch, with its records from `fromOffset` on; transaction markers and batches of aborted transactions have none.
   * A transaction is aborted from the first offset that the broker names until its producer's abort marker.
   */
  chunksFrom(fromOffset: number): Omit<Chunk, keyof TopicPartition>[] {
    const begins = [...this.aborted].sort((a, b) => a.firstOffset - b.firstOffset);
    const aborting = new Set<bigint>();
    let next = 0;
    return this.batches.map((batch) => {
      for (
        let begin = begins[next];
        begin !== undefined && begin.firstOffset <= batch.lastOffset;
        begin = begins[++next]
      ) {
        aborting.add(begin.producerId);
      }
      const { marker } = batch;
      // Of a producer that aborts the next marker is of that, also where it cannot be read.
      if (batch.isControl && marker !== 'commit') aborting.delete(batch.producerId);
      const nextOffset = Math.max(batch.lastOffset + 1, fromOffset);
      if (marker !== null || (batch.isTransactional && aborting.has(batch.producerId)))
        return { bytes: 0, nextOffset, open: openNothing };
      const open = (from = fromOffset) => batch.open(from, this.decompress);
      return { bytes: batch.bytes.length, nextOffset, open };
    });
  }
}

/**
 * The batches that are there whole. A last one that was cut off is left for the next fetch, and so is one that is damaged behind others: where it comes first, what stands
 * behind it says where it ends.
 */
function splitBatches(bytes: Buffer): RecordBatch[] {
  const batches: RecordBatch[] = [];
  let position = 0;
  for (;;) {
    const format = formatOf(bytes.subarray(position));
    if (format === undefined) break;
    const isOld = OldMessage.isOne(format);
    const leastBytes = isOld ? OldMessage.LEAST_BYTES : HEADER_BYTES;
    const end = position + PREFIX_BYTES + bytes.readInt32BE(position + 8);
    if (end > bytes.length || end < position + leastBytes) break;
    const whole = bytes.subarray(position, end);
    const batch = isOld ? new OldMessage(whole) : new CurrentBatch(whole);
    batches.at(-1)?.endsBefore(batch.firstOffset);
    batches.push(batch);
    position = end;
  }
  const last = batches.at(-1);
  if (last?.isSound === false) {
    if (batches.length > 1) batches.pop();
    else last.endsBySize();
  }
  return batches;
}
