/**
 * The port between the stream and a consumer group. consumer/group-source.ts implements it for a real
 * cluster.
 */
import type { TopicPartition } from '../lib/topic-partition';
import type { BatchRecords } from './protocol/record';

/** Consecutive records of a partition. */
export interface Chunk extends TopicPartition, BatchRecords {}

/** The offset of a partition to commit, and how far the store must have decided the partition. */
export interface OffsetToCommit extends TopicPartition {
  /** Behind any offsets without a record after the last record. */
  readonly offset: number;
  /**
   * One past the last decided record: the store must have decided the partition up to here. Null where no
   * worker has set the offset, and the store has not been asked yet.
   */
  readonly expectedUpTo: number | null;
  /**
   * The store's name of the Kafka cluster that `expectedUpTo` belongs to. Absent for the store's first
   * cluster.
   */
  readonly cluster?: string;
}

/** A member of a consumer group, as the stream uses it. */
export interface RecordSource {
  /** Begins to deliver to the listener. */
  start(listener: SourceListener): Promise<void>;
  /** Delivers nothing of a partition until `resume`. */
  pause(partition: TopicPartition): void;
  resume(partition: TopicPartition): void;
  /** Delivers the partition from this offset on, and nothing that was fetched before. */
  rewindTo(partition: TopicPartition, offset: number): void;
  /**
   * Commits the offsets of partitions.
   *
   * @throws where the group has rebalanced: the records are redelivered
   */
  commit(offsets: readonly OffsetToCommit[]): Promise<void>;
  /** Leaves the group. */
  stop(): Promise<void>;
}

export interface SourceListener {
  /**
   * The group has assigned these partitions to this member, which begins at their committed offsets.
   * Everything that was delivered before is void.
   */
  onAssigned(partitions: readonly TopicPartition[]): void;
  onChunk(chunk: Chunk): void;
  /**
   * A broker answered a fetch of a partition, with records or without.
   *
   * @param offset the high watermark
   * @param start the first offset that is not deleted
   */
  onHighWatermark(partition: TopicPartition, offset: number, start: number): void;
  /**
   * Reports the committed offset of a partition, before its first chunk.
   *
   * @param offset where reading begins; null where no offset is committed
   * @param expectedUpTo see `OffsetToCommit`; null where no worker has set the offset
   * @param cluster see `OffsetToCommit`; the name of another cluster where a mirror has copied the offset
   */
  onPositioned(
    partition: TopicPartition,
    offset: number | null,
    expectedUpTo: number | null,
    cluster?: string,
  ): void;
  /** Kafka deleted the records of this many offsets before they were fetched. */
  onPassedOver(partition: TopicPartition, offsets: number): void;
  /**
   * One of this member's partitions cannot be read, and is retried from time to time. A broker refuses
   * access, the partition has no leader, or its next batch is damaged.
   *
   * An assignment clears all refusals: a partition that still cannot be read is reported again.
   *
   * @param because null once the partition can be read again
   */
  onRefused(partition: TopicPartition, because: string | null): void;
  /** The group has rebalanced, and no records were fetched for this time. */
  onRebalanced(ms: number): void;
  /** The client has fetched, or has tried to: it is alive. */
  onActive(): void;
}

/**
 * The kinds of requests that Kafka has quotas for: bytes fetched, bytes produced, and a broker's own time for
 * all other requests.
 */
export const THROTTLED_REQUESTS = ['fetch', 'produce', 'other'] as const;

export type ThrottledRequest = (typeof THROTTLED_REQUESTS)[number];

export interface Throttled {
  readonly request: ThrottledRequest;
  /** Address of the broker. */
  readonly broker: string;
  readonly ms: number;
  /**
   * For how long this broker has answered every fetch by throttling alone, this time included; 0 for other
   * requests.
   */
  readonly everyFetchForMs: number;
}

export type OnThrottled = (throttled: Throttled) => void;
