/** Answers as they are published: without the records that they answer. */

import { isUtf8 } from 'node:buffer';
import type { Fields } from '../domain/event/event';
import { idKey } from '../domain/event/id-key';
import type { Answer } from '../intake/delivery';
import type { TopicPartition } from '../lib/topic-partition';

/** An answer without its record. */
export interface PublishedAnswer
  extends Pick<
    Answer,
    'connection' | 'eventId' | 'faults' | 'decision' | 'fields' | 'decidedAt' | 'reversed'
  > {
  /**
   * Offset of the answered record; for the webhook, the place among the events that were decided together.
   */
  readonly offset: number;
  /** Replaces an event_id that is too long for any topic: its key, in hexadecimal digits. */
  readonly eventKey?: string;
  /** Replaces a round_id that is longer than MAX_TEXT_BYTES. */
  readonly roundKey?: string;
  /** Key of the answered record. Null where it has none, and for the webhook. */
  readonly recordKey?: RecordKey | null;
}

/** The key of a record: its text, its bytes where they are no text, or their number where they are many. */
export type RecordKey = string | { readonly base64: string } | { readonly bytes: number };

/** The most bytes of a round_id or a record's key in a message. */
export const MAX_TEXT_BYTES = 1_000;

/**
 * A message names its event twice, and JSON takes up to six bytes for a character. With a longer id the
 * message could be too large for any topic.
 */
const MAX_PUBLISHED_ID_LENGTH = 1024 ** 2;

/**
 * Publishes decisions. Resolves once all replicas have stored them.
 *
 * @throws NotAllPublished where some are stored, and must not be published again
 */
export type PublishVerdicts<From = TopicPartition> = (
  from: From,
  answers: readonly PublishedAnswer[],
) => Promise<void>;

/**
 * Whether a topic gets a message about the answer. A dead letter belongs to no operator. A test is published
 * nowhere (C11), since readers of the topic compute promotions.
 */
export function hasMessage({ connection, decision }: PublishedAnswer): boolean {
  if (connection === null || connection.isTest === true) return false;
  return decision.type !== 'unstored' || decision.deadLetter === null;
}

/** Some topics refused their answers. The answers to all other topics are published. */
export class NotAllPublished extends Error {
  override readonly name = 'NotAllPublished';
  constructor(
    message: string,
    readonly rest: readonly PublishedAnswer[],
    options?: ErrorOptions,
  ) {
    super(message, options);
  }
}

/** Calls `publish` for the answers that are not published yet, at each call of the result. */
export function publishingRest<From>(
  publish: PublishVerdicts<From>,
  from: From,
  answers: readonly PublishedAnswer[],
): () => Promise<void> {
  let rest = answers;
  return async () => {
    try {
      await publish(from, rest);
    } catch (error) {
      if (error instanceof NotAllPublished) rest = error.rest;
      throw error;
    }
  };
}

/**
 * Drops the record, so that the whole fetch that holds its bytes can be freed. Drops the long ids of the
 * event, too: thousands of answers wait while a topic refuses.
 */
export function withoutRecord(answer: Answer): PublishedAnswer {
  const { fields } = answer;
  const isLong =
    fields !== undefined && fields !== null && (isLongText(fields.roundId) || isLongText(fields.gameId));
  return isLong ? withoutLongIds(answer, fields) : keptOf(answer);
}

function isLongText(text: string | null): boolean {
  return text !== null && text.length * 3 > MAX_TEXT_BYTES && Buffer.byteLength(text) > MAX_TEXT_BYTES;
}

function withoutLongIds(answer: Answer, fields: Fields): PublishedAnswer {
  const { roundId } = fields;
  const isLong = isLongText(roundId);
  return {
    // No message has a game.
    ...keptOf({ ...answer, fields: { ...fields, gameId: null, roundId: isLong ? null : roundId } }),
    ...(isLong && roundId !== null && { roundKey: idKey(roundId).toString('hex') }),
  };
}

function keptOf({
  envelope: { offset, key },
  connection,
  eventId,
  faults,
  decision,
  fields = null,
  decidedAt = null,
  reversed,
}: Answer): PublishedAnswer {
  const recordKey = recordKeyOf(key);
  if (eventId === null || eventId.length <= MAX_PUBLISHED_ID_LENGTH)
    return { offset, connection, eventId, faults, decision, fields, decidedAt, reversed, recordKey };
  // The key instead of the id: an id may be as large as a batch, and an answer may wait long to be published.
  const eventKey = idKey(eventId).toString('hex');
  const rest = { connection, eventId: null, eventKey, faults, decision, fields, decidedAt, reversed };
  return { offset, recordKey, ...rest };
}

function recordKeyOf(key: Buffer | null): RecordKey | null {
  if (key === null) return null;
  if (key.length > MAX_TEXT_BYTES) return { bytes: key.length };
  return isUtf8(key) ? key.toString() : { base64: key.toString('base64') };
}
