/** What comes in and what goes out: deliveries, where they come from, and their answers. */

import type { Fault, Kind } from '../domain/event/event';
import type { Payload } from '../domain/event/payload';
import type { Connection } from '../domain/reference';
import type { Decision } from '../domain/verdict/decide';
import type { DeadLetterReason } from '../domain/verdict/reasons';
import type { Header } from '../lib/record-header';

import type { TopicPartition } from '../lib/topic-partition';

/** What a batch comes from: a Kafka partition, or the webhook. */
export type Origin = TopicPartition | WebhookRequest;

/** A request to the webhook, or several that are decided together, signed with secrets of this connection. */
export interface WebhookRequest {
  readonly connectionId: string;
  /** Of some of them, for the log. */
  readonly requestIds?: readonly string[];
}

export function isPartition<P extends TopicPartition>(origin: P | WebhookRequest): origin is P {
  return 'topic' in origin;
}

/** A delivery as a transport received it. */
export interface Envelope {
  /** The bytes as they came; null for a tombstone. */
  readonly value: Buffer | null;
  /** The same, decoded as far as the transport can. */
  readonly payload:
    | Payload
    | { readonly type: 'schema_unknown'; readonly schemaId: number }
    | { readonly type: 'undecodable'; readonly because: string }
    /** What it takes to decode it cannot be had now. */
    | { readonly type: 'unavailable'; readonly error: Error };
  /** Values of the `connection-id` header; none in a request to the webhook, which belongs to one connection. */
  readonly claims: readonly string[];
  /** Offset in the Kafka partition; of the webhook the place among the events that are decided together, from 0. */
  readonly offset: number;
  /** Key, headers and timestamp of the record, for a dead letter, which nothing of a webhook becomes. */
  readonly key: Buffer | null;
  readonly headers: Iterable<Header>;
  /** Milliseconds since 1970, as decimal text. */
  readonly timestamp: string;
}

/** What became of one envelope. */
export interface Answer {
  readonly envelope: Envelope;
  readonly connection: Connection | null;
  /** Null where the envelope holds no usable one. */
  readonly eventId: string | null;
  /** Null where it is none of the seven. */
  readonly kind: Kind | null;
  readonly faults: readonly Fault[];
  readonly decision: Decision;
}

export interface DeadLetter {
  readonly envelope: Envelope;
  readonly source: TopicPartition;
  readonly reason: DeadLetterReason;
}
