/**
 * Large buffers that are used again. The system fills each new page of memory with zeros, which costs more
 * than to write a message into it.
 */

/** A pool keeps no more bytes than this. */
const MOST_BYTES = 8 * 1024 * 1024;
/** Smaller buffers come from a slab of Node's. */
const LEAST_BYTES = 16 * 1024;

export class BufferPool {
  private readonly free: Buffer[] = [];
  private bytes = 0;

  /** @returns a buffer of at least this length, with any bytes in it */
  take(length: number): Buffer {
    const index = this.free.findIndex((buffer) => buffer.length >= length);
    if (index < 0) return Buffer.allocUnsafe(length);
    const [buffer] = this.free.splice(index, 1);
    this.bytes -= buffer?.length ?? 0;
    return buffer ?? Buffer.allocUnsafe(length);
  }

  /** @param buffer that nothing reads or writes any more */
  give(buffer: Buffer): void {
    if (buffer.length < LEAST_BYTES || buffer.length > MOST_BYTES) return;
    this.free.push(buffer);
    this.bytes += buffer.length;
    while (this.bytes > MOST_BYTES) this.bytes -= this.free.shift()?.length ?? 0;
  }
}
