/**
 * Reads the records of a batch from its decompressed bytes. https://kafka.apache.org/documentation/#record
 *
 * - varint   length: the bytes that follow this field
 * - int8     attributes, not used
 * - varlong  timestamp, less the batch's first timestamp
 * - varint   offset, less the batch's base offset
 * - bytes    key: a varint with its length, -1 for null, then the bytes
 * - bytes    value, in the same form
 * - varint   number of headers, then name and value of each as bytes
 *
 * RecordCheck reads a whole batch first. BodyCursor and FetchedRecord then read it again without checks.
 */
import { setImmediate } from 'node:timers/promises';
import type { Header } from '../../lib/record-header';
import {
  FieldReader,
  HEADER_OVERHEAD_BYTES,
  type JsonBytes,
  MAX_HEADERS,
  type RecordCursor,
  StoredHeaders,
  type StreamRecord,
} from './record';
import { undecodableRecord } from './undecodable';

export const CONNECTION_ID_HEADER = 'connection-id';
const NO_CLAIMS: readonly string[] = [];
/** One byte more than the longest id of a connection: text that is cut off there is not an id. */
const MAX_CLAIM_BYTES = 256;
const NO_HEADERS: readonly Header[] = [];

/** The decompressed bytes of a batch, and the fields that its records have in common. */
export interface BatchBody {
  readonly bytes: Buffer;
  readonly firstOffset: number;
  readonly firstTimestamp: bigint;
  /** The timestamp of all records if the topic keeps the time of the append; otherwise null. */
  readonly appendTime: bigint | null;
}

/** A record within a batch. Fields that few callers need are read from the bytes on each access. */
class FetchedRecord implements StreamRecord {
  constructor(
    readonly offset: number,
    /** Milliseconds since the batch's first timestamp. Rounded beyond 2^53. */
    private readonly delayMs: number,
    private readonly body: BatchBody,
    /** Position of its attributes in the body. The bytes after it have been checked. */
    private readonly at: number,
    /** End of its value, and begin of its headers. */
    private readonly valueEnd: number,
    /** Less than 0 for null. */
    private readonly valueLength: number,
    /** End of the record. */
    private readonly end: number,
  ) {}

  get size(): number {
    const headers = this.body.bytes[this.valueEnd] === 0 ? 0 : this.stored.count;
    return this.end - this.at + Math.max(0, headers) * HEADER_OVERHEAD_BYTES;
  }

  get firstByte(): number | undefined {
    return this.valueLength > 0 ? this.body.bytes[this.valueEnd - this.valueLength] : undefined;
  }

  get value(): Buffer | null {
    const { valueEnd, valueLength } = this;
    return valueLength < 0 ? null : this.body.bytes.subarray(valueEnd - valueLength, valueEnd);
  }

  get payload(): JsonBytes {
    const { valueEnd, valueLength } = this;
    const bytes = valueLength < 0 ? null : this.body.bytes;
    return { type: 'json', bytes, from: valueEnd - valueLength, to: valueEnd };
  }

  get claims(): readonly string[] {
    if (this.body.bytes[this.valueEnd] === 0) return NO_CLAIMS;
    return this.stored.valuesOf(CONNECTION_ID_HEADER, MAX_CLAIM_BYTES);
  }

  get key(): Buffer | null {
    return this.reader('key').bytes();
  }

  get headers(): Iterable<Header> {
    return this.body.bytes[this.valueEnd] === 0 ? NO_HEADERS : this.stored;
  }

  /** Milliseconds since 1970, as decimal text. */
  get timestamp(): string {
    const { appendTime, firstTimestamp } = this.body;
    return (appendTime ?? firstTimestamp + this.reader('timestamp').varlong()).toString();
  }

  get sentAtMs(): number {
    const { appendTime, firstTimestamp } = this.body;
    return appendTime === null ? Number(firstTimestamp) + this.delayMs : Number(appendTime);
  }

  /** The same record as bytes alone, with the reason why nothing else of it is read. */
  asUndecodable(reason: string): StreamRecord {
    return undecodableRecord(
      this.offset,
      this.body.bytes.subarray(this.at, this.end),
      this.timestamp,
      reason,
    );
  }

  get stored(): StoredHeaders {
    return new StoredHeaders(this.body.bytes, this.valueEnd);
  }

  private reader(to: 'timestamp' | 'key'): FieldReader {
    const reader = new FieldReader(this.body.bytes, this.at + 1);
    if (to === 'timestamp') return reader;
    reader.skipNumber();
    reader.varint();
    return reader;
  }
}

/**
 * The shortest record: length, attributes, two deltas, two lengths and the number of headers, a byte each.
 */
const MIN_RECORD_BYTES = 7;
/**
 * The check notes the position of one record in this many. A batch that is opened again is read from the
 * nearest note, not from its beginning.
 */
const NOTED_RECORDS = 4_096;
/** The check reads this many records and headers without a pause. The event loop runs in between. */
const CHECKED_AT_ONCE = 50_000;

/** The result of a batch's check. It stays valid each time that the same batch is decompressed. */
export interface Layout {
  /** For every NOTED_RECORDS-th record: its offset, its position, and the number of records from it on. */
  readonly notes: readonly { readonly offset: number; readonly position: number; readonly left: number }[];
  /** Whether a record has too many headers. */
  readonly hasTooManyHeaders: boolean;
}

/** Checks that all records of a batch fit, so that they can be read without further checks. */
export class RecordCheck {
  private readonly reader: FieldReader;
  private readonly notes: { offset: number; position: number; left: number }[] = [];
  private hasTooManyHeaders = false;
  private previous = -1;
  private done = 0;

  /** @throws RangeError if the batch is too short for `count` records */
  constructor(
    private readonly body: Pick<BatchBody, 'bytes' | 'firstOffset'>,
    private readonly count: number,
    private readonly lastOffsetDelta: number,
  ) {
    if (count < 0 || count * MIN_RECORD_BYTES > body.bytes.length)
      throw new RangeError(`${count} records do not fit into the batch`);
    this.reader = new FieldReader(body.bytes, 0);
  }

  /** Checks the batch at once. @throws RangeError that names the misfit */
  now(): Layout {
    this.run(Number.POSITIVE_INFINITY);
    return this.layout;
  }

  /**
   * Checks a large batch with pauses, in which the event loop runs.
   *
   * @throws RangeError that names the misfit
   */
  async inParts(): Promise<Layout> {
    while (!this.run(CHECKED_AT_ONCE)) await setImmediate();
    return this.layout;
  }

  /** A copy: the check itself would keep the decompressed bytes in memory. */
  private get layout(): Layout {
    const { notes, hasTooManyHeaders } = this;
    return { notes, hasTooManyHeaders };
  }

  /** @returns whether the check is complete */
  private run(maxSteps: number): boolean {
    const { reader } = this;
    let steps = 0;
    for (; this.done < this.count; this.done++) {
      if (steps >= maxSteps) return false;
      const position = reader.position;
      const end = reader.varint() + reader.position;
      reader.position++; // attributes: unused
      reader.skipNumber();
      const offsetDelta = reader.varint();
      if (offsetDelta <= this.previous || offsetDelta > this.lastOffsetDelta)
        throw new RangeError("a record's offset is not of its batch");
      this.previous = offsetDelta;
      reader.skipBytes();
      reader.skipBytes();
      steps += 1 + this.skipHeaders(end);
      if (reader.position !== end || end > this.body.bytes.length)
        throw new RangeError('a record does not end where it says');
      if (this.done > 0 && this.done % NOTED_RECORDS === 0)
        this.notes.push({
          offset: this.body.firstOffset + offsetDelta,
          position,
          left: this.count - this.done,
        });
    }
    return true;
  }

  /** @returns the number of headers that were read */
  private skipHeaders(end: number): number {
    const { reader } = this;
    const { position } = reader;
    const headers = reader.varint();
    if (headers > MAX_HEADERS && new StoredHeaders(this.body.bytes, position).areTooMany) {
      this.hasTooManyHeaders = true;
      // The record becomes undecodable and nothing reads its headers: they need no check.
      if (end >= reader.position) reader.position = end;
      return 0;
    }
    for (let header = 0; header < headers; header++) {
      reader.skipBytes();
      reader.skipBytes();
    }
    return Math.max(0, headers);
  }
}

const TOO_MANY_HEADERS = `a record has more than ${MAX_HEADERS} headers`;

/** Reads the records of a batch that has passed RecordCheck. */
export class BodyCursor implements RecordCursor {
  private readonly reader: FieldReader;
  private left: number;

  /** @param bytes memory that is held beside the batch's own bytes */
  constructor(
    private readonly body: BatchBody,
    count: number,
    private readonly layout: Layout,
    private readonly fromOffset: number,
    readonly bytes: number,
  ) {
    const note = layout.notes.findLast(({ offset }) => offset <= fromOffset);
    this.reader = new FieldReader(body.bytes, note?.position ?? 0);
    this.left = note?.left ?? count;
  }

  next(): StreamRecord | null {
    const { reader } = this;
    while (this.left > 0) {
      this.left--;
      const end = reader.varint() + reader.position;
      const at = reader.position;
      reader.position++;
      const delayMs = reader.number();
      const offset = this.body.firstOffset + reader.varint();
      reader.skipBytes();
      const valueLength = reader.skipBytes();
      const valueEnd = reader.position;
      reader.position = end;
      if (offset < this.fromOffset) continue;
      const record = new FetchedRecord(offset, delayMs, this.body, at, valueEnd, valueLength, end);
      return this.layout.hasTooManyHeaders && record.stored.areTooMany
        ? record.asUndecodable(TOO_MANY_HEADERS)
        : record;
    }
    return null;
  }
}
