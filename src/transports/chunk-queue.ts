/** Records of a partition that wait to be decided. They stay in the bytes in which they came until it is their turn. */
import type { Chunk, RecordCursor, StreamRecord } from './record-source';

/** Memory that a chunk takes beside its bytes. */
const CHUNK_OVERHEAD_BYTES = 400;
/** Memory that a record takes beside its value, once it is read. */
const RECORD_OVERHEAD_BYTES = 400;

export class ChunkQueue {
  private readonly chunks: WaitingChunk[] = [];
  private heldBytes = 0;

  /** Memory of the chunks that wait, each until its last record is removed. */
  get bytes(): number {
    return this.heldBytes;
  }

  get isEmpty(): boolean {
    return this.chunks.length === 0;
  }

  push(chunk: Chunk): void {
    this.chunks.push(new WaitingChunk(chunk));
    this.heldBytes += memoryOf(chunk);
  }

  clear(): void {
    this.chunks.length = 0;
    this.heldBytes = 0;
  }

  /** The records at the head: at most so many, and none more once they hold so many bytes. */
  async peek(maxRecords: number, maxBytes: number): Promise<StreamRecord[]> {
    const head: StreamRecord[] = [];
    let bytes = 0;
    for (const chunk of this.chunks) {
      for (let index = 0; ; index++) {
        if (head.length >= maxRecords || bytes >= maxBytes) return head;
        if (!chunk.isOpen) await chunk.open();
        const record = chunk.recordAt(index);
        if (record === null) break;
        head.push(record);
        bytes += RECORD_OVERHEAD_BYTES + record.size;
      }
    }
    return head;
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
    }
    return nextOffset;
  }
}

function memoryOf({ bytes }: Chunk): number {
  return CHUNK_OVERHEAD_BYTES + bytes;
}

class WaitingChunk {
  private cursor: RecordCursor | null = null;
  /** Records that were read and not removed: those of the batch that is being decided. */
  private readonly records: StreamRecord[] = [];

  constructor(readonly chunk: Chunk) {}

  get isOpen(): boolean {
    return this.cursor !== null;
  }

  async open(): Promise<void> {
    this.cursor = await this.chunk.open();
  }

  /** A record, counted from the first that is not removed; null behind the last. Asked for in their order. */
  recordAt(index: number): StreamRecord | null {
    if (index === this.records.length) {
      const next = this.cursor?.next() ?? null;
      if (next === null) return null;
      this.records.push(next);
    }
    return this.records[index] ?? null;
  }

  /** Removes the first records that were read, at most so many. */
  remove(count: number): StreamRecord[] {
    return this.records.splice(0, count);
  }
}
