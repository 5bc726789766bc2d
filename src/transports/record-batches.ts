/**
 * Kafka's record batches (magic 2), read from the bytes of a fetch. https://kafka.apache.org/documentation/#recordbatch
 *
 * Ours instead of the client's, whose decoder a producer can end: it spreads a batch's records over the stack (300,000 tiny records
 * overflow it), copies all headers for each header, lets a batch that cannot be decompressed fail the whole fetch for good, and takes
 * any record with a key of four zero bytes for the end of an aborted transaction. It is also several times faster.
 */

/** A record as it stands in a batch. What few readers ask for is taken from the bytes when they do. */
export class FetchedRecord {
  constructor(
    readonly offset: number,
    readonly value: Buffer | null,
    readonly headers: Headers,
    /** Milliseconds since 1970; a bigint beyond 2^53. */
    private readonly time: number | bigint,
    private readonly body: Buffer,
    /** Where the key's length stands in the body. */
    private readonly keyAt: number,
    /** Why the batch that stands here as one record cannot be read. The value is then the whole batch as it came. */
    readonly undecodable?: string,
  ) {}

  get key(): Buffer | null {
    return this.undecodable === undefined ? new RecordReader(this.body, this.keyAt).bytes() : null;
  }

  /** Milliseconds since 1970, as decimal text. */
  get timestamp(): string {
    return this.time.toString();
  }
}

/** Header values by key; a key that is given several times has all its values in order. */
export type Headers = Readonly<Record<string, Buffer | Buffer[]>>;

interface RecordBatch {
  readonly lastOffset: number;
  readonly producerId: bigint;
  readonly isTransactional: boolean;
  /** Control batches mark the end of a transaction: `abort` or `commit`. */
  readonly control: 'abort' | 'commit' | null;
  readonly records: readonly FetchedRecord[];
}

export interface AbortedTransaction {
  readonly producerId: bigint;
  readonly firstOffset: number;
}

/** Decompresses what the codec with this number (1 gzip, 2 snappy, 3 lz4, 4 zstd) compressed. */
export type Decompress = (codec: number, bytes: Buffer) => Promise<Buffer>;

const MAGIC = 2;
/** Base offset and length, which stand in front of what the length counts. */
const PREFIX_BYTES = 12;
const HEADER_BYTES = 61;
const CODEC_MASK = 0x07;
const LOG_APPEND_TIME = 0x08;
const TRANSACTIONAL = 0x10;
const CONTROL = 0x20;
/** A record is at least this long: length, attributes, two deltas, two lengths and the number of headers, a byte each. */
const MIN_RECORD_BYTES = 7;

/** Bytes that the batches of one fetch may decompress to together; what is beyond is left for the next fetch. */
export interface Budget {
  bytesLeft: number;
}

/**
 * Reads the batches of one partition from a fetch. A last batch that was cut off is left for the next fetch.
 * Never throws: a batch that cannot be read stands as one record with `undecodable`.
 */
export async function readBatches(
  bytes: Buffer,
  decompress: Decompress,
  budget: Budget,
): Promise<RecordBatch[]> {
  const batches: RecordBatch[] = [];
  let position = 0;
  while (position + HEADER_BYTES <= bytes.length && (batches.length === 0 || budget.bytesLeft > 0)) {
    const end = position + PREFIX_BYTES + bytes.readInt32BE(position + 8);
    if (end > bytes.length || end < position + HEADER_BYTES) break;
    batches.push(await readBatch(bytes.subarray(position, end), decompress, budget));
    position = end;
  }
  return batches;
}

async function readBatch(bytes: Buffer, decompress: Decompress, budget: Budget): Promise<RecordBatch> {
  const firstOffset = Number(bytes.readBigInt64BE(0));
  const attributes = bytes.readInt16BE(21);
  const lastOffset = firstOffset + bytes.readInt32BE(23);
  const about = {
    lastOffset,
    producerId: bytes.readBigInt64BE(43),
    isTransactional: (attributes & TRANSACTIONAL) !== 0,
  };
  try {
    if (bytes[16] !== MAGIC) throw new RangeError(`message format ${bytes[16]} is not supported`);
    if (!Number.isSafeInteger(lastOffset)) throw new RangeError('an offset is beyond 2^53');
    const codec = attributes & CODEC_MASK;
    const stored = bytes.subarray(HEADER_BYTES);
    // A copy, since records keep it: they would keep the whole fetch, with what it brought of other partitions.
    const body = codec === 0 ? Buffer.from(stored) : await decompress(codec, stored);
    budget.bytesLeft -= body.length;
    const records = readRecords(body, bytes.readInt32BE(57), {
      firstOffset,
      firstTimestamp: bytes.readBigInt64BE(27),
      appendTime: (attributes & LOG_APPEND_TIME) === 0 ? null : bytes.readBigInt64BE(35),
    });
    if ((attributes & CONTROL) === 0) return { ...about, control: null, records };
    return { ...about, control: controlOf(records[0]), records: [] };
  } catch (error) {
    const undecodable = error instanceof Error ? error.message : String(error);
    const record = new FetchedRecord(
      firstOffset,
      bytes,
      NO_HEADERS,
      bytes.readBigInt64BE(35),
      bytes,
      0,
      undecodable,
    );
    return { ...about, control: null, records: [record] };
  }
}

/** A control record's key is a version and a type, 16 bits each; type 0 aborts, 1 commits. */
function controlOf(record: FetchedRecord | undefined): 'abort' | 'commit' {
  const key = record?.key;
  return key && key.length >= 4 && key.readInt16BE(2) === 0 ? 'abort' : 'commit';
}

const NO_HEADERS: Headers = Object.freeze({});

function readRecords(
  body: Buffer,
  count: number,
  batch: { firstOffset: number; firstTimestamp: bigint; appendTime: bigint | null },
): FetchedRecord[] {
  if (count < 0 || count * MIN_RECORD_BYTES > body.length)
    throw new RangeError(`${count} records do not fit into the batch`);
  const reader = new RecordReader(body, 0);
  const firstTimestamp = Number(batch.firstTimestamp);
  const records = new Array<FetchedRecord>(count);
  for (let i = 0; i < count; i++) {
    const end = reader.varint() + reader.position;
    reader.position++; // attributes: unused
    const delta = reader.varlong();
    const time =
      batch.appendTime ??
      (Number.isSafeInteger(firstTimestamp + delta)
        ? firstTimestamp + delta
        : batch.firstTimestamp + BigInt(delta));
    const offset = batch.firstOffset + reader.varint();
    const keyAt = reader.position;
    reader.skipBytes();
    const value = reader.bytes();
    records[i] = new FetchedRecord(offset, value, readHeaders(reader), time, body, keyAt);
    if (reader.position !== end) throw new RangeError('a record does not end where it says');
  }
  return records;
}

function readHeaders(reader: RecordReader): Headers {
  const count = reader.varint();
  if (count === 0) return NO_HEADERS;
  const headers = new Map<string, Buffer | Buffer[]>();
  for (let i = 0; i < count; i++) {
    const key = reader.bytes()?.toString('utf8') ?? '';
    const value = reader.bytes() ?? EMPTY;
    const earlier = headers.get(key);
    if (earlier === undefined) headers.set(key, value);
    else if (Array.isArray(earlier)) earlier.push(value);
    else headers.set(key, [earlier, value]);
  }
  return Object.fromEntries(headers);
}

const EMPTY = Buffer.alloc(0);

/** Reads what records are made of: zigzag varints, and bytes with their length in front. @throws RangeError beyond the end */
class RecordReader {
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

  /** Exact within 2^53, which no real time reaches. */
  varlong(): number {
    const start = this.position;
    let byte = this.byte();
    if (byte < 0x80) return (byte >>> 1) ^ -(byte & 1);
    let value = BigInt(byte & 0x7f);
    for (let shift = 7n; byte >= 0x80; shift += 7n) {
      if (this.position - start >= 10) throw new RangeError('a number is longer than 64 bits');
      byte = this.byte();
      value |= BigInt(byte & 0x7f) << shift;
    }
    return Number(BigInt.asIntN(64, (value >> 1n) ^ -(value & 1n)));
  }

  bytes(): Buffer | null {
    const length = this.skipBytes();
    return length < 0 ? null : this.buffer.subarray(this.position - length, this.position);
  }

  /** @returns how many bytes there are, less than 0 for null */
  skipBytes(): number {
    const length = this.varint();
    if (length <= 0) return length;
    this.position += length;
    if (this.position > this.buffer.length) throw new RangeError('a record ends beyond its batch');
    return length;
  }
}

/** What a fetch brought of one partition. */
export class Fetched {
  constructor(
    private readonly batches: readonly RecordBatch[],
    private readonly aborted: readonly AbortedTransaction[],
  ) {}

  /** Offset of the last record, whether it can be seen or not. */
  get lastOffset(): number {
    return this.batches.at(-1)?.lastOffset ?? -1;
  }

  /**
   * The records from `fromOffset` on, without transaction markers and without those of aborted transactions. A transaction is aborted
   * from the first offset that the broker names until its producer's abort marker.
   */
  visibleFrom(fromOffset: number): FetchedRecord[] {
    const begins = [...this.aborted].sort((a, b) => a.firstOffset - b.firstOffset);
    const aborting = new Set<bigint>();
    const visible: FetchedRecord[] = [];
    let next = 0;
    for (const batch of this.batches) {
      for (
        let begin = begins[next];
        begin !== undefined && begin.firstOffset <= batch.lastOffset;
        begin = begins[++next]
      ) {
        aborting.add(begin.producerId);
      }
      if (batch.control === 'abort') aborting.delete(batch.producerId);
      if (batch.control !== null || (batch.isTransactional && aborting.has(batch.producerId))) continue;
      for (const record of batch.records) {
        if (record.offset >= fromOffset || record.undecodable !== undefined) visible.push(record);
      }
    }
    return visible;
  }
}
