/** An answer as it is published, without the record that it answers. */

import { idKey } from '../domain/event/id-key';
import type { Answer } from '../intake/delivery';
import type { TopicPartition } from '../lib/topic-partition';

/** An answer as it is published. */
export interface PublishedAnswer extends Pick<Answer, 'connection' | 'eventId' | 'faults' | 'decision'> {
  /** Of the record that is answered; of the webhook the place among the events that were decided together. */
  readonly offset: number;
  /** In place of an event_id that is too long for any topic: the key that stands for it, in hexadecimal digits. */
  readonly eventKey?: string;
}

/** A message names its event twice, and JSON takes up to six bytes for a character: with a longer id it could be too large for any topic. */
const MAX_PUBLISHED_ID_LENGTH = 1024 ** 2;

/** Publishes decisions. Resolves once they are stored by all replicas. */
export type PublishVerdicts<From = TopicPartition> = (
  from: From,
  answers: readonly PublishedAnswer[],
) => Promise<void>;

/** Its record, and with it the whole fetch in whose bytes it stands, is free to go. */
export function withoutRecord({
  envelope: { offset },
  connection,
  eventId,
  faults,
  decision,
}: Answer): PublishedAnswer {
  if (eventId === null || eventId.length <= MAX_PUBLISHED_ID_LENGTH)
    return { offset, connection, eventId, faults, decision };
  // Not the id itself: it may be as large as a batch, and answers may wait for long to be published.
  const eventKey = idKey(eventId).toString('hex');
  return { offset, connection, eventId: null, eventKey, faults, decision };
}
