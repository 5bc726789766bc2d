import { DecompressionError } from './compression';
import { hasChecksum } from './crc32c';
import type { BatchRecords, RecordCursor } from './record';
import { BodyCursor, type Layout, RecordCheck } from './records-reader';
import { formatOf, notSupported, OldMessage, undecodable } from './undecodable';

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
/** The records of a batch of more bytes are checked in parts. */
const CHECKED_WHOLE_BYTES = 256 * 1024;
/** Smaller buffers share one with others. */
const SHARED_BUFFER_BYTES = 64 * 1024;

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
  /** What the check of its records found; null before it. */
  private layout: Layout | null = null;

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
    const record = this.readNow(this.bytes.subarray(HEADER_BYTES), 0).next();
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
    if (codec === 0)
      return stored.length > CHECKED_WHOLE_BYTES
        ? this.read(stored, fromOffset)
        : this.readNow(stored, fromOffset);
    if (codec > LAST_CODEC) return this.undecodable(`there is no codec ${codec}`);
    return decompress(codec, stored).then(
      (body) => this.read(body, fromOffset, memoryOf(body)),
      (error: unknown) => {
        // Whatever else fails, such as a lack of memory, says nothing of the bytes.
        if (error instanceof DecompressionError) return this.undecodable(error.message);
        throw error;
      },
    );
  }

  /** @param decompressed bytes that are held beside the batch's own */
  private async read(bytes: Buffer, fromOffset: number, decompressed = 0): Promise<RecordCursor> {
    try {
      this.layout ??= await this.check(bytes).inParts();
    } catch (error) {
      return this.unfit(error);
    }
    return this.cursor(bytes, this.layout, fromOffset, decompressed);
  }

  /** The same for few bytes, at once. */
  private readNow(bytes: Buffer, fromOffset: number): RecordCursor {
    try {
      this.layout ??= this.check(bytes).now();
    } catch (error) {
      return this.unfit(error);
    }
    return this.cursor(bytes, this.layout, fromOffset, 0);
  }

  /** @throws RangeError where the records do not fit into the batch */
  private check(bytes: Buffer): RecordCheck {
    const { firstOffset, lastOffset } = this;
    if (!Number.isSafeInteger(lastOffset)) throw new RangeError('an offset is beyond 2^53');
    return new RecordCheck({ bytes, firstOffset }, this.count, lastOffset - firstOffset);
  }

  private unfit(error: unknown): RecordCursor {
    if (error instanceof RangeError) return this.undecodable(error.message);
    throw error;
  }

  private cursor(bytes: Buffer, layout: Layout, fromOffset: number, decompressed: number): RecordCursor {
    const body = {
      bytes,
      firstOffset: this.firstOffset,
      firstTimestamp: this.bytes.readBigInt64BE(27),
      appendTime: (this.attributes & LOG_APPEND_TIME) === 0 ? null : this.bytes.readBigInt64BE(35),
    };
    return new BodyCursor(body, this.count, layout, fromOffset, decompressed);
  }

  private undecodable(reason: string): RecordCursor {
    return undecodable(this.firstOffset, this.bytes, this.bytes.readBigInt64BE(35), reason);
  }
}

/** What a buffer keeps in memory: all that it is a part of. */
function memoryOf({ length, buffer }: Buffer): number {
  return length < SHARED_BUFFER_BYTES ? length : buffer.byteLength;
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
    // A copy, since batches keep it: they would keep the whole fetch, with what it brought of other partitions, and a last batch that is cut off.
    this.batches = splitBatches(Buffer.from(bytes.subarray(0, endOfWhole(bytes))));
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
  chunksFrom(fromOffset: number): BatchRecords[] {
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

/** Where the batch that begins at `position` ends; null where it is not there whole. */
function endOfBatch(bytes: Buffer, position: number): number | null {
  const format = formatOf(bytes.subarray(position));
  if (format === undefined) return null;
  const leastBytes = OldMessage.isOne(format) ? OldMessage.LEAST_BYTES : HEADER_BYTES;
  const end = position + PREFIX_BYTES + bytes.readInt32BE(position + 8);
  return end > bytes.length || end < position + leastBytes ? null : end;
}

/** Where the last batch ends that is there whole. */
function endOfWhole(bytes: Buffer): number {
  let position = 0;
  for (let end = endOfBatch(bytes, 0); end !== null; end = endOfBatch(bytes, end)) position = end;
  return position;
}

/**
 * The batches that are there whole. A last one that was cut off is left for the next fetch, and so is one that is damaged behind others: where it comes first, what stands
 * behind it says where it ends.
 */
function splitBatches(bytes: Buffer): RecordBatch[] {
  const batches: RecordBatch[] = [];
  let position = 0;
  for (let end = endOfBatch(bytes, 0); end !== null; end = endOfBatch(bytes, end)) {
    const whole = bytes.subarray(position, end);
    const isOld = OldMessage.isOne(formatOf(whole) ?? MAGIC);
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
