/**
 * The loop of a Kafka partition: take records in their order, have them decided, publish the decisions, commit the offset
 * (docs/rules.md, U1-U5).
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

/** Where a partition stands. */
export interface PartitionStatus extends TopicPartition {
  /** Offsets between what is decided and the end; null until a broker has told the end. */
  readonly lag: number | null;
  /**
   * Time of the first record of the batch that was taken up last, in milliseconds since 1970. Where all that was fetched is decided and the partition goes on, as behind an open
   * transaction: since when. Null where nothing waits, or nothing was taken up yet.
   */
  readonly waitsSince: number | null;
  readonly undecided: UndecidedPartition | null;
}

/** What the partitions of a worker share. */
export interface LoopShared extends DecidingShared {
  readonly committer: Committer;
  /** Called before each batch that is tried. */
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
  /** Where the partition begins and ends, as a broker last told. */
  private log: { readonly start: number; readonly highWatermark: number } | null = null;
  /** Where the next batch begins. */
  private nextOffset: number | null = null;
  /** See Progress: 0 where a worker has not said, null where the store has to be asked, since no worker has set the offset. */
  private expected: number | null = 0;
  /** The note of another cluster, beside an offset that a mirror has translated, until the store is asked about it; else null. */
  private moved: CommitNote | null = null;
  /** Where the store has lost something, until the group stands there as well; else null. */
  private uncommittedRewind: number | null = null;
  private waitsSince: number | null = null;
  /** Since when there is more than can be fetched, in milliseconds since 1970. */
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

  /** A broker said where the partition ends, and where it begins by now. */
  onHighWatermark(highWatermark: number, start: number): void {
    this.log = { start, highWatermark };
    if (this.running !== null) return;
    if (this.lag === 0) this.heldUpSince = null;
    else this.heldUpSince ??= Date.now();
  }

  /** See SourceListener. */
  onPositioned(offset: number | null, expectedUpTo: number | null, cluster = ''): void {
    this.nextOffset = offset;
    const isMoved = expectedUpTo !== null && cluster !== this.deps.cluster.name;
    this.moved = isMoved ? { upTo: expectedUpTo, cluster } : null;
    this.expected = isMoved ? null : expectedUpTo;
  }

  /** Whether it fetches no more until it is decided further. */
  get isFetchPaused(): boolean {
    return this.fetchPaused;
  }

  /** How far the store has to have decided it; null where that is not known, and while a batch is under way, which finds out by itself. */
  expectedUpTo(): number | null {
    return this.running === null ? this.expected : null;
  }

  /** Of an offset that a mirror has translated, and of which nothing was read yet: goes back where the store has lost what its note says. @throws where the store does not say now */
  async checkMoved(): Promise<void> {
    const { moved } = this;
    if (moved === null || this.running !== null) return;
    const { isKnown, decidedUpTo } = await this.readMovedOffset(moved);
    if (!isKnown && this.moved === moved && this.running === null) this.rewindTo(decidedUpTo);
  }

  status(): PartitionStatus {
    const { lag, undecided } = this;
    // While it runs, what was taken up last is not yet published.
    const waitsSince = this.running === null ? this.heldUpSince : this.waitsSince;
    return { ...this.partition, lag, waitsSince, undecided };
  }

  /** See Standing. */
  private get lag(): number | null {
    if (this.log === null) return null;
    const { start, highWatermark } = this.log;
    // Where nothing is committed it is read from its beginning.
    const from = this.nextOffset ?? start;
    // What is deleted waits no more, unless it is here already.
    return Math.max(0, highWatermark - (this.running === null ? Math.max(start, from) : from));
  }

  /** The partition is no longer ours: what is being decided is not committed by us. */
  revoke(): void {
    this.revoked = true;
    this.stop();
  }

  /** Begins no further batch, and resolves when what is under way is decided and published, or cannot be now. */
  async finish(): Promise<void> {
    this.stop();
    await this.running;
  }

  private stop(): void {
    this.stopping.abort();
    this.retryWait.clear();
  }

  /** What it waits for; null where it is decided. */
  get undecided(): UndecidedPartition | null {
    return this.retryWait.state;
  }

  private async run(): Promise<void> {
    while (!this.pipeline.isEmpty || (!this.queue.isEmpty && !this.stopping.signal.aborted)) {
      try {
        this.shared.onActive();
        await this.step();
      } catch (error) {
        // Whatever stands in the way shows as an undecided partition, a defect of this loop too.
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

  /** Decides one batch, or as much of its beginning as can be decided now. @throws where not even its first record can be */
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
   * What the store has lost is read again; what waits is fetched behind it once more.
   *
   * @param lost the offset from which on the store knows nothing
   */
  rewindTo(lost: number): void {
    if (this.stopping.signal.aborted) return;
    const { source, logger } = this.deps;
    // Of a log that was cut off it may know more than is read: that is answered again, and its verdicts are published.
    const to = Math.min(lost, this.nextOffset ?? lost);
    source.rewindTo(this.partition, to);
    logger.error(
      { ...this.partition, from: this.moved?.upTo ?? this.expected, ...clusterOf(this.moved), to },
      'the store has lost what it had decided; it is read again',
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
   * Sets the group back, before anything is decided anew. With an offset and a note that are beyond it, whoever takes over would find the store as it is to be once that
   * is decided, and nobody would publish it.
   *
   * @throws NotSetBack where Kafka does not take the offset now
   */
  private async commitRewind(): Promise<void> {
    if (this.uncommittedRewind === null) return;
    const offset = this.uncommittedRewind;
    try {
      await this.shared.committer.commitNow({ ...this.partition, offset, ...this.noteOf(offset) });
    } catch (error) {
      throw new RewindNotCommitted(`the group is not set back to offset ${offset}: ${messageOf(error)}`, {
        cause: error,
      });
    }
    this.uncommittedRewind = null;
  }

  /**
   * Of an offset that no worker has set, only the store knows what of the records before it is decided. Tells of those that are not.
   *
   * @returns how far it is decided, at most up to this offset
   * @throws where the store does not say now how far it is
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
   * Goes on from an offset that a mirror has translated: what is before it was decided on the other cluster.
   *
   * @returns how far the partition is decided on this cluster, at most up to this offset
   * @throws LostElsewhere where the store has lost some of it, Error where the store does not say now
   */
  private async continueFromMirror(note: CommitNote, offset: number): Promise<number> {
    const { beginAt, logger } = this.deps;
    const { isKnown, decidedUpTo } = await this.readMovedOffset(note);
    if (!isKnown) throw new LostElsewhere(decidedUpTo);
    await beginAt(this.partition, offset);
    logger.info(
      { ...this.partition, offset, ...clusterOf(note), decidedThere: note.upTo },
      'the partition goes on from another Kafka cluster',
    );
    this.moved = null;
    return Math.min(decidedUpTo, offset);
  }

  private readMovedOffset(note: CommitNote) {
    const { readDecidedUpTo, cluster } = this.deps;
    return readMovedOffset(readDecidedUpTo, cluster, this.partition, note);
  }

  /** What is noted beside an offset, once the partition is decided so far. */
  private noteOf(expectedUpTo: number | null): Pick<Progress, 'expectedUpTo' | 'cluster'> {
    // Nothing came yet to ask the store about: the next owner has to.
    if (this.moved !== null) return { expectedUpTo: this.moved.upTo, cluster: this.moved.cluster };
    return { expectedUpTo, cluster: this.deps.cluster.name };
  }

  private onBatchAwaited(first: FirstRecord): void {
    // Of a topic that was made anew, the offset that is committed is the old one's.
    this.nextOffset = first.offset;
    this.waitsSince = timeOf(first);
  }

  /** Publishes until it succeeds: the verdicts are stored, so deciding again would only count redeliveries. */
  private async publish(answers: readonly PublishedAnswer[]): Promise<void> {
    const { publishVerdicts } = this.deps;
    if (publishVerdicts === null || answers.length === 0) return;
    for (;;) {
      try {
        await publishVerdicts(this.partition, answers);
        return;
      } catch (error) {
        // Not committed, so the next owner reads these records again and publishes their verdicts.
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
    // Null where nothing came yet to ask the store about: the next owner has to ask.
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

/** In a log line. */
const clusterOf = (note: CommitNote | null) =>
  note === null ? {} : { fromCluster: note.cluster || 'the first one' };

/** The store has lost what it had decided on another cluster, from where the group has moved. */
class LostElsewhere extends Error {
  override readonly name = 'LostElsewhere';
  /** @param decidedUpTo so far the partition of this cluster is decided */
  constructor(readonly decidedUpTo: number) {
    super('the store has lost what it had decided on another Kafka cluster');
  }
}

class RewindNotCommitted extends Error {
  override readonly name = 'RewindNotCommitted';
}
