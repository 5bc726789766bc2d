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

type FirstRecord = Pick<StreamRecord, 'offset' | 'timestamp'>;

/**
 * How far the store must have decided the partition. A part may begin where that is known:
 *
 *     unknown, mirrored ──the store has answered──▶ known ◀──committed── rewound
 *              └──────────────decisions are lost──────┴─────────────────────▲
 */
type Expectation =
  /** `upTo` is 0 where the worker that committed the offset left it out. See `OffsetToCommit`. */
  | { readonly type: 'known' | 'rewound'; readonly upTo: number }
  /** No worker has set the offset: the store has to be asked. */
  | { readonly type: 'unknown'; readonly upTo: null }
  /** A mirror translated offset and note from another cluster: the store has to be asked about the note. */
  | { readonly type: 'mirrored'; readonly upTo: null; readonly note: CommitNote };

export class LanePosition {
  private expected: Expectation = { type: 'known', upTo: 0 };
  /** First offset and high watermark of the partition, as a broker last reported them. */
  private log: { readonly start: number; readonly highWatermark: number } | null = null;
  /** The offset where the next part begins. */
  private nextOffset: number | null = null;
  private waitsSince: number | null = null;
  /** Since when the high watermark is beyond the records that can be fetched, in milliseconds since 1970. */
  private heldUpSince: number | null = null;

  constructor(
    private readonly partition: TopicPartition,
    private readonly deps: StreamDeps,
    private readonly committer: Committer,
    /** Whether no record of the lane waits. */
    private readonly isIdle: () => boolean,
  ) {}

  /** How far the store must have decided the partition; null where the store has to be asked. */
  get expectedUpTo(): number | null {
    return this.expected.upTo;
  }

  get isConfirmed(): boolean {
    return this.expected.type === 'known';
  }

  /** See `SourceListener.onPositioned`. */
  start(offset: number | null, upTo: number | null, cluster = ''): void {
    this.nextOffset = offset;
    if (upTo === null) this.expected = { type: 'unknown', upTo };
    else if (cluster === this.deps.cluster.name) this.expected = { type: 'known', upTo };
    else this.expected = { type: 'mirrored', upTo: null, note: { upTo, cluster } };
  }

  /** See `SourceListener.onHighWatermark`. */
  onHighWatermark(highWatermark: number, start: number): void {
    this.log = { start, highWatermark };
    if (!this.isIdle()) return;
    if (this.lag === 0) this.heldUpSince = null;
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
  status(): Pick<PartitionStatus, 'lag' | 'waitsSince'> {
    return { lag: this.lag, waitsSince: this.isIdle() ? this.heldUpSince : this.waitsSince };
  }

  private get lag(): number | null {
    if (this.log === null) return null;
    const { start, highWatermark } = this.log;
    // Without a committed offset the partition is read from its beginning.
    const from = this.nextOffset ?? start;
    // Deleted records do not wait any more, unless they have been fetched already.
    return Math.max(0, highWatermark - (this.isIdle() ? Math.max(start, from) : from));
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
    const upTo = await this.confirmedUpTo(first);
    if (upTo !== null) this.expected = { type: 'known', upTo };
  }

  private async confirmedUpTo(first: FirstRecord | undefined): Promise<number | null> {
    const { expected } = this;
    switch (expected.type) {
      case 'rewound':
        await this.commitRewind(expected.upTo);
        return expected.upTo;
      case 'unknown':
        return first === undefined ? null : await this.readDecidedBefore(first.offset);
      case 'mirrored':
        return first === undefined ? null : await this.continueFromMirror(expected.note, first.offset);
      case 'known':
        return expected.upTo;
    }
  }

  /** Moves behind decided records. @returns the offset to commit */
  advance(nextOffset: number, decidedUpTo: number | null): OffsetToCommit {
    if (decidedUpTo !== null) this.expected = { type: 'known', upTo: decidedUpTo };
    this.nextOffset = nextOffset;
    this.heldUpSince = null;
    return this.offsetToCommit(nextOffset);
  }

  /** Reads the partition again from the first decision that the store has lost. */
  rewindTo(lost: number): void {
    const { source, logger } = this.deps;
    // The store may have decided beyond the offset where reading begins, as of a log that was cut off. Those
    // records are answered again, and their verdicts published.
    const to = Math.min(lost, this.nextOffset ?? lost);
    source.rewindTo(this.partition, to);
    const { note } = this;
    const from = { from: note?.upTo ?? this.expectedUpTo, ...clusterOf(note) };
    logger.error({ ...this.partition, ...from, to }, 'the store has lost decided events; reading them again');
    this.nextOffset = to;
    this.expected = { type: 'rewound', upTo: to };
  }

  /**
   * The offset to rewind to where the store has lost decisions of another cluster. The note beside the
   * committed offset counts on them. Null where the store has them all, and for an offset of this cluster.
   *
   * @throws where the store does not answer now
   */
  async findLostElsewhere(): Promise<number | null> {
    const { note } = this;
    if (note === null) return null;
    const { isKnown, decidedUpTo } = await this.readMirroredOffset(note);
    return isKnown || this.note !== note ? null : decidedUpTo;
  }

  /**
   * Commits the rewound offset before any record is decided again. Otherwise the committed offset and its
   * note would stay ahead of the store. A worker that takes over once the store has caught up would see no
   * loss, and the verdicts decided in between would never be published.
   *
   * @throws RewindNotCommitted where Kafka does not accept the commit now
   */
  private async commitRewind(to: number): Promise<void> {
    try {
      await this.committer.commitNow(this.offsetToCommit(to));
    } catch (cause) {
      throw new RewindNotCommitted(`cannot commit the rewound offset ${to}: ${messageOf(cause)}`, { cause });
    }
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
    return Math.min(decidedUpTo, offset);
  }

  private readMirroredOffset(note: CommitNote) {
    const { readDecidedUpTo, cluster } = this.deps;
    return readMirroredOffset(readDecidedUpTo, cluster, this.partition, note);
  }

  /** The note of another cluster, while the store has to be asked about it. */
  private get note(): CommitNote | null {
    return this.expected.type === 'mirrored' ? this.expected.note : null;
  }

  /**
   * An offset with the note to commit beside it. Where the store has to be asked, `expectedUpTo` is null, and
   * a mirrored note stays, until a record arrives. The next owner of the partition asks the store otherwise.
   */
  private offsetToCommit(offset: number): OffsetToCommit {
    const { upTo, cluster } = this.note ?? { upTo: this.expectedUpTo, cluster: this.deps.cluster.name };
    return { ...this.partition, offset, expectedUpTo: upTo, cluster };
  }
}

/** When a record was written, in milliseconds since 1970. Null where its producer left out the time. */
function timeOf({ timestamp }: FirstRecord): number | null {
  const time = Number(timestamp);
  return time > 0 ? time : null;
}

/** Fields of a log line. */
const clusterOf = (note: CommitNote | null) =>
  note === null ? {} : { fromCluster: note.cluster || 'the first one' };
