/** Records of a partition that wait to be decided, in the chunks in which they came. */
import type { Chunk, StreamRecord } from './record-source';

/** Memory that a record takes beside its value. */
const RECORD_OVERHEAD_BYTES = 400;

export class ChunkQueue {
  private readonly chunks: Chunk[] = [];
  /** Records of the first chunk that are gone already. */
  private gone = 0;
  private heldBytes = 0;

  /** Memory of the records that wait. */
  get bytes(): number {
    return this.heldBytes;
  }

  get isEmpty(): boolean {
    return this.chunks.length === 0;
  }

  push(chunk: Chunk): void {
    this.chunks.push(chunk);
    for (const record of chunk.records) this.heldBytes += bytesOf(record);
  }

  /** The records at the head: at most so many, and none more once they hold so many bytes. */
  peek(maxRecords: number, maxBytes: number): StreamRecord[] {
    const head: StreamRecord[] = [];
    let bytes = 0;
    let first = this.gone;
    for (const { records } of this.chunks) {
      for (let index = first; index < records.length; index++) {
        const record = records[index];
        if (record === undefined || head.length >= maxRecords || bytes >= maxBytes) return head;
        head.push(record);
        bytes += bytesOf(record);
      }
      first = 0;
    }
    return head;
  }

  /**
   * Removes records from the head, and what follows them that holds no record.
   *
   * @returns where the partition goes on: behind what was left out between or after its records, too
   */
  remove(records: number): number {
    let left = records;
    let nextOffset = -1;
    for (let chunk = this.chunks[0]; chunk !== undefined; chunk = this.chunks[0]) {
      const end = Math.min(this.gone + left, chunk.records.length);
      left -= end - this.gone;
      for (; this.gone < end; this.gone++) {
        const record = chunk.records[this.gone];
        if (record === undefined) continue;
        this.heldBytes -= bytesOf(record);
        nextOffset = record.offset + 1;
      }
      if (end < chunk.records.length) break;
      nextOffset = chunk.nextOffset;
      this.chunks.shift();
      this.gone = 0;
    }
    return nextOffset;
  }
}

function bytesOf({ value }: StreamRecord): number {
  return RECORD_OVERHEAD_BYTES + (value === null ? 0 : value.length);
}
