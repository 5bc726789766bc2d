/**
 * Splits the bytes of a fetch into batches, and opens a batch when its records are needed.
 *
 * - record-batch-layout.ts has the layout of a batch, records-reader.ts the layout of a record.
 * - undecodable.ts has the layout of the messages of older formats.
 */
import { DecompressionError } from './compression';
import type { BatchRecords, RecordCursor } from './record';
import {
  ATTRIBUTES_AT,
  BASE_OFFSET_AT,
  CODEC_MASK,
  CONTROL,
  COUNT_AT,
  FIRST_TIMESTAMP_AT,
  FORMAT,
  HEADER_BYTES,
  hasChecksum,
  LAST_OFFSET_DELTA_AT,
  LENGTH_AT,
  LOG_APPEND_TIME,
  MAX_TIMESTAMP_AT,
  PREFIX_BYTES,
  PRODUCER_ID_AT,
  TRANSACTIONAL,
} from './record-batch-layout';
import { BodyCursor, type Layout, RecordCheck } from './records-reader';
import { formatOf, notSupported, OldMessage, undecodable } from './undecodable';

export interface AbortedTransaction {
  readonly producerId: bigint;
  readonly firstOffset: number;
}

/**
 * Decompresses bytes by the codec with this number (1 gzip, 2 snappy, 3 lz4, 4 zstd).
 *
 * @throws DecompressionError if no retry can decompress the bytes; after any other error a retry may
 */
export type Decompress = (codec: number, bytes: Buffer) => Promise<Buffer>;

const LAST_CODEC = 4;
/** The key of a transaction marker: int16 version, int16 type. */
const MARKER_TYPE_AT = 2;
const MARKER_KEY_BYTES = 4;
const ABORT_MARKER = 0;
/** The records of a larger batch are checked in parts. */
const CHECKED_WHOLE_BYTES = 256 * 1024;
/** Node may allocate a smaller buffer within one that it shares with others. */
const SHARED_BUFFER_BYTES = 64 * 1024;

/** The fields of a batch's header, and its records once it is opened. */
type StoredBatch = CurrentBatch | OldMessage;

/** A batch of format 2, as bytes. */
class CurrentBatch {
  readonly firstOffset: number;
  /** From the header, unless it is damaged: see `endBefore` and `endBySize`. */
  lastOffset: number;
  readonly producerId: bigint;
  readonly isTransactional: boolean;
  private readonly attributes: number;
  private soundness: boolean | undefined;
  /** The result of the check of its records; null before the check. */
  private layout: Layout | null = null;

  constructor(readonly bytes: Buffer) {
    this.firstOffset = Number(bytes.readBigInt64BE(BASE_OFFSET_AT));
    this.attributes = bytes.readInt16BE(ATTRIBUTES_AT);
    this.lastOffset = this.firstOffset + bytes.readInt32BE(LAST_OFFSET_DELTA_AT);
    this.producerId = bytes.readBigInt64BE(PRODUCER_ID_AT);
    this.isTransactional = (this.attributes & TRANSACTIONAL) !== 0;
  }

  /** Whether the batch is undamaged: its format is known, and its checksum fits its bytes. */
  get isSound(): boolean {
    this.soundness ??= formatOf(this.bytes) === FORMAT && hasChecksum(this.bytes);
    return this.soundness;
  }

  /** Corrects the last offset of a damaged batch: the batch ends in front of the next one. */
  endBefore(nextOffset: number): void {
    if (this.lastOffset + 1 !== nextOffset && !this.isSound)
      this.lastOffset = Math.max(this.firstOffset, nextOffset - 1);
  }

  /**
   * Corrects the last offset of a damaged batch without a next one: by the lesser of the two ends in its
   * header. A record that is skipped is lost; a record that is fetched again is not.
   */
  endBySize(): void {
    const lastOfCount = this.firstOffset + this.count - 1;
    this.lastOffset = Math.max(this.firstOffset, Math.min(this.lastOffset, lastOfCount));
  }

  /** The number of records in the header. */
  private get count(): number {
    return this.bytes.readInt32BE(COUNT_AT);
  }

  get isControl(): boolean {
    return (this.attributes & CONTROL) !== 0;
  }

  /**
   * The end of a transaction that the batch marks; null for a batch of records, and for an unreadable marker.
   */
  get marker(): 'abort' | 'commit' | null {
    if (!this.isControl || !this.isSound) return null;
    const record = this.readNow(this.bytes.subarray(HEADER_BYTES), 0).next();
    if (record?.undecodable !== undefined) return null;
    const key = record?.key;
    const isAbort = key && key.length >= MARKER_KEY_BYTES && key.readInt16BE(MARKER_TYPE_AT) === ABORT_MARKER;
    return isAbort ? 'abort' : 'commit';
  }

  /**
   * Opens the records from an offset on. Returns a promise only for compressed or large batches. A batch that
   * cannot be read becomes one undecodable record.
   */
  open(fromOffset: number, decompress: Decompress): RecordCursor | Promise<RecordCursor> {
    const stored = this.bytes.subarray(HEADER_BYTES);
    const codec = this.attributes & CODEC_MASK;
    if (formatOf(this.bytes) !== FORMAT) return this.undecodable(notSupported(formatOf(this.bytes)));
    // Brokers do not check it on a fetch: bytes that a disk has changed might decode, to another amount.
    if (!this.isSound) return this.undecodable('its checksum does not match its bytes');
    if (codec === 0)
      return stored.length > CHECKED_WHOLE_BYTES
        ? this.read(stored, fromOffset)
        : this.readNow(stored, fromOffset);
    if (codec > LAST_CODEC) return this.undecodable(`there is no codec ${codec}`);
    return decompress(codec, stored).then(
      (body) => this.read(body, fromOffset, memoryOf(body)),
      (error: unknown) => {
        // Any other failure, such as a lack of memory, is no fault of the bytes.
        if (error instanceof DecompressionError) return this.undecodable(error.message);
        throw error;
      },
    );
  }

  /** @param decompressed memory that is held beside the batch's own bytes */
  private async read(bytes: Buffer, fromOffset: number, decompressed = 0): Promise<RecordCursor> {
    try {
      this.layout ??= await this.check(bytes).inParts();
    } catch (error) {
      return this.unfit(error);
    }
    return this.cursor(bytes, this.layout, fromOffset, decompressed);
  }

  /** Reads a small batch at once. */
  private readNow(bytes: Buffer, fromOffset: number): RecordCursor {
    try {
      this.layout ??= this.check(bytes).now();
    } catch (error) {
      return this.unfit(error);
    }
    return this.cursor(bytes, this.layout, fromOffset, 0);
  }

  /** @throws RangeError if the records do not fit into the batch */
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
      firstTimestamp: this.bytes.readBigInt64BE(FIRST_TIMESTAMP_AT),
      appendTime:
        (this.attributes & LOG_APPEND_TIME) === 0 ? null : this.bytes.readBigInt64BE(MAX_TIMESTAMP_AT),
    };
    return new BodyCursor(body, this.count, layout, fromOffset, decompressed);
  }

  private undecodable(reason: string): RecordCursor {
    return undecodable(this.firstOffset, this.bytes, this.bytes.readBigInt64BE(MAX_TIMESTAMP_AT), reason);
  }
}

/** Memory that a buffer keeps: the whole buffer that it is a part of. */
function memoryOf({ length, buffer }: Buffer): number {
  return length < SHARED_BUFFER_BYTES ? length : buffer.byteLength;
}

const NO_RECORDS: RecordCursor = { bytes: 0, next: () => null };
/**
 * A closure created in `chunksFrom` would keep the whole fetch in memory while its chunk waits. This one
 * holds nothing.
 */
const openNothing = () => NO_RECORDS;

/** The batches that a fetch returned for one partition. */
export class Fetched {
  private readonly batches: readonly StoredBatch[];

  constructor(
    bytes: Buffer,
    private readonly aborted: readonly AbortedTransaction[],
    private readonly decompress: Decompress,
  ) {
    // A copy: the batches would otherwise keep the whole fetch, with other partitions and a batch that is cut
    // off.
    this.batches = splitBatches(Buffer.from(bytes.subarray(0, endOfWhole(bytes))));
  }

  /** Whether the fetch has no whole batch. */
  get isEmpty(): boolean {
    return this.batches.length === 0;
  }

  /** Offset of the last record, visible or not; -1 without a batch. */
  get lastOffset(): number {
    return this.batches.at(-1)?.lastOffset ?? -1;
  }

  /**
   * Returns a chunk for each batch, with its records from `fromOffset` on. Transaction markers and batches of
   * aborted transactions have no records. A transaction is aborted from the first offset that the broker
   * names to the abort marker of its producer.
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
      // The next marker of a producer that aborts ends that transaction, even if the marker cannot be read.
      if (batch.isControl && marker !== 'commit') aborting.delete(batch.producerId);
      const nextOffset = Math.max(batch.lastOffset + 1, fromOffset);
      if (marker !== null || (batch.isTransactional && aborting.has(batch.producerId)))
        return { bytes: 0, nextOffset, open: openNothing };
      const open = (from = fromOffset) => batch.open(from, this.decompress);
      return { bytes: batch.bytes.length, nextOffset, open };
    });
  }
}

/** End of the batch that begins at `position`; null if the batch is not whole. */
function endOfBatch(bytes: Buffer, position: number): number | null {
  const format = formatOf(bytes.subarray(position));
  if (format === undefined) return null;
  const leastBytes = OldMessage.isOne(format) ? OldMessage.LEAST_BYTES : HEADER_BYTES;
  const end = position + PREFIX_BYTES + bytes.readInt32BE(position + LENGTH_AT);
  return end > bytes.length || end < position + leastBytes ? null : end;
}

/** End of the last whole batch. */
function endOfWhole(bytes: Buffer): number {
  let position = 0;
  for (let end = endOfBatch(bytes, 0); end !== null; end = endOfBatch(bytes, end)) position = end;
  return position;
}

/**
 * Returns the whole batches. A last batch that is cut off is left for the next fetch. So is a damaged last
 * batch after others: in the next fetch it comes first, and the batch after it shows its end.
 */
function splitBatches(bytes: Buffer): StoredBatch[] {
  const batches: StoredBatch[] = [];
  let position = 0;
  for (let end = endOfBatch(bytes, 0); end !== null; end = endOfBatch(bytes, end)) {
    const whole = bytes.subarray(position, end);
    const isOld = OldMessage.isOne(formatOf(whole) ?? FORMAT);
    const batch = isOld ? new OldMessage(whole) : new CurrentBatch(whole);
    batches.at(-1)?.endBefore(batch.firstOffset);
    batches.push(batch);
    position = end;
  }
  const last = batches.at(-1);
  if (last?.isSound === false) {
    if (batches.length > 1) batches.pop();
    else last.endBySize();
  }
  return batches;
}
