/**
 * Bytes of a partition that cannot be read: a damaged batch, a message of an old format, a record with too
 * many headers. Each becomes one record that holds the bytes and the reason.
 */
import type { RecordCursor, StreamRecord } from './record';
import { BASE_OFFSET_AT, FORMAT_AT } from './record-batch-layout';

/** Takes the place of the records in bytes that cannot be read. */
class UndecodableRecord implements StreamRecord {
  readonly key = null;
  readonly headers = [];
  readonly claims = [];
  constructor(
    readonly offset: number,
    /** All the bytes as they came. */
    readonly value: Buffer,
    readonly timestamp: string,
    /** Why the bytes cannot be read. */
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

/** A record with nothing but its bytes. @param timestamp milliseconds since 1970 */
export function undecodableRecord(
  offset: number,
  bytes: Buffer,
  timestamp: string,
  reason: string,
): StreamRecord {
  return new UndecodableRecord(offset, bytes, timestamp, reason);
}

/** @param timestamp milliseconds since 1970; -1 for bytes without a timestamp */
export function undecodable(offset: number, bytes: Buffer, timestamp: bigint, reason: string): RecordCursor {
  const records = [undecodableRecord(offset, bytes, timestamp.toString(), reason)];
  return { bytes: 0, next: () => records.pop() ?? null };
}

/** The format of a batch or of an old message; undefined where the bytes end in front of it. */
export function formatOf(bytes: Buffer): number | undefined {
  return bytes[FORMAT_AT];
}

export function notSupported(format: number | undefined): string {
  return `message format ${format} is not supported`;
}

const TIMESTAMP_AT = 18;
const TIMESTAMP_BYTES = 8;

/**
 * A message of format 0 or 1, in topics from before Kafka 0.11 and in topics that were kept in that format.
 * We read none of them: each is one undecodable record. https://kafka.apache.org/documentation/#messageset
 *
 * -  0  int64   offset; a compressed message holds other messages and has the offset of the last one
 * -  8  int32   size: the bytes that follow this field
 * - 12  uint32  CRC-32 of the bytes that follow this field
 * - 16  int8    format ("magic"): 0 or 1
 * - 17  int8    attributes
 * - 18  int64   timestamp, in format 1 only
 * - then int32 with the length of the key, the key, int32 with the length of the value, the value
 */
export class OldMessage {
  /** The fields of format 0, with neither key nor value. */
  static readonly LEAST_BYTES = 26;
  readonly firstOffset: number;
  readonly lastOffset: number;
  readonly producerId = -1n;
  readonly isTransactional = false;
  readonly isControl = false;
  readonly marker = null;
  /** Its last offset is its first: nothing in it can contradict that. */
  readonly isSound = true;

  constructor(readonly bytes: Buffer) {
    this.firstOffset = Number(bytes.readBigInt64BE(BASE_OFFSET_AT));
    this.lastOffset = this.firstOffset;
  }

  static isOne(format: number): boolean {
    return format === 0 || format === 1;
  }

  endBefore(): void {}

  open(): RecordCursor {
    const format = formatOf(this.bytes);
    const hasTimestamp = format === 1 && this.bytes.length >= TIMESTAMP_AT + TIMESTAMP_BYTES;
    const timestamp = hasTimestamp ? this.bytes.readBigInt64BE(TIMESTAMP_AT) : -1n;
    return undecodable(this.firstOffset, this.bytes, timestamp, notSupported(format));
  }
}
