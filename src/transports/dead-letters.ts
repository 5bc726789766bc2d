/**
 * Dead letters: records that get no verdict, sent on as they came, with where they came from in headers of our own (docs/rules.md, S5); and what such
 * a letter says of itself when it is read.
 */
import { createHash } from 'node:crypto';
import { type DeadLetter, type Header, LettersRefused, type TopicPartition } from '../intake';
import { likelyBytes, type OutgoingMessage } from './record-batch-writer';
import type { StreamRecord } from './record-source';
import { Semaphore } from './semaphore';
import { encodeMessages, RecordsRefused, type Sender } from './sender';

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

/** Less than the store lets others wait for the locks of the batch (LOCK_TIMEOUT_MS), which it holds meanwhile. */
const DEAD_LETTERS_WITHIN_MS = 4_000;
/** Letters that hold more than this are sent while no others of such a size are: sending them takes several times their size. */
const LARGE_LETTERS_BYTES = 1024 * 1024;

/**
 * What sends dead letters, and waits until they are stored by all replicas. They are compressed: what came as a small
 * batch is not to take memory, and room in a request, as what it decompresses to.
 */
export function makeSendDeadLetters(sender: Sender, topic: string) {
  const large = new Semaphore(1);

  return async (letters: readonly DeadLetter[]): Promise<void> => {
    const end = performance.now() + DEAD_LETTERS_WITHIN_MS;
    const letterOf = new Map(letters.map((letter) => [messageOfLetter(letter), letter]));
    const messages = [...letterOf.keys()];
    const isLarge = messages.reduce((sum, message) => sum + likelyBytes(message), 0) > LARGE_LETTERS_BYTES;
    if (isLarge && !(await large.acquireWithin(DEAD_LETTERS_WITHIN_MS)))
      throw new Error(`other large records were on their way to ${topic} for ${DEAD_LETTERS_WITHIN_MS} ms`);
    try {
      await sender.send(topic, messages, encodeMessages(), {
        withinMs: end - performance.now(),
        compression: 'gzip',
        ...(isLarge && { whenOver: () => large.release() }),
      });
    } catch (error) {
      if (!(error instanceof RecordsRefused)) throw error;
      const refused = messages.flatMap((message) =>
        error.refused.has(message) ? (letterOf.get(message) ?? []) : [],
      );
      throw new LettersRefused(error.message, refused);
    }
  };
}

function messageOfLetter({ envelope, source, reason }: DeadLetter): OutgoingMessage {
  return {
    key: envelope.key,
    value: envelope.value,
    headers: [
      ...originalHeaders(envelope),
      [LETTER_HEADERS.topic, source.topic],
      [LETTER_HEADERS.partition, String(source.partition)],
      [LETTER_HEADERS.offset, String(envelope.offset)],
      [LETTER_HEADERS.timestamp, envelope.timestamp],
      [LETTER_HEADERS.reason, reason],
    ],
  };
}
