/**
 * The assigned partitions of a member: the fetch position of each with reasons to doubt it, and the
 * partitions that cannot be read now.
 */

import type { Consumer } from 'kafkajs';
import type { Logger } from 'pino';
import { backoffMs } from '../../lib/backoff';
import type { Clock } from '../../lib/clock';
import { keyOf, type TopicPartition } from '../../lib/topic-partition';
import {
  commitErrorsIn,
  TOPIC_AUTHORIZATION_FAILED,
  UNKNOWN_TOPIC_OR_PARTITION,
} from '../client/patches/fetch';
import { commitNote, readCommitNote } from '../commit-notes';
import type { OffsetToCommit, SourceListener } from '../port';

/** Commit errors that concern one partition alone. The commits of the other partitions are not affected. */
const ERRORS_OF_ONE: ReadonlySet<number> = new Set([UNKNOWN_TOPIC_OR_PARTITION, TOPIC_AUTHORIZATION_FAILED]);

/** Offsets to commit, in the client's format. */
export interface CommitRequest {
  readonly topics: {
    topic: string;
    partitions: { partition: number; offset: string; metadata: string }[];
  }[];
}

export class FetchPositions {
  /**
   * The next offset of each partition: the committed offset until the first fetch, then the end of the last
   * fetch.
   */
  private readonly nextOffsets = new Map<string, number>();
  /** Partitions whose records were handed over since the last assignment. */
  private readonly handedOver = new Set<string>();
  /**
   * Partitions in doubt, with the end of their last fetch. A broker did not know the partition or its offset,
   * or refused the commit. The next answer about such a partition may concern a new topic of the same name.
   */
  private inDoubt = new Map<string, number>();
  private hasRestarted = false;

  constructor(
    private readonly listener: Pick<SourceListener, 'onPositioned' | 'onPassedOver'>,
    private readonly logger: Logger,
  ) {}

  /**
   * Whether a partition has restarted from its beginning after records were handed over. Only a rejoin
   * discards those records.
   */
  get isVoid(): boolean {
    return this.hasRestarted;
  }

  /** Forgets all positions: the group has assigned its partitions. */
  onAssigned(): void {
    this.nextOffsets.clear();
    this.handedOver.clear();
    // A new map, because a commit in flight may still be answered, and marks partitions in the old map.
    this.inDoubt = new Map();
    this.hasRestarted = false;
  }

  /**
   * Takes the committed offset of a partition and its note; null where no offset is committed. Ignored once
   * the position is known.
   */
  onCommitted(partition: TopicPartition, offset: number | null, note: string | null): void {
    const key = keyOf(partition);
    if (this.nextOffsets.has(key)) return;
    if (offset !== null) this.nextOffsets.set(key, offset);
    const read = offset === null ? null : readCommitNote(note);
    this.listener.onPositioned(partition, offset, read?.upTo ?? null, read?.cluster);
  }

  /**
   * A broker reported the high watermark of a partition. A watermark at or beyond the end of the last fetch
   * ends the doubt.
   */
  onHighWatermark(partition: TopicPartition, offset: number): void {
    const fetchedTo = this.inDoubt.get(keyOf(partition));
    if (fetchedTo !== undefined && offset >= fetchedTo) this.inDoubt.delete(keyOf(partition));
  }

  /**
   * Records a fetch that is about to be handed over, with the range of its offsets.
   *
   * @returns false where it must not be handed over: the log has restarted beneath records handed over before
   */
  advance(partition: TopicPartition, fromOffset: number, nextOffset: number): boolean {
    const key = keyOf(partition);
    this.reportJump(partition, fromOffset);
    if (fromOffset < (this.nextOffsets.get(key) ?? fromOffset)) {
      if (this.handedOver.has(key)) {
        this.hasRestarted = true;
        this.inDoubt.set(key, Number.POSITIVE_INFINITY);
        return false;
      }
      // No record of the old log was handed over, so none of its offsets can be committed.
      this.inDoubt.delete(key);
    }
    this.nextOffsets.set(key, nextOffset);
    this.handedOver.add(key);
    return true;
  }

  rewindTo(partition: TopicPartition, offset: number): void {
    this.nextOffsets.set(keyOf(partition), offset);
  }

  markInDoubt(partition: TopicPartition): void {
    const key = keyOf(partition);
    this.inDoubt.set(key, Math.max(this.inDoubt.get(key) ?? 0, this.nextOffsets.get(key) ?? 0));
  }

  /**
   * Commits the offsets of partitions that are not in doubt.
   *
   * @throws where Kafka does not accept the commit, and where a partition is in doubt
   */
  async commit(
    offsets: readonly OffsetToCommit[],
    send: (request: CommitRequest) => Promise<void>,
  ): Promise<void> {
    // An offset beyond the end of the last fetch belongs to a deleted log, or to decisions that the store has
    // lost. The partition is read again, and its offset committed then.
    const current = offsets.filter(
      (each) => each.offset <= (this.nextOffsets.get(keyOf(each)) ?? each.offset),
    );
    const doubts = this.inDoubt;
    const certain = current.filter((each) => !doubts.has(keyOf(each)));
    try {
      if (certain.length > 0) await send({ topics: byTopic(certain) });
    } catch (error) {
      for (const { errorCode, ...partition } of commitErrorsIn(error))
        if (ERRORS_OF_ONE.has(errorCode) && doubts === this.inDoubt) this.markInDoubt(partition);
      throw error;
    }
    if (certain.length < current.length)
      throw new Error(
        'Kafka refused the offset of a partition; the commit waits until the partition is read again',
      );
  }

  /**
   * Reports a jump of the position. Where the log no longer has an offset, or does not have it yet, kafkajs
   * continues at the log's beginning.
   */
  private reportJump(partition: TopicPartition, fromOffset: number): void {
    const expected = this.nextOffsets.get(keyOf(partition));
    if (expected === undefined || expected === fromOffset) return;
    const details = { ...partition, from: expected, to: fromOffset };
    if (fromOffset > expected) {
      this.listener.onPassedOver(partition, fromOffset - expected);
      this.logger.error(details, 'records were deleted before they were read');
    } else this.logger.warn(details, 'the log of the partition is new; reading it from its beginning');
  }
}

function byTopic(offsets: readonly OffsetToCommit[]): CommitRequest['topics'] {
  const topics = new Map<string, { partition: number; offset: string; metadata: string }[]>();
  for (const { topic, partition, offset, expectedUpTo, cluster = '' } of offsets) {
    const partitions = topics.get(topic) ?? [];
    const note = expectedUpTo === null ? null : { upTo: expectedUpTo, cluster };
    partitions.push({ partition, offset: String(offset), metadata: commitNote(note) });
    topics.set(topic, partitions);
  }
  return [...topics].map(([topic, partitions]) => ({ topic, partitions }));
}

/** A topic that stays refused for the same reason is logged again after this time. */
const LOG_AGAIN_MS = 600_000;

interface Refused {
  readonly partition: TopicPartition;
  readonly failures: number;
  readonly nextTryAt: number;
  /** Whether fetches leave the partition out. */
  isLeftOut: boolean;
}

/**
 * Leaves refused partitions out of fetches by pausing them in the client. A broker refuses at once, so
 * without a pause one fetch would follow another without end. Also tracks the partitions that are paused for
 * other reasons, which must stay paused.
 */
export class RefusedPartitions {
  private readonly refused = new Map<string, Refused>();
  private readonly paused = new Set<string>();
  /** The last logged reason of each refused topic, and when it was logged. */
  private readonly logged = new Map<string, { readonly because: string; readonly at: number }>();

  constructor(
    private readonly client: Pick<Consumer, 'pause' | 'resume'>,
    private readonly clock: Pick<Clock, 'now'>,
    private readonly logger: Logger,
    /** Called where a partition becomes refused, and with null where it can be read again. */
    private readonly onChanged: (partition: TopicPartition, because: string | null) => void,
  ) {}

  /** Forgets pauses and refusals: after an assignment each partition is tried. */
  onAssigned(): void {
    this.refused.clear();
    this.paused.clear();
  }

  pause(partition: TopicPartition): void {
    this.paused.add(keyOf(partition));
    this.client.pause([toTopicPartitions(partition)]);
  }

  resume(partition: TopicPartition): void {
    const key = keyOf(partition);
    this.paused.delete(key);
    if (this.refused.get(key)?.isLeftOut !== true) this.client.resume([toTopicPartitions(partition)]);
  }

  /** A fetch begins: only now does the client apply a pause for certain. */
  onFetchStart(): void {
    const now = this.clock.now();
    for (const [key, refused] of this.refused) {
      const isLeftOut = now < refused.nextTryAt;
      if (isLeftOut === refused.isLeftOut) continue;
      refused.isLeftOut = isLeftOut;
      const partitions = [toTopicPartitions(refused.partition)];
      if (isLeftOut) this.client.pause(partitions);
      else if (!this.paused.has(key)) this.client.resume(partitions);
    }
  }

  refuse(partition: TopicPartition, error: Error): void {
    const key = keyOf(partition);
    const now = this.clock.now();
    const known = this.refused.get(key);
    const failures = (known?.failures ?? 0) + 1;
    this.refused.set(key, {
      partition,
      failures,
      nextTryAt: now + backoffMs(failures),
      isLeftOut: known?.isLeftOut ?? false,
    });
    if (known === undefined) this.onChanged(partition, error.message);
    const last = this.logged.get(partition.topic);
    if (last?.because === error.message && now - last.at < LOG_AGAIN_MS) return;
    this.logged.set(partition.topic, { because: error.message, at: now });
    this.logger.error(
      { ...partition, error: error.message },
      'cannot read a topic, retrying; other topics continue',
    );
  }

  /** A broker answered a fetch of the partition. */
  onAnswered(partition: TopicPartition): void {
    if (this.logged.size === 0) return;
    const { topic } = partition;
    const key = keyOf(partition);
    const known = this.refused.get(key);
    if (known !== undefined) {
      this.refused.delete(key);
      this.onChanged(partition, null);
      // A fetch from another broker was refused meanwhile, while the partition's leader moved.
      if (known.isLeftOut && !this.paused.has(key)) this.client.resume([toTopicPartitions(partition)]);
    }
    if (!this.logged.has(topic) || [...this.refused.values()].some((each) => each.partition.topic === topic))
      return;
    this.logged.delete(topic);
    this.logger.info({ topic }, 'topic is readable again');
  }
}

export function toTopicPartitions({ topic, partition }: TopicPartition): {
  topic: string;
  partitions: number[];
} {
  return { topic, partitions: [partition] };
}
