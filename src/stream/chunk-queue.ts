/** Records of a partition that wait to be decided. They stay in the bytes in which they came until it is their turn. */
import type { Chunk } from '../kafka/port';
import { RECORD_OVERHEAD_BYTES, type RecordCursor, type StreamRecord } from '../kafka/protocol/record';

/** Memory that a chunk takes beside its bytes. */
const CHUNK_OVERHEAD_BYTES = 400;

/** What queues may hold at least, however many there are: two fetches of a partition. */
const LEAST_SHARE_BYTES = 1024 * 1024;
/** What queues may hold together, as long as the least share of each is no more. */
const SHARED_BYTES = 8 * LEAST_SHARE_BYTES;
/**
 * What was decompressed and waits for the next batch of its partition, of all queues together: what one batch may come to. With less, a batch of
 * very many small records would be decompressed again for each few thousand of them.
 */
const MAX_OPENED_BYTES = 64 * 1024 * 1024;

/**
 * What the queues of a worker's partitions may hold. Each has its share among those that hold something: one partition that is far behind may
 * hold enough that half of it outlasts a fetch that is under way for the others, which it has to wait for once it is resumed.
 */
export class QueueShares {
  private queues = 0;
  private openedBytes = 0;

  get bytes(): number {
    return Math.max(LEAST_SHARE_BYTES, SHARED_BYTES / Math.max(1, this.queues));
  }

  /** Queues that hold something. */
  get queuesInUse(): number {
    return this.queues;
  }

  addQueue(): void {
    this.queues++;
  }

  removeQueue(): void {
    this.queues--;
  }

  /** @returns whether so much that was decompressed may stay so while it waits */
  keepOpen(bytes: number): boolean {
    if (bytes > 0 && this.openedBytes + bytes > MAX_OPENED_BYTES) return false;
    this.openedBytes += bytes;
    return true;
  }

  release(bytes: number): void {
    this.openedBytes -= bytes;
  }
}

export class ChunkQueue {
  private readonly chunks: WaitingChunk[] = [];
  private heldBytes = 0;
  /** What of it waits decompressed. */
  private openedBytes = 0;

  constructor(private readonly shares: QueueShares) {}

  /** Memory of the chunks that wait, each until its last record is removed. */
  get bytes(): number {
    return this.heldBytes;
  }

  get isEmpty(): boolean {
    return this.chunks.length === 0;
  }

  /** Whether it holds more than its share. */
  get isFull(): boolean {
    return this.heldBytes > this.shares.bytes;
  }

  /** Whether it holds less than half of its share. */
  get isLow(): boolean {
    return this.heldBytes < this.shares.bytes / 2;
  }

  push(chunk: Chunk): void {
    if (this.isEmpty) this.shares.addQueue();
    this.chunks.push(new WaitingChunk(chunk));
    this.heldBytes += memoryOf(chunk);
  }

  clear(): void {
    if (!this.isEmpty) this.shares.removeQueue();
    this.chunks.length = 0;
    this.heldBytes = 0;
    this.releaseOpened();
  }

  /**
   * All of it stays decompressed while others are decided, until `releaseOpened`.
   *
   * @returns false where that is too much together
   */
  keepOpen(): boolean {
    this.releaseOpened();
    const bytes = this.chunks.reduce((sum, chunk) => sum + chunk.openedBytes, 0);
    if (!this.shares.keepOpen(bytes)) return false;
    this.openedBytes = bytes;
    return true;
  }

  /** What waits decompressed is in use again. */
  releaseOpened(): void {
    this.shares.release(this.openedBytes);
    this.openedBytes = 0;
  }

  /**
   * Nothing of it is being decided: what is decompressed waits so, or, where that is too much together, is decompressed anew when it is its turn.
   * Else each partition could hold as much as a batch may come to.
   */
  trimOpened(): void {
    this.releaseOpened();
    for (const chunk of this.chunks) {
      if (!chunk.isOpen) return;
      const bytes = chunk.openedBytes;
      if (this.shares.keepOpen(bytes)) this.openedBytes += bytes;
      else chunk.close();
    }
  }

  /**
   * The records at the head, or behind so many that were peeked at before: at most so many, and none more once they hold so many bytes. No further chunk
   * is opened either once so many bytes are decompressed: records keep all of it, however few of its bytes are theirs. What stands before a
   * chunk that cannot be opened now need not wait for it. Nothing is to be removed meanwhile. @throws where that is the first
   */
  async peek(maxRecords: number, maxBytes: number, behind = 0): Promise<StreamRecord[]> {
    this.releaseOpened();
    const head: StreamRecord[] = [];
    let bytes = 0;
    let openedBytes = 0;
    let skip = behind;
    for (const chunk of this.chunks) {
      const skipped = Math.min(skip, chunk.recordsRead);
      skip -= skipped;
      for (let index = skipped; ; index++) {
        if (head.length >= maxRecords || bytes >= maxBytes) return head;
        if (index === skipped && head.length > 0 && openedBytes >= maxBytes) return head;
        if (!chunk.isOpen) {
          try {
            await chunk.open();
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
      openedBytes += chunk.openedBytes;
    }
    return head;
  }

  /** Whether so many bytes wait of which nothing was peeked at yet. */
  hasUnread(bytes: number): boolean {
    let unread = 0;
    for (let index = this.chunks.length - 1; index >= 0; index--) {
      const waiting = this.chunks[index];
      if (waiting === undefined || waiting.recordsRead > 0) return false;
      unread += memoryOf(waiting.chunk);
      if (unread >= bytes) return true;
    }
    return false;
  }

  /**
   * Removes records that were peeked at from the head, and chunks that were opened and hold no further one.
   *
   * @returns where the partition goes on: behind what was left out between or after its records, too
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
      if (this.isEmpty) this.shares.removeQueue();
    }
    return nextOffset;
  }
}

function memoryOf({ bytes }: Chunk): number {
  return CHUNK_OVERHEAD_BYTES + bytes;
}

const NO_RECORDS: RecordCursor = { bytes: 0, next: () => null };

class WaitingChunk {
  private cursor: RecordCursor | null = null;
  /** Where it goes on; undefined where nothing is removed of it. */
  private nextOffset: number | undefined;
  /** Records that were read and not removed: those of the batches that are being decided. */
  private readonly records: StreamRecord[] = [];

  constructor(readonly chunk: Chunk) {}

  get isOpen(): boolean {
    return this.cursor !== null;
  }

  async open(): Promise<void> {
    this.cursor = await this.chunk.open(this.nextOffset);
  }

  get openedBytes(): number {
    return this.cursor?.bytes ?? 0;
  }

  /** So many of its records were read and are not removed. */
  get recordsRead(): number {
    return this.records.length;
  }

  close(): void {
    this.cursor = null;
    this.records.length = 0;
  }

  /** A record, counted from the first that is not removed; null behind the last. Asked for in their order. */
  recordAt(index: number): StreamRecord | null {
    if (index === this.records.length) {
      const next = this.cursor?.next() ?? null;
      if (next === null) {
        // No record of it is left, so nothing needs what was decompressed.
        if (index === 0) this.cursor &&= NO_RECORDS;
        return null;
      }
      this.records.push(next);
    }
    return this.records[index] ?? null;
  }

  /** Removes the first records that were read, at most so many. What is opened anew begins behind them. */
  remove(count: number): StreamRecord[] {
    const removed = this.records.splice(0, count);
    const last = removed.at(-1);
    if (last !== undefined) this.nextOffset = last.offset + 1;
    return removed;
  }
}
