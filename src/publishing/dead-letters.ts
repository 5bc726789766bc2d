/**
 * Writes and reads dead letters: records that get no verdict. A dead letter is the unchanged record, with its
 * source in headers of our own (docs/rules.md, S5).
 */
import { createHash } from 'node:crypto';
import type { DeadLetter } from '../intake/delivery';
import { letterDetail } from '../intake/letter-detail';
import { LettersRefused } from '../intake/undecided';
import type { Encode } from '../kafka/partition-batches';
import { type Producer, RecordsRefused } from '../kafka/producer';
import {
  isOfLetter,
  isReplayed,
  LETTER_HEADERS,
  REPLAYED_HEADER,
  type StreamRecord,
} from '../kafka/protocol/record';
import { likelyBytes, MessageEncoder, type OutgoingMessage } from '../kafka/protocol/record-batch-writer';
import { firstHeader, type Header } from '../lib/record-header';
import { Semaphore } from '../lib/semaphore';
import type { TopicPartition } from '../lib/topic-partition';

/** The source and size of a record of the dead-letter topic. It names no player. */
export interface Letter {
  /** Why the record got no verdict. */
  readonly reason: string;
  readonly source: TopicPartition & { readonly offset: number };
  /** Timestamp of the source record, in milliseconds since 1970. */
  readonly sourceTimestampMs: number;
  /**
   * Source and time of the record before it was first sent back. The time distinguishes a topic that was
   * deleted and created again from the old one: both have the same offsets.
   */
  readonly origin: string;
  /** Time at which the dead letter was written. */
  readonly writtenMs: number;
  /** Length of its value. */
  readonly bytes: number;
  /** The detailed cause: the claimed connection, the schema id, or the fault of the batch. Null: none. */
  readonly detail: string | null;
}

/** The longest detail that is read. Ours are shorter, and anyone may write a longer one. */
const MAX_DETAIL_LENGTH = 400;

/** Reads a dead letter; null if the record is not one of ours. */
export function readLetter({
  headers,
  timestamp,
  value,
}: Pick<StreamRecord, 'headers' | 'timestamp' | 'value'>): Letter | null {
  const text = (wanted: string) => firstHeader(headers, wanted)?.toString('utf8');
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
    bytes: value?.length ?? 0,
    detail: text(LETTER_HEADERS.detail)?.slice(0, MAX_DETAIL_LENGTH) ?? null,
  };
}

/** The headers of a record from before it became a dead letter: all headers without ours. */
export function* originalHeaders({ headers }: Pick<StreamRecord, 'headers'>): Generator<Header> {
  for (const header of headers) if (!isOfLetter(header[0])) yield header;
}

/** The headers of a record that is sent back: its own, and its first source. */
export function* replayedHeaders(
  record: Pick<StreamRecord, 'headers'>,
  { origin }: Letter,
): Generator<Header> {
  yield* sendersHeaders(record);
  yield [REPLAYED_HEADER, Buffer.from(origin)];
}

/**
 * An identity that all dead letters of one record share: copies after a crash, and the letters from each time
 * that it was sent back. It includes the record's content, since a sender may claim any origin.
 */
export function identityOf(
  record: Pick<StreamRecord, 'key' | 'value' | 'headers'>,
  { origin }: Letter,
): string {
  const digest = createHash('sha256');
  const add = (part: Buffer | null) => {
    digest.update(`${part?.length ?? 'none'}:`).update(part ?? '');
  };
  add(Buffer.from(origin));
  add(record.key);
  add(record.value);
  for (const [name, text] of sendersHeaders(record)) {
    add(typeof name === 'string' ? Buffer.from(name) : name);
    add(text);
  }
  return digest.digest('base64');
}

function* sendersHeaders(record: Pick<StreamRecord, 'headers'>): Generator<Header> {
  for (const header of originalHeaders(record)) if (!isReplayed(header[0])) yield header;
}

/**
 * Less than LOCK_TIMEOUT_MS: the batch holds its locks meanwhile, and other batches wait for them that long.
 */
const DEAD_LETTERS_WITHIN_MS = 4_000;
/**
 * Letters with more bytes are sent alone, one batch of such a size at a time: sending takes several times
 * their size.
 */
const LARGE_LETTERS_BYTES = 1024 * 1024;

/**
 * Sends dead letters, and waits until all replicas have stored them. They are compressed: a small batch may
 * decompress to many bytes, which would take that much memory and room in a request.
 */
export function makeSendDeadLetters(producer: Producer, topic: string) {
  const large = new Semaphore(1);

  return async (letters: readonly DeadLetter[]): Promise<void> => {
    const end = performance.now() + DEAD_LETTERS_WITHIN_MS;
    const isLarge = areLarge(letters);
    if (isLarge && !(await large.acquireWithin(DEAD_LETTERS_WITHIN_MS)))
      throw new Error(`other large records were in flight to ${topic} for ${DEAD_LETTERS_WITHIN_MS} ms`);
    try {
      await producer.send(topic, letters, encodeLetters(), {
        withinMs: end - performance.now(),
        compression: 'gzip',
        ...(isLarge && { onSettled: () => large.release() }),
      });
    } catch (error) {
      if (!(error instanceof RecordsRefused)) throw error;
      throw new LettersRefused(
        error.message,
        letters.filter((letter) => error.refused.has(letter)),
      );
    }
  };
}

/** Whether the letters are so large that they must be sent alone. */
function areLarge(letters: readonly DeadLetter[]): boolean {
  let bytes = 0;
  for (const letter of letters) {
    bytes += likelyBytes(messageOfLetter(letter));
    if (bytes > LARGE_LETTERS_BYTES) return true;
  }
  return false;
}

/**
 * Encodes one letter at a time, over the one before. All letters at once would take many times the size of
 * the batch that they arrived in.
 */
function encodeLetters(): Encode<DeadLetter> {
  const encoder = new MessageEncoder();
  return (letter) => encoder.encode(messageOfLetter(letter));
}

function messageOfLetter({ envelope, source, reason }: DeadLetter): OutgoingMessage {
  return {
    key: envelope.key,
    value: envelope.value,
    headers: {
      *[Symbol.iterator]() {
        yield* originalHeaders(envelope);
        yield [LETTER_HEADERS.topic, source.topic];
        yield [LETTER_HEADERS.partition, String(source.partition)];
        yield [LETTER_HEADERS.offset, String(envelope.offset)];
        yield [LETTER_HEADERS.timestamp, envelope.timestamp];
        yield [LETTER_HEADERS.reason, reason];
        yield [LETTER_HEADERS.detail, letterDetail(envelope, reason)];
      },
    },
  };
}
