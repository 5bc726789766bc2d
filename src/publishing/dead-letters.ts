/**
 * Dead letters: records that get no verdict, sent on as they came, with where they came from in headers of our own (docs/rules.md, S5); and what such
 * a letter says of itself when it is read.
 */
import { createHash } from 'node:crypto';
import type { DeadLetter } from '../intake/delivery';
import { letterDetail } from '../intake/letter-detail';
import { LettersRefused } from '../intake/undecided';
import { type Encode, RecordsRefused, type Sender } from '../kafka/producer';
import { isOfLetter, isReplayed, LETTER_HEADERS, REPLAYED_HEADER } from '../kafka/protocol/headers';
import type { StreamRecord } from '../kafka/protocol/record';
import { likelyBytes, MessageEncoder, type OutgoingMessage } from '../kafka/protocol/record-batch-writer';
import { firstHeader, type Header } from '../lib/record-header';
import { Semaphore } from '../lib/semaphore';
import type { TopicPartition } from '../lib/topic-partition';

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
  /** Of its value. */
  readonly bytes: number;
}

/** Null where the record is no dead letter of ours. */
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
  };
}

/** The headers of a record but for ours: those that it had before it became a dead letter. */
export function* originalHeaders({ headers }: Pick<StreamRecord, 'headers'>): Generator<Header> {
  for (const header of headers) if (!isOfLetter(header[0])) yield header;
}

/** The headers to send a record back with: its own, and where it came from first. */
export function* replayedHeaders(
  record: Pick<StreamRecord, 'headers'>,
  { origin }: Letter,
): Generator<Header> {
  yield* itsOwn(record);
  yield [REPLAYED_HEADER, Buffer.from(origin)];
}

/**
 * The same for all dead letters of one record: of copies, which come of a crash, and of what it left each time that it was sent back. What the
 * record holds counts too, since a sender may claim any origin.
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
  for (const [name, text] of itsOwn(record)) {
    add(typeof name === 'string' ? Buffer.from(name) : name);
    add(text);
  }
  return digest.digest('base64');
}

function* itsOwn(record: Pick<StreamRecord, 'headers'>): Generator<Header> {
  for (const header of originalHeaders(record)) if (!isReplayed(header[0])) yield header;
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
    const isLarge = areLarge(letters);
    if (isLarge && !(await large.acquireWithin(DEAD_LETTERS_WITHIN_MS)))
      throw new Error(`other large records were on their way to ${topic} for ${DEAD_LETTERS_WITHIN_MS} ms`);
    try {
      await sender.send(topic, letters, encodeLetters(), {
        withinMs: end - performance.now(),
        compression: 'gzip',
        ...(isLarge && { whenOver: () => large.release() }),
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

/** Whether they come to so much that no others of such a size may be sent meanwhile. */
function areLarge(letters: readonly DeadLetter[]): boolean {
  let bytes = 0;
  for (const letter of letters) {
    bytes += likelyBytes(messageOfLetter(letter));
    if (bytes > LARGE_LETTERS_BYTES) return true;
  }
  return false;
}

/** Each letter is made when it is its turn, over the one before: all of them at once would take many times what they came as. */
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
