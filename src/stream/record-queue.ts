/**
 * Fetched records of a partition that wait to be decided. They stay compressed until their batch reads and
 * decodes them.
 */
import type { Envelope } from '../intake/delivery';
import type { Chunk } from '../kafka/port';
import { RECORD_OVERHEAD_BYTES, type RecordCursor, type StreamRecord } from '../kafka/protocol/record';
import { decodeRecords } from './decoding';
import type { StreamDeps } from './deps';

/** Memory of a chunk beyond its bytes. */
const CHUNK_OVERHEAD_BYTES = 400;

/** The least share of a queue, however many queues there are: two fetches of a partition. */
const LEAST_SHARE_BYTES = 1024 * 1024;
/** The limit for all queues together, as long as it gives each queue more than its least share. */
const SHARED_BYTES = 8 * LEAST_SHARE_BYTES;
/**
 * Below this fraction of its share, a queue is fetched again. The rest must last for the batches that begin
 * during the fetch. A queue that is drained in the middle of a batch falls behind the others in time.
 */
const LOW_SHARE = 3 / 4;
/**
 * Beyond this many decompressed bytes of all queues together, a queue keeps none between two batches: the
 * most that one batch may hold. With a lower limit, a batch of very many small records would be decompressed
 * again for every few thousand records.
 */
const MAX_KEPT_OPEN_BYTES = 64 * 1024 * 1024;

/** A larger chunk fills a batch alone: as many decompressed bytes as pipeline.ts allows. */
const LARGE_CHUNK_BYTES = 8 * 1024 * 1024;

/**
 * Divides memory among the queues of a worker's partitions that hold records. A single queue gets a large
 * share on purpose. The records left when its fetches resume must last until the fetch in flight for the
 * other partitions ends.
 */
export class QueueShares {
  /** The queues of all partitions. */
  readonly queues: RecordQueue[] = [];

  /** The share of each queue that holds records. */
  get bytes(): number {
    const holding = this.queues.filter(({ isEmpty }) => !isEmpty).length;
    return Math.max(LEAST_SHARE_BYTES, SHARED_BYTES / Math.max(1, holding));
  }

  /** Memory of the decompressed chunks of all queues. */
  get decompressedBytes(): number {
    return this.queues.reduce((sum, { decompressedBytes }) => sum + decompressedBytes, 0);
  }
}

export interface ReadRecords {
  readonly envelopes: readonly Envelope[];
  /** Memory that the records keep. */
  readonly bytes: number;
}

export class RecordQueue {
  private readonly chunks: WaitingChunk[] = [];
  private heldBytes = 0;
  /** Memory to expect of the next chunk. Falls by half from chunk to chunk at most. */
  private expectedBytes = 0;
  /** Records that were read, kept for the next call of `decode` until their schemas have been requested. */
  requesting: Promise<ReadRecords> | null = null;

  constructor(
    private readonly shares: QueueShares,
    private readonly wireFormat: StreamDeps['wireFormat'],
  ) {
    shares.queues.push(this);
  }

  /** Memory of the queued chunks. A chunk counts until its last record is removed. */
  get bytes(): number {
    return this.heldBytes;
  }

  get isEmpty(): boolean {
    return this.chunks.length === 0;
  }

  /** Whether it holds more than its share. Up to the least share, the other queues are not counted. */
  get isFull(): boolean {
    return this.heldBytes > LEAST_SHARE_BYTES && this.heldBytes > this.shares.bytes;
  }

  /** Whether the queue holds so little of its share that its next records should be fetched. */
  get isLow(): boolean {
    return this.heldBytes < this.shares.bytes * LOW_SHARE;
  }

  /** Whether the opened chunks may stay decompressed while other partitions are decided. */
  get mayStayOpen(): boolean {
    return this.shares.decompressedBytes <= MAX_KEPT_OPEN_BYTES;
  }

  get decompressedBytes(): number {
    return this.chunks.reduce((sum, { decompressedBytes }) => sum + decompressedBytes, 0);
  }

  /** Memory of the chunks that have no record in flight. */
  get unreadBytes(): number {
    return this.chunks.reduce((sum, chunk) => sum + (chunk.isInFlight ? 0 : chunk.memory), 0);
  }

  /** Whether the next chunk may be large. One small chunk among large ones changes little. */
  get hasLargeChunks(): boolean {
    return this.expectedBytes > LARGE_CHUNK_BYTES;
  }

  push(chunk: Chunk): void {
    const waiting = new WaitingChunk(chunk);
    this.chunks.push(waiting);
    this.heldBytes += waiting.memory;
  }

  clear(): void {
    this.chunks.length = 0;
    this.heldBytes = 0;
    this.requesting = null;
  }

  /**
   * Returns to the first record that is not removed, while no part of the lane is in flight. Opened chunks
   * are closed, and decompressed again for their batch.
   */
  readAgain(): void {
    this.requesting = null;
    for (const chunk of this.chunks) chunk.close();
  }

  /**
   * Reads as `read` does, and decodes. Where schemas are requested from the registry first, the records are
   * kept in `requesting` for the next call.
   *
   * @returns null where `requesting` has the records
   */
  async decode(maxRecords: number, maxBytes: number, mayOpen: boolean): Promise<ReadRecords | null> {
    if (this.requesting !== null) {
      const requested = await this.requesting;
      this.requesting = null;
      if (requested.envelopes.length <= maxRecords) return requested;
      // This batch may have fewer of them. Their schemas are known now.
      this.readAgain();
    }
    const records = await this.read(maxRecords, maxBytes, mayOpen);
    const bytes = records.reduce((sum, { size }) => sum + RECORD_OVERHEAD_BYTES + size, 0);
    const envelopes = decodeRecords(records, this.wireFormat);
    if (!(envelopes instanceof Promise)) return { envelopes, bytes };
    this.requesting = envelopes.then((decoded) => ({ envelopes: decoded, bytes }));
    return null;
  }

  /**
   * Reads on behind the records of earlier calls. Stops at `maxRecords`, and once the records hold
   * `maxBytes`.
   *
   * Opens no further chunk once `maxBytes` are decompressed: each record keeps its whole decompressed chunk
   * in memory. Returns the records before a chunk that cannot be opened now, so they need not wait for it.
   *
   * @param mayOpen false: reads opened chunks only
   * @throws where the first chunk to read cannot be opened
   */
  async read(maxRecords: number, maxBytes: number, mayOpen = true): Promise<StreamRecord[]> {
    const records: StreamRecord[] = [];
    let bytes = 0;
    let decompressed = 0;
    const isFull = () => records.length >= maxRecords || bytes >= maxBytes;
    // A copy: chunks in front may be removed while one is opened.
    for (const chunk of this.chunks.filter(({ isRead }) => !isRead)) {
      if (isFull() || (records.length > 0 && decompressed >= maxBytes)) return records;
      if (!chunk.isOpen) {
        if (!mayOpen) return records;
        try {
          await chunk.open();
          this.expectedBytes = Math.max(chunk.decompressedBytes, chunk.chunk.bytes, this.expectedBytes / 2);
        } catch (error) {
          if (records.length > 0) return records;
          throw error;
        }
      }
      while (!isFull()) {
        const record = chunk.next();
        if (record === null) break;
        records.push(record);
        bytes += RECORD_OVERHEAD_BYTES + record.size;
      }
      decompressed += chunk.decompressedBytes;
    }
    return records;
  }

  /**
   * Removes the records in front of an offset, which are read. Also removes opened chunks without further
   * records.
   *
   * @param offset null where no record was read
   * @returns the offset where the partition continues, behind any offsets without a record
   */
  removeUpTo(offset: number | null): number {
    let nextOffset = offset ?? -1;
    for (let first = this.chunks[0]; first?.isOpen; first = this.chunks[0]) {
      if (offset !== null) first.removeUpTo(offset);
      if (first.isInFlight || !first.isRead) break;
      nextOffset = Math.max(nextOffset, first.chunk.nextOffset);
      this.heldBytes -= first.memory;
      this.chunks.shift();
    }
    return nextOffset;
  }
}

const EMPTY: RecordCursor = { bytes: 0, next: () => null };

class WaitingChunk {
  private cursor: RecordCursor | null = null;
  /** The next record, where it has been looked at. */
  private ahead: StreamRecord | null = null;
  /** One past the last record that was read, and past the last one that was removed; 0 before. */
  private readUpTo = 0;
  private removedUpTo = 0;

  constructor(readonly chunk: Chunk) {}

  get isOpen(): boolean {
    return this.cursor !== null;
  }

  /** Whether records were read and not removed. */
  get isInFlight(): boolean {
    return this.readUpTo > this.removedUpTo;
  }

  /** Whether it is open, and all of its records were read. */
  get isRead(): boolean {
    return this.isOpen && this.peek() === null;
  }

  get memory(): number {
    return CHUNK_OVERHEAD_BYTES + this.chunk.bytes;
  }

  get decompressedBytes(): number {
    return this.cursor?.bytes ?? 0;
  }

  async open(): Promise<void> {
    this.cursor = await this.chunk.open(this.removedUpTo > 0 ? this.removedUpTo : undefined);
  }

  /** Opening it again begins behind the removed records. */
  close(): void {
    this.cursor = null;
    this.ahead = null;
    this.readUpTo = this.removedUpTo;
  }

  next(): StreamRecord | null {
    const next = this.peek();
    this.ahead = null;
    if (next !== null) this.readUpTo = next.offset + 1;
    return next;
  }

  removeUpTo(offset: number): void {
    this.removedUpTo = Math.max(this.removedUpTo, Math.min(offset, this.readUpTo));
  }

  private peek(): StreamRecord | null {
    this.ahead ??= this.cursor?.next() ?? null;
    // No record is left, so the decompressed bytes are released.
    if (this.ahead === null && !this.isInFlight) this.cursor &&= EMPTY;
    return this.ahead;
  }
}
