/** A record of a partition, as the reader of record batches hands it over. */
import type { Header } from '../../lib/record-header';

/** Memory that a record takes beside its bytes, once it is read. */
export const RECORD_OVERHEAD_BYTES = 400;

/** A value within the bytes of its batch, JSON or not. */
export interface JsonBytes {
  readonly type: 'json';
  /** Null for a record without a value. */
  readonly bytes: Buffer | null;
  readonly from?: number;
  readonly to?: number;
}

/** A record whose value is not decoded yet. */
export interface StreamRecord {
  readonly offset: number;
  /** Milliseconds since 1970, as decimal text. */
  readonly timestamp: string;
  /** The same as a number. Absent for bytes that are no record. */
  readonly sentAtMs?: number;
  readonly key: Buffer | null;
  /** The bytes of the value; null for a tombstone. */
  readonly value: Buffer | null;
  readonly headers: Iterable<Header>;
  /** Values of the `connection-id` headers. */
  readonly claims: readonly string[];
  /** The value within the bytes of its batch, or the reason why it cannot be read. */
  readonly payload: JsonBytes | { readonly type: 'undecodable'; readonly because: string };
  /**
   * Memory that the record keeps: its bytes with key and headers, and the overhead of its headers once they
   * are read.
   */
  readonly size: number;
  /** First byte of the value, by which the decoder is chosen; undefined without a value. */
  readonly firstByte: number | undefined;
  /** Why the bytes that this record represents cannot be read. */
  readonly undecodable?: string | undefined;
}

/** Reads records one after the other. */
export interface RecordCursor {
  /** Memory that the cursor holds beside its chunk: the decompressed bytes. */
  readonly bytes: number;
  /** The next record; null after the last. */
  next(): StreamRecord | null;
}

/**
 * Consecutive records, as bytes. Offsets may be missing: markers, aborted records and compacted records are
 * left out.
 */
export interface BatchRecords {
  /** Memory that the chunk holds until it is opened. */
  readonly bytes: number;
  /** The offset after this chunk; records that were left out are counted. */
  readonly nextOffset: number;
  /**
   * Opens the records, from `fromOffset` on where it is given. Returns a promise only for compressed or large
   * batches. Bytes that cannot be read become one record with the reason.
   *
   * @throws when they cannot be decompressed at present, as for a lack of memory
   */
  open(fromOffset?: number): RecordCursor | Promise<RecordCursor>;
}
