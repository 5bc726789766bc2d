/** A record of a partition, as the reader of record batches hands it over. */
import type { Header } from '../../lib/record-header';

/** Memory that a record takes beside its bytes, once it is read. */
export const RECORD_OVERHEAD_BYTES = 400;

/** A value as it stands in the bytes of its batch, JSON or not. */
export interface JsonBytes {
  readonly type: 'json';
  /** Null for a record without a value. */
  readonly bytes: Buffer | null;
  readonly from?: number;
  readonly to?: number;
}

/** A record as it came, its value not decoded. */
export interface StreamRecord {
  readonly offset: number;
  /** Milliseconds since 1970, as decimal text. */
  readonly timestamp: string;
  readonly key: Buffer | null;
  /** Its bytes; null for a tombstone. */
  readonly value: Buffer | null;
  readonly headers: Iterable<Header>;
  /** Values of its `connection-id` headers. */
  readonly claims: readonly string[];
  /** Its value, where it stands in the bytes of its batch; or why it cannot be read. */
  readonly payload: JsonBytes | { readonly type: 'undecodable'; readonly because: string };
  /** Memory that it keeps: its bytes, those of key and headers too, and what its headers take once they are read. */
  readonly size: number;
  /** Of its value, where it has one: tells how it is to be decoded. */
  readonly firstByte: number | undefined;
  /** Why the batch that this record stands for cannot be read. */
  readonly undecodable?: string | undefined;
}

/** Gives records one after the other. */
export interface RecordCursor {
  /** What it holds of memory beside its chunk: what was decompressed. */
  readonly bytes: number;
  /** The next record; null behind the last. */
  next(): StreamRecord | null;
}

/** Consecutive records, as bytes. Offsets may be missing: markers, aborted and compacted records are left out. */
export interface BatchRecords {
  /** What it holds of memory until it is opened. */
  readonly bytes: number;
  /** Where the partition goes on after this chunk, with everything counted that was left out. */
  readonly nextOffset: number;
  /**
   * Its records, from an offset on where one is given; a promise only where they are compressed. Bytes that cannot be read are one record that
   * says so.
   *
   * @throws where they cannot be decompressed now, as for a lack of memory
   */
  open(fromOffset?: number): RecordCursor | Promise<RecordCursor>;
}
