/**
 * The position of a partition: the offset of its next part, how far the store must have decided it, and its
 * lag (docs/rules.md, U1, U9).
 *
 * The first part after an assignment or a rewind needs a confirmed position. The store is asked how far it
 * is, and the rewind is committed.
 */

import { LostElsewhere, RewindNotCommitted } from '../intake/undecided';
import { type CommitNote, readMirroredOffset } from '../kafka/commit-notes';
import type { OffsetToCommit } from '../kafka/port';
import type { StreamRecord } from '../kafka/protocol/record';
import { messageOf } from '../lib/errors';
import type { TopicPartition } from '../lib/topic-partition';
import type { Committer } from './committer';
import type { StreamDeps } from './deps';
import type { UndecidedPartition } from './retry-wait';

/** The state of a partition, for metrics and health. */
export interface PartitionStatus extends TopicPartition {
  /**
   * Offsets between the last decided record and the high watermark. Null until a broker has reported a high
   * watermark.
   */
  readonly lag: number | null;
  /**
   * Timestamp of the first record in flight, in milliseconds since 1970.
   *
   * While no record waits: since when the high watermark is beyond the decided records, as behind an open
   * transaction.
   *
   * Null where no record waits, or before the first batch.
   */
  readonly waitsSince: number | null;
  readonly undecided: UndecidedPartition | null;
}

/** The fields of a part's first record that are kept. The whole record would keep its fetch in memory. */
export type FirstRecord = Pick<StreamRecord, 'offset' | 'timestamp'>;

export class LanePosition {
  /** First offset and high watermark of the partition, as a broker last reported them. */
  private log: { readonly start: number; readonly highWatermark: number } | null = null;
  /** The offset where the next part begins. */
  private nextOffset: number | null = null;
  /**
   * See `OffsetToCommit`. 0 where the worker that committed the offset left it out. Null where no worker has
   * set the offset: then the store has to be asked.
   */
  private decidedUpTo: number | null = 0;
  /**
   * The note beside an offset that a mirror translated from another cluster. Null for any other offset, and
   * once the store has answered about the note.
   */
  private mirroredNote: CommitNote | null = null;
  /** The offset to rewind to after the store lost decisions, until the group has committed it; else null. */
  private uncommittedRewind: number | null = null;
  private waitsSince: number | null = null;
  /** Since when the high watermark is beyond the records that can be fetched, in milliseconds since 1970. */
  private heldUpSince: number | null = null;

  constructor(
    private readonly partition: TopicPartition,
    private readonly deps: StreamDeps,
    private readonly committer: Committer,
  ) {}

  /** How far the store must have decided the partition; null where the store has to be asked. */
  get expectedUpTo(): number | null {
    return this.decidedUpTo;
  }

  /** Whether a part may begin: the store was asked where that is needed, and a rewind is committed. */
  get isConfirmed(): boolean {
    return this.decidedUpTo !== null && this.uncommittedRewind === null;
  }

  /** See `SourceListener.onPositioned`. */
  start(offset: number | null, expectedUpTo: number | null, cluster: string): void {
    this.nextOffset = offset;
    const isMirrored = expectedUpTo !== null && cluster !== this.deps.cluster.name;
    this.mirroredNote = isMirrored ? { upTo: expectedUpTo, cluster } : null;
    this.decidedUpTo = isMirrored ? null : expectedUpTo;
  }

  onHighWatermark(highWatermark: number, start: number, isIdle: boolean): void {
    this.log = { start, highWatermark };
    if (!isIdle) return;
    if (this.lag(true) === 0) this.heldUpSince = null;
    else this.heldUpSince ??= Date.now();
  }

  /** The part that begins with this record is now in front: the lane waits for its result. */
  onFront(first: FirstRecord | undefined): void {
    if (first === undefined) return;
    // The committed offset of a deleted topic does not apply to a new topic of the same name.
    this.nextOffset = first.offset;
    this.waitsSince = timeOf(first);
  }

  onIdle(): void {
    this.waitsSince = null;
  }

  /** See `PartitionStatus`. */
  status(isIdle: boolean): Pick<PartitionStatus, 'lag' | 'waitsSince'> {
    return { lag: this.lag(isIdle), waitsSince: isIdle ? this.heldUpSince : this.waitsSince };
  }

  private lag(isIdle: boolean): number | null {
    if (this.log === null) return null;
    const { start, highWatermark } = this.log;
    // Without a committed offset the partition is read from its beginning.
    const from = this.nextOffset ?? start;
    // Deleted records do not wait any more, unless they have been fetched already.
    return Math.max(0, highWatermark - (isIdle ? Math.max(start, from) : from));
  }

  /**
   * Confirms the position before the records of a part are decided.
   *
   * @param first the first record of the part. A fetch without records has none, and needs no answer of the
   * store
   * @throws RewindNotCommitted where Kafka does not accept the commit now, LostElsewhere, and Error where the
   * store does not answer now
   */
  async confirm(first: FirstRecord | undefined): Promise<void> {
    await this.commitRewind();
    if (first === undefined) return;
    this.decidedUpTo ??= await (this.mirroredNote === null
      ? this.readDecidedBefore(first.offset)
      : this.continueFromMirror(this.mirroredNote, first.offset));
  }

  /** Moves behind decided records. @returns the offset to commit */
  advance(nextOffset: number, decidedUpTo: number | null): OffsetToCommit {
    this.decidedUpTo = decidedUpTo ?? this.decidedUpTo;
    this.nextOffset = nextOffset;
    this.heldUpSince = null;
    return this.offsetToCommit(nextOffset, this.decidedUpTo);
  }

  /** Reads the partition again from the first decision that the store has lost. */
  rewindTo(lost: number): void {
    const { source, logger } = this.deps;
    // The store may have decided beyond the offset where reading begins, as of a log that was cut off. Those
    // records are answered again, and their verdicts published.
    const to = Math.min(lost, this.nextOffset ?? lost);
    source.rewindTo(this.partition, to);
    logger.error(
      {
        ...this.partition,
        from: this.mirroredNote?.upTo ?? this.decidedUpTo,
        ...clusterOf(this.mirroredNote),
        to,
      },
      'the store has lost decided events; reading them again',
    );
    this.decidedUpTo = to;
    this.mirroredNote = null;
    this.nextOffset = to;
    this.uncommittedRewind = to;
  }

  /**
   * The offset to rewind to where the store has lost decisions of another cluster. The note beside the
   * committed offset counts on them. Null where the store has them all, and for an offset of this cluster.
   *
   * @throws where the store does not answer now
   */
  async findLostElsewhere(): Promise<number | null> {
    const { mirroredNote: note } = this;
    if (note === null) return null;
    const { isKnown, decidedUpTo } = await this.readMirroredOffset(note);
    return isKnown || this.mirroredNote !== note ? null : decidedUpTo;
  }

  /**
   * Commits the rewound offset before any record is decided again. Otherwise the committed offset and its
   * note would stay ahead of the store. A worker that takes over once the store has caught up would see no
   * loss, and the verdicts decided in between would never be published.
   *
   * @throws RewindNotCommitted where Kafka does not accept the commit now
   */
  private async commitRewind(): Promise<void> {
    if (this.uncommittedRewind === null) return;
    const offset = this.uncommittedRewind;
    try {
      await this.committer.commitNow(this.offsetToCommit(offset, offset));
    } catch (error) {
      throw new RewindNotCommitted(`cannot commit the rewound offset ${offset}: ${messageOf(error)}`, {
        cause: error,
      });
    }
    this.uncommittedRewind = null;
  }

  /**
   * Finds out how far the records before an offset are decided, where no worker has set that offset: only the
   * store knows. Logs and counts the records before it that are not decided.
   *
   * @returns how far the partition is decided, at most up to this offset
   * @throws where the store does not answer now
   */
  private async readDecidedBefore(to: number): Promise<number> {
    const { readDecidedUpTo, metrics, logger } = this.deps;
    const [from = 0] = await readDecidedUpTo([this.partition]);
    if (from === 0 || from >= to) return Math.min(from, to);
    metrics.gapRecords.inc({ topic: this.partition.topic }, to - from);
    logger.error(
      { ...this.partition, from, to },
      'records were passed over: offsets were set forward, or lost',
    );
    return from;
  }

  /**
   * Continues from an offset that a mirror has translated: the records before it were decided on the other
   * cluster.
   *
   * @returns how far the partition is decided on this cluster, at most up to this offset
   * @throws LostElsewhere where the store has lost some of those decisions, Error where the store does not
   * answer now
   */
  private async continueFromMirror(note: CommitNote, offset: number): Promise<number> {
    const { recordFirstOffset, logger } = this.deps;
    const { isKnown, decidedUpTo } = await this.readMirroredOffset(note);
    if (!isKnown) throw new LostElsewhere(decidedUpTo);
    await recordFirstOffset(this.partition, offset);
    logger.info(
      { ...this.partition, offset, ...clusterOf(note), decidedThere: note.upTo },
      'the partition continues from another Kafka cluster',
    );
    this.mirroredNote = null;
    return Math.min(decidedUpTo, offset);
  }

  private readMirroredOffset(note: CommitNote) {
    const { readDecidedUpTo, cluster } = this.deps;
    return readMirroredOffset(readDecidedUpTo, cluster, this.partition, note);
  }

  /**
   * An offset with the note to commit beside it, for a partition that is decided up to `expectedUpTo`. It is
   * null, and a mirrored note stays, until a record has arrived: only then is the store asked. The next owner
   * of the partition asks it otherwise.
   */
  private offsetToCommit(offset: number, expectedUpTo: number | null): OffsetToCommit {
    if (this.mirroredNote !== null)
      return {
        ...this.partition,
        offset,
        expectedUpTo: this.mirroredNote.upTo,
        cluster: this.mirroredNote.cluster,
      };
    return { ...this.partition, offset, expectedUpTo, cluster: this.deps.cluster.name };
  }
}

/** When a record was written, in milliseconds since 1970. Null where its producer left out the time. */
export function timeOf({ timestamp }: FirstRecord): number | null {
  const time = Number(timestamp);
  return time > 0 ? time : null;
}

/** Fields of a log line. */
const clusterOf = (note: CommitNote | null) =>
  note === null ? {} : { fromCluster: note.cluster || 'the first one' };
