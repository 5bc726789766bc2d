/** Deliveries, their origins, and the answers to them. */

import type { Fault, Fields, Kind } from '../domain/event/event';
import type { Payload } from '../domain/event/payload';
import type { Connection } from '../domain/reference';
import type { Decision } from '../domain/verdict/decide';
import type { DeadLetterReason } from '../domain/verdict/reasons';
import type { Reversed } from '../domain/verdict/round';
import type { Header } from '../lib/record-header';
import type { TopicPartition } from '../lib/topic-partition';

/** The origin of a batch: a Kafka partition, or the webhook. */
export type Origin = TopicPartition | WebhookRequest;

/**
 * A request to the webhook, or several that are decided together. All are signed with secrets of this
 * connection.
 */
export interface WebhookRequest {
  readonly connectionId: string;
  /** The ids of some of the requests, for the log. */
  readonly requestIds?: readonly string[];
}

export function isPartition<P extends TopicPartition>(origin: P | WebhookRequest): origin is P {
  return 'topic' in origin;
}

/**
 * Envelopes of one origin in a batch: consecutive records of a Kafka partition, or events of the webhook. A
 * batch may have sections of several partitions.
 */
export interface Section<O extends Origin = Origin> {
  readonly origin: O;
  readonly envelopes: readonly Envelope[];
  /**
   * One past the last record of the partition that was answered before these envelopes. A store that has
   * decided less has lost records (StoreBehind). Absent where this worker does not continue the partition.
   */
  readonly expectedUpTo?: number | undefined;
  /**
   * Resolves once the records in front of these envelopes are decided, and rejects where they are not. The
   * batch is judged before, and decided after. Absent where no such record is in flight.
   */
  readonly front?: Promise<void> | undefined;
}

/** A delivery as a transport received it. */
export interface Envelope {
  /** The bytes as received; null for a tombstone. */
  readonly value: Buffer | null;
  /** The same bytes, decoded as far as the transport can. */
  readonly payload:
    | Payload
    | { readonly type: 'schema_unknown'; readonly schemaId: number }
    | { readonly type: 'undecodable'; readonly because: string }
    /** A dependency of the decoder is not available now. */
    | { readonly type: 'unavailable'; readonly error: Error };
  /**
   * Values of the `connection-id` header. Empty for a request to the webhook, which belongs to one
   * connection.
   */
  readonly claims: readonly string[];
  /**
   * Offset in the Kafka partition. For the webhook, the index among the events that are decided together,
   * from 0.
   */
  readonly offset: number;
  /**
   * Key, headers and timestamp of the record, for a dead letter. No event of the webhook becomes a dead
   * letter.
   */
  readonly key: Buffer | null;
  readonly headers: Iterable<Header>;
  /** Milliseconds since 1970, as decimal text. */
  readonly timestamp: string;
  /** The same as a number. Absent for a request to the webhook. */
  readonly sentAtMs?: number | undefined;
}

/** The answer to one envelope. */
export interface Answer {
  readonly envelope: Envelope;
  readonly connection: Connection | null;
  /** Null where the envelope has no usable id. */
  readonly eventId: string | null;
  /** Null where the kind is none of the seven. */
  readonly kind: Kind | null;
  readonly faults: readonly Fault[];
  readonly decision: Decision;
  /** Null where nothing is published, and where the envelope has no usable id. */
  readonly fields?: Fields | null;
  /**
   * When this delivery was first answered, in microseconds since 1970. Null where nothing is published, and
   * where the store no longer knows it.
   */
  readonly decidedAt?: bigint | null;
  /** What an accepted refund reverses; empty for a refund of a round that was refunded before. */
  readonly reversed?: readonly Reversed[] | undefined;
}

export interface DeadLetter {
  readonly envelope: Envelope;
  readonly source: TopicPartition;
  readonly reason: DeadLetterReason;
}
