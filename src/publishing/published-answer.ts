/** Answers as they are published: without the records that they answer. */

import { idKey } from '../domain/event/id-key';
import type { Answer } from '../intake/delivery';
import type { TopicPartition } from '../lib/topic-partition';

/** An answer without its record. */
export interface PublishedAnswer extends Pick<Answer, 'connection' | 'eventId' | 'faults' | 'decision'> {
  /**
   * Offset of the answered record; for the webhook, the place among the events that were decided together.
   */
  readonly offset: number;
  /** Replaces an event_id that is too long for any topic: its key, in hexadecimal digits. */
  readonly eventKey?: string;
}

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

/** Drops the record, so that the whole fetch that holds its bytes can be freed. */
export function withoutRecord({
  envelope: { offset },
  connection,
  eventId,
  faults,
  decision,
}: Answer): PublishedAnswer {
  if (eventId === null || eventId.length <= MAX_PUBLISHED_ID_LENGTH)
    return { offset, connection, eventId, faults, decision };
  // The key instead of the id: an id may be as large as a batch, and an answer may wait long to be published.
  const eventKey = idKey(eventId).toString('hex');
  return { offset, connection, eventId: null, eventKey, faults, decision };
}
