/**
 * The loop of a Kafka partition: take records in order, have them decided, publish the decisions, commit the
 * offset (docs/rules.md, U1-U5).
 */

import { lostFrom, undecidedCause } from '../intake/undecided';
import type { CommitNote } from '../kafka/commit-note';
import { readMovedOffset } from '../kafka/moved-offsets';
import type { Chunk, Progress } from '../kafka/port';
import { messageOf } from '../lib/errors';
import type { TopicPartition } from '../lib/topic-partition';
import type { PublishedAnswer } from '../publishing/published-answer';
import {
  BatchPipeline,
  type DecidedPrefix,
  type DecidingShared,
  type FirstRecord,
  timeOf,
} from './batch-pipeline';
import { ChunkQueue } from './chunk-queue';
import type { Committer } from './committer';
import type { StreamDeps } from './deps';
import { RetryWait, type UndecidedPartition } from './retry-wait';

/** The state of a partition, for metrics and health. */
export interface PartitionStatus extends TopicPartition {
  /**
   * Offsets between the last decided record and the high watermark. Null until a broker has reported a high
   * watermark.
   */
  readonly lag: number | null;
  /**
   * Timestamp of the first record of the batch in flight, in milliseconds since 1970.
   *
   * While no batch is in flight: since when the high watermark is beyond the decided records, as behind an
   * open transaction.
   *
   * Null where no record waits, or before the first batch.
   */
  readonly waitsSince: number | null;
  readonly undecided: UndecidedPartition | null;
}

/** The parts that all partitions of a worker share. */
export interface LoopShared extends DecidingShared {
  readonly committer: Committer;
  /** Called before each try of a batch. */
  readonly onActive: () => void;
}

/** One partition in one generation of the group. */
export class PartitionLoop {
  private readonly queue: ChunkQueue;
  private readonly retryWait: RetryWait;
  private fetchPaused = false;
  private running: Promise<void> | null = null;
  private readonly stopping = new AbortController();
  private revoked = false;
  /** First offset and high watermark of the partition, as a broker last reported them. */
  private log: { readonly start: number; readonly highWatermark: number } | null = null;
  /** The offset where the next batch begins. */
  private nextOffset: number | null = null;
  /**
   * See `Progress`. 0 where the worker that committed the offset left it out. Null where no worker has set
   * the offset: then the store has to be asked.
   */
  private expected: number | null = 0;
  /**
   * The note beside an offset that a mirror translated from another cluster. Null for any other offset, and
   * once the store has answered about the note.
   */
  private moved: CommitNote | null = null;
  /** The offset to rewind to after the store lost decisions, until the group has committed it; else null. */
  private uncommittedRewind: number | null = null;
  private waitsSince: number | null = null;
  /** Since when the high watermark is beyond the records that can be fetched, in milliseconds since 1970. */
  private heldUpSince: number | null = null;
  private readonly pipeline: BatchPipeline;

  constructor(
    readonly partition: TopicPartition,
    private readonly deps: StreamDeps,
    private readonly shared: LoopShared,
  ) {
    this.queue = new ChunkQueue(shared.queueShares);
    this.retryWait = new RetryWait(partition, deps);
    const owner = {
      stopSignal: this.stopping.signal,
      onBatchAwaited: (first: FirstRecord) => this.onBatchAwaited(first),
      expectedUpTo: async ({ offset }: FirstRecord) => {
        await this.commitRewind();
        this.expected ??= await (this.moved === null
          ? this.readDecidedBefore(offset)
          : this.continueFromMirror(this.moved, offset));
        return this.expected;
      },
    };
    this.pipeline = new BatchPipeline(partition, this.queue, owner, deps, shared);
  }

  offer(chunk: Chunk): void {
    if (this.stopping.signal.aborted) return;
    this.queue.push(chunk);
    if (this.queue.isFull && !this.fetchPaused) {
      this.fetchPaused = true;
      this.deps.source.pause(this.partition);
    }
    this.running ??= this.run();
    this.pipeline.lookAhead();
  }

  /** A broker reported the partition's high watermark and its first offset. */
  onHighWatermark(highWatermark: number, start: number): void {
    this.log = { start, highWatermark };
    if (this.running !== null) return;
    if (this.lag === 0) this.heldUpSince = null;
    else this.heldUpSince ??= Date.now();
  }

  /** See `SourceListener`. */
  onPositioned(offset: number | null, expectedUpTo: number | null, cluster = ''): void {
    this.nextOffset = offset;
    const isMoved = expectedUpTo !== null && cluster !== this.deps.cluster.name;
    this.moved = isMoved ? { upTo: expectedUpTo, cluster } : null;
    this.expected = isMoved ? null : expectedUpTo;
  }

  /** Whether fetches are paused until more of the queue is decided. */
  get isFetchPaused(): boolean {
    return this.fetchPaused;
  }

  /**
   * How far the store must have decided the partition. Null where that is unknown, and while a batch is in
   * flight: the batch checks it then.
   */
  expectedUpTo(): number | null {
    return this.running === null ? this.expected : null;
  }

  /**
   * Checks an offset that a mirror has translated before the first record arrives. Rewinds where the store
   * has lost decisions that the offset's note counts on.
   *
   * @throws where the store does not answer now
   */
  async checkMoved(): Promise<void> {
    const { moved } = this;
    if (moved === null || this.running !== null) return;
    const { isKnown, decidedUpTo } = await this.readMovedOffset(moved);
    if (!isKnown && this.moved === moved && this.running === null) this.rewindTo(decidedUpTo);
  }

  status(): PartitionStatus {
    const { lag, undecided } = this;
    // While the loop runs, the batch in flight is not yet published.
    const waitsSince = this.running === null ? this.heldUpSince : this.waitsSince;
    return { ...this.partition, lag, waitsSince, undecided };
  }

  /** See `PartitionStatus`. */
  private get lag(): number | null {
    if (this.log === null) return null;
    const { start, highWatermark } = this.log;
    // Without a committed offset the partition is read from its beginning.
    const from = this.nextOffset ?? start;
    // Deleted records do not wait any more, unless they have been fetched already.
    return Math.max(0, highWatermark - (this.running === null ? Math.max(start, from) : from));
  }

  /**
   * Stops the loop because the group took the partition away: the batch in flight is not committed by this
   * worker.
   */
  revoke(): void {
    this.revoked = true;
    this.stop();
  }

  /**
   * Begins no further batch. Resolves when the batches in flight are decided and published, or have failed.
   */
  async finish(): Promise<void> {
    this.stop();
    await this.running;
  }

  private stop(): void {
    this.stopping.abort();
    this.retryWait.clear();
  }

  /** The failure that the partition waits to retry; null where it is not undecided. */
  get undecided(): UndecidedPartition | null {
    return this.retryWait.state;
  }

  private async run(): Promise<void> {
    while (!this.pipeline.isEmpty || (!this.queue.isEmpty && !this.stopping.signal.aborted)) {
      try {
        this.shared.onActive();
        await this.step();
      } catch (error) {
        // Any failure shows as an undecided partition, even a defect of this loop.
        await this.pipeline.abort();
        if (error instanceof LostElsewhere) {
          this.rewindTo(error.decidedUpTo);
          continue;
        }
        const cause = error instanceof RewindNotCommitted ? 'kafka' : undecidedCause(error);
        await this.retryWait.afterFailure(error, cause, this.stopping.signal);
      }
    }
    this.running = null;
    this.waitsSince = null;
  }

  /**
   * Decides one batch, or as many of its first records as can be decided now.
   *
   * @throws where not even the first record can be decided
   */
  private async step(): Promise<void> {
    const { decided, undecided } = await this.pipeline.next();
    if (decided !== null) {
      await this.publish(decided.toPublish);
      this.advance(decided);
    }
    const lost = lostFrom(undecided);
    if (lost !== null) this.rewindTo(lost);
    else if (undecided !== null) throw undecided;
  }

  /**
   * Reads the partition again from the first decision that the store has lost. Queued records are dropped,
   * and fetched again in order.
   *
   * @param lost the offset from which on the store has no decisions
   */
  rewindTo(lost: number): void {
    if (this.stopping.signal.aborted) return;
    const { source, logger } = this.deps;
    // The store may have decided beyond the offset where reading begins, as of a log that was cut off. Those
    // records are answered again, and their verdicts published.
    const to = Math.min(lost, this.nextOffset ?? lost);
    source.rewindTo(this.partition, to);
    logger.error(
      { ...this.partition, from: this.moved?.upTo ?? this.expected, ...clusterOf(this.moved), to },
      'the store has lost decided events; reading them again',
    );
    this.expected = to;
    this.moved = null;
    this.nextOffset = to;
    this.uncommittedRewind = to;
    this.queue.clear();
    this.retryWait.onDecided();
    this.resumeIfLow();
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
      await this.shared.committer.commitNow({ ...this.partition, offset, ...this.noteOf(offset) });
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
    const { beginAt, logger } = this.deps;
    const { isKnown, decidedUpTo } = await this.readMovedOffset(note);
    if (!isKnown) throw new LostElsewhere(decidedUpTo);
    await beginAt(this.partition, offset);
    logger.info(
      { ...this.partition, offset, ...clusterOf(note), decidedThere: note.upTo },
      'the partition continues from another Kafka cluster',
    );
    this.moved = null;
    return Math.min(decidedUpTo, offset);
  }

  private readMovedOffset(note: CommitNote) {
    const { readDecidedUpTo, cluster } = this.deps;
    return readMovedOffset(readDecidedUpTo, cluster, this.partition, note);
  }

  /** The note to commit beside an offset, for a partition that is decided up to `expectedUpTo`. */
  private noteOf(expectedUpTo: number | null): Pick<Progress, 'expectedUpTo' | 'cluster'> {
    // No record has arrived, so the store has not been asked. The next owner of the partition has to ask.
    if (this.moved !== null) return { expectedUpTo: this.moved.upTo, cluster: this.moved.cluster };
    return { expectedUpTo, cluster: this.deps.cluster.name };
  }

  private onBatchAwaited(first: FirstRecord): void {
    // The committed offset of a deleted topic does not apply to a new topic of the same name.
    this.nextOffset = first.offset;
    this.waitsSince = timeOf(first);
  }

  /**
   * Publishes until it succeeds. The verdicts are stored already, so deciding the records again would only
   * count redeliveries.
   */
  private async publish(answers: readonly PublishedAnswer[]): Promise<void> {
    const { publishVerdicts } = this.deps;
    if (publishVerdicts === null || answers.length === 0) return;
    for (;;) {
      try {
        await publishVerdicts(this.partition, answers);
        return;
      } catch (error) {
        // The batch is not committed, so the next owner reads these records again and publishes their
        // verdicts.
        if (this.stopping.signal.aborted) throw error;
        await this.retryWait.afterFailure(error, 'kafka', this.stopping.signal);
      }
    }
  }

  private advance({ nextOffset, decidedUpTo }: DecidedPrefix): void {
    if (this.revoked) return;
    this.expected = decidedUpTo ?? this.expected;
    this.nextOffset = nextOffset;
    this.heldUpSince = null;
    this.retryWait.onDecided();
    // `expected` is null where no record has arrived, so the store has not been asked. The next owner has to
    // ask.
    this.shared.committer.enqueueCommit({
      ...this.partition,
      offset: nextOffset,
      ...this.noteOf(this.expected),
    });
    this.resumeIfLow();
  }

  private resumeIfLow(): void {
    if (this.fetchPaused && this.queue.isLow) {
      this.fetchPaused = false;
      this.deps.source.resume(this.partition);
    }
  }
}

/** Fields of a log line. */
const clusterOf = (note: CommitNote | null) =>
  note === null ? {} : { fromCluster: note.cluster || 'the first one' };

/** The store has lost decisions that it had made on the cluster that the group has moved from. */
class LostElsewhere extends Error {
  override readonly name = 'LostElsewhere';
  /** @param decidedUpTo how far the partition is decided on the cluster that is read */
  constructor(readonly decidedUpTo: number) {
    super('the store has lost decided events of another Kafka cluster');
  }
}

class RewindNotCommitted extends Error {
  override readonly name = 'RewindNotCommitted';
}
