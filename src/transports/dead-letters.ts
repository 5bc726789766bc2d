/** What a dead letter says of itself: the headers by which it carries where it came from, beside those that it came with (docs/rules.md, S5). */
import { createHash } from 'node:crypto';
import type { Header, TopicPartition } from '../intake';
import type { StreamRecord } from './record-source';

/** A header of the sender with one of these names is not in a dead letter: ours stands in its place. */
export const LETTER_HEADERS = {
  topic: 'source-topic',
  partition: 'source-partition',
  offset: 'source-offset',
  timestamp: 'source-timestamp',
  reason: 'dead-letter-reason',
} as const;
const OURS: ReadonlySet<string> = new Set(Object.values(LETTER_HEADERS));
/** In a record that was sent back: where it came from first. It stays when the record becomes a dead letter again, at other coordinates. */
const REPLAYED_HEADER = 'dead-letter-replayed';

/** A record of the dead-letter topic. It knows nothing of whom the record is about. */
export interface Letter {
  /** Why it could not be given a verdict. */
  readonly reason: string;
  readonly source: TopicPartition & { readonly offset: number };
  /** Milliseconds since 1970, of the record that it was. */
  readonly sourceTimestampMs: number;
  /** Where the record came from before it was ever sent back, and when: a topic that is made anew has the same offsets again. */
  readonly origin: string;
  /** Of the dead letter itself: when it was written. */
  readonly writtenMs: number;
  readonly bytes: number;
}

/** Null where the record is no dead letter of ours. */
export function readLetter({
  headers,
  timestamp,
  size,
}: Pick<StreamRecord, 'headers' | 'timestamp' | 'size'>): Letter | null {
  const text = (wanted: string) => headers.find(([name]) => name === wanted)?.[1]?.toString('utf8');
  const topic = text(LETTER_HEADERS.topic);
  const reason = text(LETTER_HEADERS.reason);
  const [partition, offset, sourceTimestampMs] = [
    Number(text(LETTER_HEADERS.partition)),
    Number(text(LETTER_HEADERS.offset)),
    Number(text(LETTER_HEADERS.timestamp)),
  ];
  if (topic === undefined || reason === undefined) return null;
  if (!Number.isSafeInteger(partition) || !Number.isSafeInteger(offset)) return null;
  return {
    reason,
    source: { topic, partition, offset },
    sourceTimestampMs,
    origin: text(REPLAYED_HEADER) ?? `${topic}/${partition}@${offset} ${sourceTimestampMs}`,
    writtenMs: Number(timestamp),
    bytes: size,
  };
}

/** The headers of a record but for ours: those that it had before it became a dead letter. */
export function originalHeaders({ headers }: Pick<StreamRecord, 'headers'>): StreamRecord['headers'] {
  return headers.filter(([name]) => !OURS.has(name));
}

/** The headers to send a record back with: its own, and where it came from first. */
export function replayedHeaders({ headers }: Pick<StreamRecord, 'headers'>, { origin }: Letter): Header[] {
  return [...itsOwn(headers), [REPLAYED_HEADER, Buffer.from(origin)]];
}

/**
 * The same for all dead letters of one record: of copies, which come of a crash, and of what it left each time that it was sent back. What the
 * record holds counts too, since a sender may claim any origin.
 */
export function identityOf(
  { key, value, headers }: Pick<StreamRecord, 'key' | 'value' | 'headers'>,
  { origin }: Letter,
): string {
  const digest = createHash('sha256');
  const own = itsOwn(headers).flatMap(([name, text]) => [Buffer.from(name), text]);
  for (const part of [Buffer.from(origin), key, value, ...own])
    digest.update(`${part?.length ?? 'none'}:`).update(part ?? '');
  return digest.digest('base64');
}

function itsOwn(headers: readonly Header[]): Header[] {
  return headers.filter(([name]) => !OURS.has(name) && name !== REPLAYED_HEADER);
}
