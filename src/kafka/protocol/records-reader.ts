/** The records of a batch, as they stand in its bytes once these are decompressed. https://kafka.apache.org/documentation/#record */

import { setImmediate } from 'node:timers/promises';
import type { Header } from '../../lib/record-header';
import { RecordReader } from './field-reader';
import { HEADER_OVERHEAD_BYTES, MAX_HEADERS, StoredHeaders } from './headers';
import type { JsonBytes, RecordCursor, StreamRecord } from './record';
import { undecodableRecord } from './undecodable';

const CONNECTION_ID_HEADER = 'connection-id';
const NO_CLAIMS: readonly string[] = [];
/** One byte more than the longest id of a connection: text that is cut off there is no id. */
const MAX_CLAIM_BYTES = 256;
const NO_HEADERS: readonly Header[] = [];

/** Where records stand, and what they have in common. */
export interface Body {
  readonly bytes: Buffer;
  readonly firstOffset: number;
  readonly firstTimestamp: bigint;
  /** The time of all its records, where the topic keeps the time of the append. */
  readonly appendTime: bigint | null;
}

/** A record as it stands in a batch. What few readers ask for is taken from the bytes when they do. */
class FetchedRecord implements StreamRecord {
  constructor(
    readonly offset: number,
    private readonly body: Body,
    /** Where its attributes stand in the body; what follows them has been checked. */
    private readonly at: number,
    /** Where its value ends, and its headers begin. */
    private readonly valueEnd: number,
    /** Less than 0 for null. */
    private readonly valueLength: number,
    /** Where it ends. */
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

  /** The same where nothing but its bytes is to be read of it. */
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

  private reader(to: 'timestamp' | 'key'): RecordReader {
    const reader = new RecordReader(this.body.bytes, this.at + 1);
    if (to === 'timestamp') return reader;
    reader.skipNumber();
    reader.varint();
    return reader;
  }
}

/** A record is at least this long: length, attributes, two deltas, two lengths and the number of headers, a byte each. */
const MIN_RECORD_BYTES = 7;
/** Every so many records the check notes where one begins, so that a batch that is opened again need not be read from its beginning. */
const NOTED_RECORDS = 4_096;
/** The check looks at so many records and headers in one go. Others have the processor in between. */
const CHECKED_AT_ONCE = 50_000;

/** What the check of a batch found. It holds for the same batch each time that it is decompressed. */
export interface Layout {
  /** For every NOTED_RECORDS-th record: its offset, its position, and how many records there are from it on. */
  readonly notes: readonly { readonly offset: number; readonly position: number; readonly left: number }[];
  /** Whether a record has too many headers. */
  readonly hasTooManyHeaders: boolean;
}

/** Finds what does not fit, so that the records can then be read without doubt. */
export class RecordCheck {
  private readonly reader: RecordReader;
  private readonly notes: { offset: number; position: number; left: number }[] = [];
  private hasTooManyHeaders = false;
  private previous = -1;
  private done = 0;

  /** @throws RangeError where so many records do not fit */
  constructor(
    private readonly body: Pick<Body, 'bytes' | 'firstOffset'>,
    private readonly count: number,
    private readonly lastOffsetDelta: number,
  ) {
    if (count < 0 || count * MIN_RECORD_BYTES > body.bytes.length)
      throw new RangeError(`${count} records do not fit into the batch`);
    this.reader = new RecordReader(body.bytes, 0);
  }

  /** @throws RangeError with what does not fit */
  now(): Layout {
    this.run(Number.POSITIVE_INFINITY);
    return this.layout;
  }

  /** The same for a large batch, during which the event loop goes on. */
  async inParts(): Promise<Layout> {
    while (!this.run(CHECKED_AT_ONCE)) await setImmediate();
    return this.layout;
  }

  /** Not the check itself, which would keep the decompressed bytes. */
  private get layout(): Layout {
    const { notes, hasTooManyHeaders } = this;
    return { notes, hasTooManyHeaders };
  }

  /** @returns whether all of it is checked */
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

  /** @returns how many were looked at */
  private skipHeaders(end: number): number {
    const { reader } = this;
    const { position } = reader;
    const headers = reader.varint();
    if (headers > MAX_HEADERS && new StoredHeaders(this.body.bytes, position).areTooMany) {
      this.hasTooManyHeaders = true;
      // Nobody reads them: they need not be checked.
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

/** Gives the records of a batch that is checked. */
export class BodyCursor implements RecordCursor {
  private readonly reader: RecordReader;
  private left: number;

  /** @param bytes that are held beside the batch's own */
  constructor(
    private readonly body: Body,
    count: number,
    private readonly layout: Layout,
    private readonly fromOffset: number,
    readonly bytes: number,
  ) {
    const note = layout.notes.findLast(({ offset }) => offset <= fromOffset);
    this.reader = new RecordReader(body.bytes, note?.position ?? 0);
    this.left = note?.left ?? count;
  }

  next(): StreamRecord | null {
    const { reader } = this;
    while (this.left > 0) {
      this.left--;
      const end = reader.varint() + reader.position;
      const at = reader.position;
      reader.position++;
      reader.skipNumber();
      const offset = this.body.firstOffset + reader.varint();
      reader.skipBytes();
      const valueLength = reader.skipBytes();
      const valueEnd = reader.position;
      reader.position = end;
      if (offset < this.fromOffset) continue;
      const record = new FetchedRecord(offset, this.body, at, valueEnd, valueLength, end);
      return this.layout.hasTooManyHeaders && record.stored.areTooMany
        ? record.asUndecodable(TOO_MANY_HEADERS)
        : record;
    }
    return null;
  }
}
