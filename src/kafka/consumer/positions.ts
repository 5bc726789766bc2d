/** Where a member stands in the partitions that the group has assigned to it, and what of that Kafka may contradict. */
import type { Logger } from 'pino';
import type { TopicPartition } from '../../lib/topic-partition';
import { keyOf } from '../../lib/topic-partition';
import {
  commitErrorsIn,
  TOPIC_AUTHORIZATION_FAILED,
  UNKNOWN_TOPIC_OR_PARTITION,
} from '../client/patches/fetch';
import { commitNote, readCommitNote } from '../commit-note';
import type { Progress, SourceListener } from '../port';

/** Answers to the commit of one partition, which say nothing of others. */
const ERRORS_OF_ONE: ReadonlySet<number> = new Set([UNKNOWN_TOPIC_OR_PARTITION, TOPIC_AUTHORIZATION_FAILED]);

/** What is committed, in the client's shape. */
export interface Offsets {
  readonly topics: {
    topic: string;
    partitions: { partition: number; offset: string; metadata: string }[];
  }[];
}

export class FetchPositions {
  /** Where each partition goes on: what the group has committed, until something is fetched. */
  private readonly nextOffsets = new Map<string, number>();
  /** Partitions of which something was handed over since the group last assigned its partitions. */
  private readonly handedOver = new Set<string>();
  /** Partitions that a broker did not know, or not at our offset, or did not let us commit, with how far they were fetched: what is told of them next may be of a topic that was made anew. */
  private inDoubt = new Map<string, number>();
  private hasRestarted = false;

  constructor(
    private readonly listener: Pick<SourceListener, 'onPositioned' | 'onPassedOver'>,
    private readonly logger: Logger,
  ) {}

  /** Whether a partition begins anew under what was handed over of it: only joining anew makes that void. */
  get isVoid(): boolean {
    return this.hasRestarted;
  }

  /** The group has assigned its partitions: nothing is known of them. */
  onAssigned(): void {
    this.nextOffsets.clear();
    this.handedOver.clear();
    // Anew: a commit that is under way may still be answered.
    this.inDoubt = new Map();
    this.hasRestarted = false;
  }

  /** What the group has committed of a partition, null where it has not, and the note of that. Ignored where it is known already. */
  onCommitted(partition: TopicPartition, offset: number | null, note: string | null): void {
    const key = keyOf(partition);
    if (this.nextOffsets.has(key)) return;
    if (offset !== null) this.nextOffsets.set(key, offset);
    const read = offset === null ? null : readCommitNote(note);
    this.listener.onPositioned(partition, offset, read?.upTo ?? null, read?.cluster);
  }

  /** A broker said where a partition ends. */
  onHighWatermark(partition: TopicPartition, offset: number): void {
    const fetchedTo = this.inDoubt.get(keyOf(partition));
    if (fetchedTo !== undefined && offset >= fetchedTo) this.inDoubt.delete(keyOf(partition));
  }

  /** What was fetched of a partition from one offset up to another is handed over. @returns false where it must not be: the log begins anew under what was handed over before */
  advance(partition: TopicPartition, fromOffset: number, nextOffset: number): boolean {
    const key = keyOf(partition);
    this.reportJump(partition, fromOffset);
    if (fromOffset < (this.nextOffsets.get(key) ?? fromOffset)) {
      if (this.handedOver.has(key)) {
        this.hasRestarted = true;
        this.inDoubt.set(key, Number.POSITIVE_INFINITY);
        return false;
      }
      // Nothing of the log before was handed over, so that nothing of it can be committed.
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

  /** Commits what is certain. @throws where Kafka does not take it, and where something of it is in doubt */
  async commit(progress: readonly Progress[], send: (offsets: Offsets) => Promise<void>): Promise<void> {
    // What is beyond all that was fetched was decided of a log that is gone, or that the store has lost: who reads it again commits it again.
    const current = progress.filter(
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
        'Kafka did not take the offset of a partition; it waits until the partition is read again',
      );
  }

  /** An offset that the log does not have any more, or not yet again, makes kafkajs go on at the log's beginning. */
  private reportJump(partition: TopicPartition, fromOffset: number): void {
    const expected = this.nextOffsets.get(keyOf(partition));
    if (expected === undefined || expected === fromOffset) return;
    const details = { ...partition, from: expected, to: fromOffset };
    if (fromOffset > expected) {
      this.listener.onPassedOver(partition, fromOffset - expected);
      this.logger.error(details, 'records were deleted before they were read');
    } else this.logger.warn(details, 'the partition begins anew; it is read from its beginning');
  }
}

function byTopic(progress: readonly Progress[]): Offsets['topics'] {
  const topics = new Map<string, { partition: number; offset: string; metadata: string }[]>();
  for (const { topic, partition, offset, expectedUpTo, cluster = '' } of progress) {
    const partitions = topics.get(topic) ?? [];
    const note = expectedUpTo === null ? null : { upTo: expectedUpTo, cluster };
    partitions.push({ partition, offset: String(offset), metadata: commitNote(note) });
    topics.set(topic, partitions);
  }
  return [...topics].map(([topic, partitions]) => ({ topic, partitions }));
}
