/**
 * The headers of a record: their limit, and a reader that reads them from the record's bytes, without an
 * object each.
 */
import { type Header, isNamed } from '../../lib/record-header';
import { FieldReader } from './field-reader';

/**
 * The most headers of a sender's record. A record with more is a dead letter `undecodable` (docs/rules.md,
 * S4).
 */
export const MAX_HEADERS = 1_000;
/** Memory that a header takes beside its bytes once it is read. */
export const HEADER_OVERHEAD_BYTES = 100;

/** The headers of a dead letter. A sender's header with one of these names is left out of it. */
export const LETTER_HEADERS = {
  topic: 'source-topic',
  partition: 'source-partition',
  offset: 'source-offset',
  timestamp: 'source-timestamp',
  reason: 'dead-letter-reason',
  detail: 'dead-letter-detail',
} as const;
/**
 * Names the first source of a record that was sent back. The header stays when the record becomes a dead
 * letter again, at other coordinates.
 */
export const REPLAYED_HEADER = 'dead-letter-replayed';

const OF_LETTERS: readonly string[] = Object.values(LETTER_HEADERS);
/** The most headers of ours that a record may have beside the sender's own. */
const MAX_OUR_HEADERS = OF_LETTERS.length + 1;
const LONGEST_NAME = Math.max(...[...OF_LETTERS, REPLAYED_HEADER].map((name) => name.length));

/** Whether a header is one of LETTER_HEADERS. */
export function isOfLetter(name: Header[0]): boolean {
  return name.length <= LONGEST_NAME && OF_LETTERS.includes(name.toString());
}

/** Whether a header is REPLAYED_HEADER. */
export function isReplayed(name: Header[0]): boolean {
  return isNamed(name, REPLAYED_HEADER);
}

/**
 * The headers in a record's bytes: a varint with their number, then a name and a value each, both as bytes.
 * Each is read when the loop reaches it: a list of them would take a hundred times their bytes.
 */
export class StoredHeaders implements Iterable<Header> {
  constructor(
    private readonly bytes: Buffer,
    /** Position of their number. */
    private readonly from: number,
  ) {}

  get count(): number {
    return new FieldReader(this.bytes, this.from).varint();
  }

  *[Symbol.iterator](): Generator<Header> {
    const reader = new FieldReader(this.bytes, this.from);
    for (let left = reader.varint(); left > 0; left--) yield [reader.bytes() ?? NO_NAME, reader.bytes()];
  }

  /** Whether the sender's own headers are more than a record may have. */
  get areTooMany(): boolean {
    const { count } = this;
    if (count <= MAX_HEADERS) return false;
    if (count > MAX_HEADERS + MAX_OUR_HEADERS) return true;
    let ours = 0;
    for (const [name] of this) if (isOfLetter(name) || isReplayed(name)) ours++;
    return count - ours > MAX_HEADERS;
  }

  /** Values of the headers with this name, as text, each cut off after `maxBytes`. */
  valuesOf(wanted: string, maxBytes: number): string[] {
    const { bytes } = this;
    const reader = new FieldReader(bytes, this.from);
    const values: string[] = [];
    for (let left = reader.varint(); left > 0; left--) {
      const isWanted = reader.skipBytes() === wanted.length && endsWith(bytes, reader.position, wanted);
      const length = reader.skipBytes();
      if (!isWanted) continue;
      const from = reader.position - Math.max(0, length);
      values.push(bytes.toString('utf8', from, Math.min(reader.position, from + maxBytes)));
    }
    return values;
  }
}

/** Whether the bytes in front of `end` are this text, which is ASCII. */
function endsWith(bytes: Buffer, end: number, text: string): boolean {
  for (let index = 0; index < text.length; index++)
    if (bytes[end - text.length + index] !== text.charCodeAt(index)) return false;
  return true;
}

const NO_NAME = '';
