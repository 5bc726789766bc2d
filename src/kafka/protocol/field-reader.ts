/** A longer number may have more than 32 bits. */
const MAX_VARINT_BYTES = 4;

/**
 * Reads the fields of Kafka's records. https://kafka.apache.org/documentation/#record
 *
 * - varint, varlong: a zigzag number, 7 bits to a byte, the low bits first; the high bit marks a further byte
 * - bytes: a varint with their length, -1 for null, then the bytes
 *
 * @throws RangeError beyond the end of the buffer
 */
export class FieldReader {
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

  /** A number of up to 64 bits. */
  varlong(): bigint {
    const start = this.position;
    this.skipNumber();
    let value = 0n;
    for (let at = this.position - 1; at >= start; at--)
      value = (value << 7n) | BigInt((this.buffer[at] ?? 0) & 0x7f);
    return BigInt.asIntN(64, (value >> 1n) ^ -(value & 1n));
  }

  /**
   * A number of up to 64 bits, without an allocation where it has at most 28. Beyond 2^53 it is rounded.
   */
  number(): number {
    const start = this.position;
    this.skipNumber();
    const isLong = this.position - start > MAX_VARINT_BYTES;
    this.position = start;
    return isLong ? Number(this.varlong()) : this.varint();
  }

  skipNumber(): void {
    const start = this.position;
    while (this.byte() >= 0x80) {
      if (this.position - start >= 10) throw new RangeError('a number is longer than 64 bits');
    }
  }

  bytes(): Buffer | null {
    const length = this.skipBytes();
    return length < 0 ? null : this.buffer.subarray(this.position - length, this.position);
  }

  /** @returns the length of the bytes, less than 0 for null */
  skipBytes(): number {
    const length = this.varint();
    if (length <= 0) return length;
    this.position += length;
    if (this.position > this.buffer.length) throw new RangeError('a record ends beyond its batch');
    return length;
  }
}
