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
  private readonly queues = new Set<RecordQueue>();

  /** The share of each queue. */
  get bytes(): number {
    return Math.max(LEAST_SHARE_BYTES, SHARED_BYTES / Math.max(1, this.queues.size));
  }

  /** Memory of the decompressed chunks of all queues. */
  get decompressedBytes(): number {
    let bytes = 0;
    for (const { decompressedBytes } of this.queues) bytes += decompressedBytes;
    return bytes;
  }

  /** Notes whether the queue holds records now. */
  note(queue: RecordQueue): void {
    if (queue.isEmpty) this.queues.delete(queue);
    else this.queues.add(queue);
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
  /** Records at the head, kept for the next call of `decode` until their schemas have been requested. */
  requesting: Promise<ReadRecords> | null = null;

  constructor(
    private readonly shares: QueueShares,
    private readonly wireFormat: StreamDeps['wireFormat'],
  ) {}

  /** Memory of the queued chunks. A chunk counts until its last record is removed. */
  get bytes(): number {
    return this.heldBytes;
  }

  get isEmpty(): boolean {
    return this.chunks.length === 0;
  }

  /** Whether the queue holds more than its share. */
  get isFull(): boolean {
    return this.heldBytes > this.shares.bytes;
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

  /** Memory of the chunks that no batch has read from. */
  get unreadBytes(): number {
    const unread = this.chunks.slice(this.chunks.findLastIndex(({ recordsRead }) => recordsRead > 0) + 1);
    return unread.reduce((sum, { memory }) => sum + memory, 0);
  }

  /** Whether the next chunk may be large. One small chunk among large ones changes little. */
  get hasLargeChunks(): boolean {
    return this.expectedBytes > LARGE_CHUNK_BYTES;
  }

  push(chunk: Chunk): void {
    const waiting = new WaitingChunk(chunk);
    this.chunks.push(waiting);
    this.heldBytes += waiting.memory;
    this.shares.note(this);
  }

  clear(): void {
    this.chunks.length = 0;
    this.heldBytes = 0;
    this.requesting = null;
    this.shares.note(this);
  }

  /**
   * Closes opened chunks, the last first, until the limit for decompressed bytes allows the rest. No batch
   * of the partition is in flight. A closed chunk is decompressed again for its batch.
   */
  trimOpened(): void {
    for (const chunk of this.chunks.filter(({ isOpen }) => isOpen).reverse()) {
      if (this.mayStayOpen) return;
      chunk.close();
    }
  }

  /**
   * Reads as `peek` does, and decodes.
   *
   * @returns a promise in `requesting` where schemas are requested from the registry first
   */
  async decode(
    maxRecords: number,
    maxBytes: number,
    behind: number,
    mayOpen: boolean,
  ): Promise<ReadRecords | { readonly requesting: Promise<ReadRecords> }> {
    if (this.requesting !== null && behind === 0) {
      const { envelopes, bytes } = await this.requesting;
      this.requesting = null;
      return { envelopes: envelopes.slice(0, maxRecords), bytes };
    }
    const records = await this.peek(maxRecords, maxBytes, behind, mayOpen);
    const bytes = records.reduce((sum, { size }) => sum + RECORD_OVERHEAD_BYTES + size, 0);
    const envelopes = decodeRecords(records, this.wireFormat);
    if (!(envelopes instanceof Promise)) return { envelopes, bytes };
    return { requesting: envelopes.then((decoded) => ({ envelopes: decoded, bytes })) };
  }

  /**
   * Reads records at the head of the queue, or behind the first `behind` records, which earlier calls have
   * read. Stops at `maxRecords`, and once the records hold `maxBytes`. Records in front may be removed
   * meanwhile.
   *
   * Opens no further chunk once `maxBytes` are decompressed: each record keeps its whole decompressed chunk
   * in memory. Returns the records before a chunk that cannot be opened now, so they need not wait for it.
   *
   * @param mayOpen false: reads opened chunks only
   * @throws where the first chunk to read cannot be opened
   */
  async peek(maxRecords: number, maxBytes: number, behind = 0, mayOpen = true): Promise<StreamRecord[]> {
    const head: StreamRecord[] = [];
    let bytes = 0;
    let decompressed = 0;
    let skip = behind;
    // A copy: chunks in front may be removed while one is opened.
    for (const chunk of [...this.chunks]) {
      const skipped = Math.min(skip, chunk.recordsRead);
      skip -= skipped;
      const from = chunk.recordsRemoved + skipped;
      for (let index = from; ; index++) {
        if (head.length >= maxRecords || bytes >= maxBytes) return head;
        if (index === from && head.length > 0 && decompressed >= maxBytes) return head;
        if (!chunk.isOpen) {
          if (!mayOpen) return head;
          try {
            await chunk.open();
            this.expectedBytes = Math.max(chunk.decompressedBytes, chunk.chunk.bytes, this.expectedBytes / 2);
          } catch (error) {
            if (head.length > 0) return head;
            throw error;
          }
        }
        const record = chunk.recordAt(index);
        if (record === null) break;
        head.push(record);
        bytes += RECORD_OVERHEAD_BYTES + record.size;
      }
      decompressed += chunk.decompressedBytes;
    }
    return head;
  }

  /**
   * Removes records from the head after `peek` has returned them. Also removes opened chunks without further
   * records.
   *
   * @returns the offset where the partition continues, behind any offsets without a record
   */
  remove(records: number): number {
    let left = records;
    let nextOffset = -1;
    for (let first = this.chunks[0]; first?.isOpen; first = this.chunks[0]) {
      const removed = first.remove(left);
      left -= removed;
      if (removed > 0) nextOffset = first.nextOffset ?? nextOffset;
      if (first.recordAt(first.recordsRemoved) !== null) break;
      nextOffset = first.chunk.nextOffset;
      this.heldBytes -= first.memory;
      this.chunks.shift();
    }
    this.shares.note(this);
    return nextOffset;
  }
}

const EMPTY: RecordCursor = { bytes: 0, next: () => null };

class WaitingChunk {
  private cursor: RecordCursor | null = null;
  /** The offset to continue from; undefined before a record is removed. */
  nextOffset: number | undefined;
  /** Records that were read and not removed: those of the batches in flight. */
  private readonly records: StreamRecord[] = [];
  recordsRemoved = 0;

  constructor(readonly chunk: Chunk) {}

  get isOpen(): boolean {
    return this.cursor !== null;
  }

  get memory(): number {
    return CHUNK_OVERHEAD_BYTES + this.chunk.bytes;
  }

  get decompressedBytes(): number {
    return this.cursor?.bytes ?? 0;
  }

  /** Number of records that were read and not removed. */
  get recordsRead(): number {
    return this.records.length;
  }

  async open(): Promise<void> {
    this.cursor = await this.chunk.open(this.nextOffset);
  }

  close(): void {
    this.cursor = null;
    this.records.length = 0;
  }

  /**
   * The record with this number in the chunk; null behind the last one. Callers ask for records in order, and
   * for none that is removed.
   */
  recordAt(number: number): StreamRecord | null {
    const index = number - this.recordsRemoved;
    if (index === this.records.length) {
      const next = this.cursor?.next() ?? null;
      if (next === null) {
        // No record is left, so the decompressed bytes are released.
        if (index === 0) this.cursor &&= EMPTY;
        return null;
      }
      this.records.push(next);
    }
    return this.records[index] ?? null;
  }

  /**
   * Removes up to `count` records that were read, from the first on, and returns their number. Opening the
   * chunk again begins behind them.
   */
  remove(count: number): number {
    const removed = this.records.splice(0, count);
    const last = removed.at(-1);
    if (last !== undefined) this.nextOffset = last.offset + 1;
    this.recordsRemoved += removed.length;
    return removed.length;
  }
}
