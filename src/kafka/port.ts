/** The port between the stream and a consumer group: consumer/group-source.ts implements it for a real cluster. */

import type { TopicPartition } from '../lib/topic-partition';
import type { BatchRecords } from './protocol/record';

/** Consecutive records of a partition. */
export interface Chunk extends TopicPartition, BatchRecords {}

/** How far a partition is decided. */
export interface Progress extends TopicPartition {
  /** Where the group goes on: what was left out behind the last record is passed, too. */
  readonly offset: number;
  /** One past the last record that was decided: so far the store has to have decided it. Null where the offset is somebody else's, and the store is not asked yet. */
  readonly expectedUpTo: number | null;
  /** The store's name of the Kafka cluster that `expectedUpTo` is an offset of; absent for its first one. */
  readonly cluster?: string;
}

/** A consumer group's side of Kafka. */
export interface RecordSource {
  /** Begins to deliver to the listener. */
  start(listener: SourceListener): Promise<void>;
  /** Delivers no more of a partition until `resume`. */
  pause(partition: TopicPartition): void;
  resume(partition: TopicPartition): void;
  /** Delivers the partition from this offset on, and nothing more of what was fetched before. */
  rewindTo(partition: TopicPartition, offset: number): void;
  /** Stores how far partitions are decided. @throws where the group has moved on: the records come again */
  commit(progress: readonly Progress[]): Promise<void>;
  /** Leaves the group. */
  stop(): Promise<void>;
}

export interface SourceListener {
  /** These partitions are ours from now on, from their committed offsets; whatever was delivered before is void. */
  onAssigned(partitions: readonly TopicPartition[]): void;
  onChunk(chunk: Chunk): void;
  /** A broker answered a fetch of a partition, with records or without: where the partition ends by now, and its first offset that is not deleted. */
  onHighWatermark(partition: TopicPartition, offset: number, start: number): void;
  /**
   * What the group has committed of a partition. Told before its first chunk.
   *
   * @param offset at which the partition begins; null where none is committed
   * @param expectedUpTo see Progress; null where the offset was set by no worker: by somebody else, or by nobody yet
   * @param cluster see Progress; another one where a mirror has copied the offset
   */
  onPositioned(
    partition: TopicPartition,
    offset: number | null,
    expectedUpTo: number | null,
    cluster?: string,
  ): void;
  /** So many offsets were passed over: Kafka has deleted their records before they were fetched. */
  onPassedOver(partition: TopicPartition, offsets: number): void;
  /**
   * A partition of ours cannot be read, since a broker does not let it be, it has no leader, or its next batch is damaged; it is tried again from time to time. Null once it can. Partitions that were
   * assigned anew are not refused until this is told again.
   */
  onRefused(partition: TopicPartition, because: string | null): void;
  /** The group shared its partitions out, for which nothing was fetched for so long. */
  onRebalanced(ms: number): void;
  /** The client fetched, with records or without, or it tried to: it is alive. */
  onActive(): void;
}

/** The kinds of requests that Kafka has quotas for: bytes fetched, bytes produced, and the broker's own time for anything else. */
export const THROTTLED_REQUESTS = ['fetch', 'produce', 'other'] as const;

export type ThrottledRequest = (typeof THROTTLED_REQUESTS)[number];

export interface Throttled {
  readonly request: ThrottledRequest;
  /** Address of the broker. */
  readonly broker: string;
  readonly ms: number;
  /** For how long this broker has answered every fetch by throttling alone, this time included; 0 for other requests. */
  readonly everyFetchForMs: number;
}

export type OnThrottled = (throttled: Throttled) => void;
