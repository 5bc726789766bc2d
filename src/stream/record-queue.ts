/**
 * Fetched records of a partition that wait to be decided. They stay compressed, as they were fetched, until
 * their batch is read. Reading decodes them.
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

  /** Whether the queues hold more decompressed bytes than may stay in memory between two batches. */
  get isTooMuchOpen(): boolean {
    let bytes = 0;
    for (const { decompressedBytes } of this.queues) bytes += decompressedBytes;
    return bytes > MAX_KEPT_OPEN_BYTES;
  }

  /** @param holdsRecords whether the queue holds records now */
  note(queue: RecordQueue, holdsRecords: boolean): void {
    if (holdsRecords) this.queues.add(queue);
    else this.queues.delete(queue);
  }
}

export interface ReadRecords {
  readonly envelopes: readonly Envelope[];
  /** Memory that the records keep. */
  readonly bytes: number;
}

export const NO_RECORDS: ReadRecords = { envelopes: [], bytes: 0 };

export class RecordQueue {
  private readonly chunks: WaitingChunk[] = [];
  private heldBytes = 0;
  /** Memory to expect of the next chunk. Falls by half from chunk to chunk at most. */
  private expectedBytes = 0;
  /** A read in progress. It finds records by their place, so nothing may be removed meanwhile. */
  private peeking: Promise<unknown> | null = null;
  /** Records at the head whose schemas had to be requested from the registry, decoded. */
  private decoded: ReadRecords | null = null;

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

  push(chunk: Chunk): void {
    this.chunks.push(new WaitingChunk(chunk));
    this.shares.note(this, true);
    this.heldBytes += memoryOf(chunk);
  }

  clear(): void {
    this.chunks.length = 0;
    this.shares.note(this, false);
    this.heldBytes = 0;
    this.decoded = null;
  }

  /**
   * Whether the opened chunks may stay decompressed while other partitions are decided. Not where all queues
   * together hold too many decompressed bytes.
   */
  get mayStayOpen(): boolean {
    return !this.shares.isTooMuchOpen;
  }

  /** Memory of the decompressed chunks, which are those at the head. */
  get decompressedBytes(): number {
    let bytes = 0;
    for (const chunk of this.chunks) {
      if (!chunk.isOpen) break;
      bytes += chunk.decompressedBytes;
    }
    return bytes;
  }

  /** Whether the next chunk may be large. One small chunk among large ones changes little. */
  get hasLargeChunks(): boolean {
    return this.expectedBytes > LARGE_CHUNK_BYTES;
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
    mayOpen = true,
  ): Promise<ReadRecords | { readonly requesting: Promise<ReadRecords> }> {
    const { decoded } = this;
    if (decoded !== null && behind === 0) {
      this.decoded = null;
      return { ...decoded, envelopes: decoded.envelopes.slice(0, maxRecords) };
    }
    const records = await this.peek(maxRecords, maxBytes, behind, mayOpen);
    const bytes = records.reduce((sum, { size }) => sum + RECORD_OVERHEAD_BYTES + size, 0);
    let isRequesting = false;
    const decoding = decodeRecords(records, this.wireFormat, (answer) => {
      isRequesting = true;
      return answer;
    }).then((envelopes) => ({ envelopes, bytes }));
    if (!isRequesting) return decoding;
    // Nobody waits for it where the part is read ahead.
    decoding.catch(() => undefined);
    return { requesting: decoding };
  }

  /** Keeps records for the next call of `decode`. */
  keepDecoded(decoded: ReadRecords): void {
    this.decoded = decoded;
  }

  /**
   * Reads records at the head of the queue, or behind the first `behind` records, which earlier calls have
   * read. Stops at `maxRecords`, and once the records hold `maxBytes`.
   *
   * Opens no further chunk once `maxBytes` are decompressed: each record keeps its whole decompressed chunk
   * in memory. Returns the records before a chunk that cannot be opened now, so they need not wait for it.
   * The caller removes nothing from the queue meanwhile: see `untilRead`.
   *
   * @param mayOpen false: reads opened chunks only
   * @throws where the first chunk to read cannot be opened
   */
  peek(maxRecords: number, maxBytes: number, behind = 0, mayOpen = true): Promise<StreamRecord[]> {
    const peeked = this.read(maxRecords, maxBytes, behind, mayOpen);
    const done = (): void => {
      this.peeking = null;
    };
    this.peeking = peeked.then(done, done);
    return peeked;
  }

  /** Resolves when no read is in progress. */
  async untilRead(): Promise<void> {
    while (this.peeking !== null) await this.peeking;
  }

  private async read(
    maxRecords: number,
    maxBytes: number,
    behind: number,
    mayOpen: boolean,
  ): Promise<StreamRecord[]> {
    const head: StreamRecord[] = [];
    let bytes = 0;
    let decompressed = 0;
    let skip = behind;
    for (const chunk of this.chunks) {
      const skipped = Math.min(skip, chunk.recordsRead);
      skip -= skipped;
      for (let index = skipped; ; index++) {
        if (head.length >= maxRecords || bytes >= maxBytes) return head;
        if (index === skipped && head.length > 0 && decompressed >= maxBytes) return head;
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

  /** Memory of the chunks that no batch has read from. */
  get unreadBytes(): number {
    let unread = 0;
    for (let index = this.chunks.length - 1; index >= 0; index--) {
      const waiting = this.chunks[index];
      if (waiting === undefined || waiting.recordsRead > 0) break;
      unread += memoryOf(waiting.chunk);
    }
    return unread;
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
      left -= removed.length;
      const last = removed.at(-1);
      if (last !== undefined) nextOffset = last.offset + 1;
      if (first.recordAt(0) !== null) break;
      nextOffset = first.chunk.nextOffset;
      this.heldBytes -= memoryOf(first.chunk);
      this.chunks.shift();
      this.shares.note(this, !this.isEmpty);
    }
    return nextOffset;
  }
}

function memoryOf({ bytes }: Chunk): number {
  return CHUNK_OVERHEAD_BYTES + bytes;
}

const EMPTY: RecordCursor = { bytes: 0, next: () => null };

class WaitingChunk {
  private cursor: RecordCursor | null = null;
  /** The offset to continue from; undefined before a record is removed. */
  private nextOffset: number | undefined;
  /** Records that were read and not removed: those of the batches in flight. */
  private readonly records: StreamRecord[] = [];

  constructor(readonly chunk: Chunk) {}

  get isOpen(): boolean {
    return this.cursor !== null;
  }

  async open(): Promise<void> {
    this.cursor = await this.chunk.open(this.nextOffset);
  }

  get decompressedBytes(): number {
    return this.cursor?.bytes ?? 0;
  }

  /** Number of records that were read and not removed. */
  get recordsRead(): number {
    return this.records.length;
  }

  close(): void {
    this.cursor = null;
    this.records.length = 0;
  }

  /**
   * A record, counted from the first that is not removed; null behind the last one. Callers ask for records
   * in order.
   */
  recordAt(index: number): StreamRecord | null {
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
   * Removes up to `count` records that were read, from the first on. Opening the chunk again begins behind
   * them.
   */
  remove(count: number): StreamRecord[] {
    const removed = this.records.splice(0, count);
    const last = removed.at(-1);
    if (last !== undefined) this.nextOffset = last.offset + 1;
    return removed;
  }
}
