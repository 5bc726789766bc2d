/** What cannot be read of a partition: a damaged batch, a message of an old format, a record with too many headers. Each is one record that says so. */
import type { RecordCursor, StreamRecord } from './record';

/** What stands in place of the records of some bytes. */
class UndecodableRecord implements StreamRecord {
  readonly key = null;
  readonly headers = [];
  readonly claims = [];
  constructor(
    readonly offset: number,
    /** All the bytes as they came. */
    readonly value: Buffer,
    readonly timestamp: string,
    /** Why they cannot be read. */
    readonly undecodable: string,
  ) {}

  get payload() {
    return { type: 'undecodable', because: this.undecodable } as const;
  }

  get size(): number {
    return this.value.length;
  }

  get firstByte(): number | undefined {
    return this.value[0];
  }
}

/** A record of which nothing but its bytes can be read. @param timestamp milliseconds since 1970 */
export function undecodableRecord(
  offset: number,
  bytes: Buffer,
  timestamp: string,
  reason: string,
): StreamRecord {
  return new UndecodableRecord(offset, bytes, timestamp, reason);
}

/** @param timestamp milliseconds since 1970; -1 where there is none */
export function undecodable(offset: number, bytes: Buffer, timestamp: bigint, reason: string): RecordCursor {
  const records = [undecodableRecord(offset, bytes, timestamp.toString(), reason)];
  return { bytes: 0, next: () => records.pop() ?? null };
}

/** Where a batch, and a message of an old format, names its format. */
const FORMAT_AT = 16;
/** Where format 1 has the time. Format 0 has none. */
const TIMESTAMP_AT = 18;

/** The format that bytes name; undefined where they end before. */
export function formatOf(bytes: Buffer): number | undefined {
  return bytes[FORMAT_AT];
}

export function notSupported(format: number | undefined): string {
  return `message format ${format} is not supported`;
}

/**
 * A message of format 0 or 1, as they are in topics that are older than Kafka 0.11, or were kept in its format.
 * One that is compressed holds others, and has the offset of their last. https://kafka.apache.org/documentation/#messageset
 */
export class OldMessage {
  /** An offset, a length, a checksum, the format, attributes, and the lengths of key and value. */
  static readonly LEAST_BYTES = 26;
  readonly firstOffset: number;
  readonly lastOffset: number;
  readonly producerId = -1n;
  readonly isTransactional = false;
  readonly isControl = false;
  readonly marker = null;
  /** Its end is where it begins. */
  readonly isSound = true;

  constructor(readonly bytes: Buffer) {
    this.firstOffset = Number(bytes.readBigInt64BE(0));
    this.lastOffset = this.firstOffset;
  }

  static isOne(format: number): boolean {
    return format === 0 || format === 1;
  }

  endsBefore(): void {}

  open(): RecordCursor {
    const format = formatOf(this.bytes);
    const hasTimestamp = format === 1 && this.bytes.length >= TIMESTAMP_AT + 8;
    const timestamp = hasTimestamp ? this.bytes.readBigInt64BE(TIMESTAMP_AT) : -1n;
    return undecodable(this.firstOffset, this.bytes, timestamp, notSupported(format));
  }
}
