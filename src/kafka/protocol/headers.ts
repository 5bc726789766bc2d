/** The headers of a record: how many a record may have, and how they are read where they stand, without an object for each. */
import { type Header, isNamed } from '../../lib/record-header';
import { RecordReader } from './field-reader';

/** A record of a sender may have so many headers. One with more is a dead letter `undecodable` (docs/rules.md, S4). */
export const MAX_HEADERS = 1_000;
/** Memory that a header takes once it is read, beside its bytes. */
export const HEADER_OVERHEAD_BYTES = 100;

/** A dead letter has these headers. It has none of the sender's with one of these names. */
export const LETTER_HEADERS = {
  topic: 'source-topic',
  partition: 'source-partition',
  offset: 'source-offset',
  timestamp: 'source-timestamp',
  reason: 'dead-letter-reason',
  detail: 'dead-letter-detail',
} as const;
/** In a record that was sent back: where it came from first. It stays when the record becomes a dead letter again, at other coordinates. */
export const REPLAYED_HEADER = 'dead-letter-replayed';

const OF_LETTERS: readonly string[] = Object.values(LETTER_HEADERS);
/** So many headers of ours a record may have beside the sender's own. */
const MAX_OUR_HEADERS = OF_LETTERS.length + 1;
const LONGEST_NAME = Math.max(...[...OF_LETTERS, REPLAYED_HEADER].map((name) => name.length));

/** Whether a header tells where a dead letter came from. */
export function isOfLetter(name: Header[0]): boolean {
  return name.length <= LONGEST_NAME && OF_LETTERS.includes(name.toString());
}

/** Whether a header names where a record came from that was sent back. */
export function isReplayed(name: Header[0]): boolean {
  return isNamed(name, REPLAYED_HEADER);
}

/** The headers that stand in a record's bytes. Each is read when it is its turn: a list of them would take a hundred times their bytes. */
export class StoredHeaders implements Iterable<Header> {
  constructor(
    private readonly bytes: Buffer,
    /** Where their count stands. */
    private readonly from: number,
  ) {}

  get count(): number {
    return new RecordReader(this.bytes, this.from).varint();
  }

  *[Symbol.iterator](): Generator<Header> {
    const reader = new RecordReader(this.bytes, this.from);
    for (let left = reader.varint(); left > 0; left--) yield [reader.bytes() ?? NO_NAME, reader.bytes()];
  }

  /** Whether there are more of the sender's own than a record may have. */
  get areTooMany(): boolean {
    const { count } = this;
    if (count <= MAX_HEADERS) return false;
    if (count > MAX_HEADERS + MAX_OUR_HEADERS) return true;
    let ours = 0;
    for (const [name] of this) if (isOfLetter(name) || isReplayed(name)) ours++;
    return count - ours > MAX_HEADERS;
  }

  /** Values of the headers with this name, as text, each cut off behind so many bytes. */
  valuesOf(wanted: string, maxBytes: number): string[] {
    const { bytes } = this;
    const reader = new RecordReader(bytes, this.from);
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

/** Whether the bytes that end here are this text, which is ASCII. */
function endsWith(bytes: Buffer, end: number, text: string): boolean {
  for (let index = 0; index < text.length; index++)
    if (bytes[end - text.length + index] !== text.charCodeAt(index)) return false;
  return true;
}

const NO_NAME = '';
