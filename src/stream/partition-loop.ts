/**
 * The loop of a Kafka partition: take records in their order, have them decided, publish the decisions, commit the offset
 * (docs/rules.md, U1-U5).
 */

import { lostFrom, undecidedCause } from '../intake/undecided';
import type { CommitNote } from '../kafka/commit-note';
import { askMoved } from '../kafka/moved-offsets';
import type { Chunk, Progress } from '../kafka/port';
import { messageOf } from '../lib/errors';
import type { TopicPartition } from '../lib/topic-partition';
import type { PublishedAnswer } from '../publishing/published-answer';
import { type Decided, type DecidingShared, type FirstRecord, timeOf, UnderWay } from './batch-pipeline';
import { ChunkQueue } from './chunk-queue';
import type { Committer } from './committer';
import type { StreamDeps } from './deps';
import { type UndecidedPartition, UndecidedWait } from './retry-wait';

/** Where a partition stands. */
export interface Standing extends TopicPartition {
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
  readonly active: () => void;
}

/** One partition in one generation of the group. */
export class PartitionLoop {
  private readonly queue: ChunkQueue;
  private readonly wait: UndecidedWait;
  private fetchPaused = false;
  private running: Promise<void> | null = null;
  private readonly ended = new AbortController();
  private revoked = false;
  /** Where the partition begins and ends, as a broker last told. */
  private log: { readonly start: number; readonly end: number } | null = null;
  /** Where the next batch begins. */
  private nextOffset: number | null = null;
  /** See Progress: 0 where a worker has not said, null where the store has to be asked, since no worker has set the offset. */
  private expected: number | null = 0;
  /** The note of another cluster, beside an offset that a mirror has translated, until the store is asked about it; else null. */
  private moved: CommitNote | null = null;
  /** Where the store has lost something, until the group stands there as well; else null. */
  private backTo: number | null = null;
  private waitsSince: number | null = null;
  /** Since when there is more than can be fetched, in milliseconds since 1970. */
  private heldUpSince: number | null = null;
  private readonly underWay: UnderWay;

  constructor(
    readonly partition: TopicPartition,
    private readonly deps: StreamDeps,
    private readonly shared: LoopShared,
  ) {
    this.queue = new ChunkQueue(shared.queueShares);
    this.wait = new UndecidedWait(partition, deps);
    const state = {
      ended: this.ended.signal,
      takesUp: (first: FirstRecord) => this.takesUp(first),
      expectedUpTo: async ({ offset }: FirstRecord) => {
        await this.setBack();
        this.expected ??= await (this.moved === null
          ? this.askHowFar(offset)
          : this.takeOver(this.moved, offset));
        return this.expected;
      },
    };
    this.underWay = new UnderWay(partition, this.queue, state, deps, shared);
  }

  offer(chunk: Chunk): void {
    if (this.ended.signal.aborted) return;
    this.queue.push(chunk);
    if (this.queue.isFull && !this.fetchPaused) {
      this.fetchPaused = true;
      this.deps.source.pause(this.partition);
    }
    this.running ??= this.run();
    this.underWay.lookAhead();
  }

  /** A broker said where the partition ends, and where it begins by now. */
  ends(end: number, start: number): void {
    this.log = { start, end };
    if (this.running !== null) return;
    if (this.lag === 0) this.heldUpSince = null;
    else this.heldUpSince ??= Date.now();
  }

  /** See SourceListener. */
  begins(offset: number | null, expectedUpTo: number | null, cluster = ''): void {
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
    const { isKnown, decidedUpTo } = await this.askMoved(moved);
    if (!isKnown && this.moved === moved && this.running === null) this.goBack(decidedUpTo);
  }

  standing(): Standing {
    const { lag, undecided } = this;
    // While it runs, what was taken up last is not yet published.
    const waitsSince = this.running === null ? this.heldUpSince : this.waitsSince;
    return { ...this.partition, lag, waitsSince, undecided };
  }

  /** See Standing. */
  private get lag(): number | null {
    if (this.log === null) return null;
    const { start, end } = this.log;
    // Where nothing is committed it is read from its beginning.
    const from = this.nextOffset ?? start;
    // What is deleted waits no more, unless it is here already.
    return Math.max(0, end - (this.running === null ? Math.max(start, from) : from));
  }

  /** The partition is no longer ours: what is being decided is not committed by us. */
  revoke(): void {
    this.revoked = true;
    this.end();
  }

  /** Begins no further batch, and resolves when what is under way is decided and published, or cannot be now. */
  async finish(): Promise<void> {
    this.end();
    await this.running;
  }

  private end(): void {
    this.ended.abort();
    this.wait.clear();
  }

  /** What it waits for; null where it is decided. */
  get undecided(): UndecidedPartition | null {
    return this.wait.state;
  }

  private async run(): Promise<void> {
    while (!this.underWay.isEmpty || (!this.queue.isEmpty && !this.ended.signal.aborted)) {
      try {
        this.shared.active();
        await this.step();
      } catch (error) {
        // Whatever stands in the way shows as an undecided partition, a defect of this loop too.
        await this.underWay.giveUp();
        if (error instanceof LostElsewhere) {
          this.goBack(error.decidedUpTo);
          continue;
        }
        const cause = error instanceof NotSetBack ? 'kafka' : undecidedCause(error);
        await this.wait.afterFailure(error, cause, this.ended.signal);
      }
    }
    this.running = null;
    this.waitsSince = null;
  }

  /** Decides one batch, or as much of its beginning as can be decided now. @throws where not even its first record can be */
  private async step(): Promise<void> {
    const { decided, undecided } = await this.underWay.next();
    if (decided !== null) {
      await this.publish(decided.toPublish);
      this.advance(decided);
    }
    const lost = lostFrom(undecided);
    if (lost !== null) this.goBack(lost);
    else if (undecided !== null) throw undecided;
  }

  /**
   * What the store has lost is read again; what waits is fetched behind it once more.
   *
   * @param lost the offset from which on the store knows nothing
   */
  goBack(lost: number): void {
    if (this.ended.signal.aborted) return;
    const { source, logger } = this.deps;
    // Of a log that was cut off it may know more than is read: that is answered again, and its verdicts are published.
    const to = Math.min(lost, this.nextOffset ?? lost);
    source.goBack(this.partition, to);
    logger.error(
      { ...this.partition, from: this.moved?.upTo ?? this.expected, ...clusterOf(this.moved), to },
      'the store has lost what it had decided; it is read again',
    );
    this.expected = to;
    this.moved = null;
    this.nextOffset = to;
    this.backTo = to;
    this.queue.clear();
    this.wait.over();
    this.resumeIfLow();
  }

  /**
   * Sets the group back, before anything is decided anew. With an offset and a note that are beyond it, whoever takes over would find the store as it is to be once that
   * is decided, and nobody would publish it.
   *
   * @throws NotSetBack where Kafka does not take the offset now
   */
  private async setBack(): Promise<void> {
    if (this.backTo === null) return;
    const offset = this.backTo;
    try {
      await this.shared.committer.committed({ ...this.partition, offset, ...this.noteOf(offset) });
    } catch (error) {
      throw new NotSetBack(`the group is not set back to offset ${offset}: ${messageOf(error)}`, {
        cause: error,
      });
    }
    this.backTo = null;
  }

  /**
   * Of an offset that no worker has set, only the store knows what of the records before it is decided. Tells of those that are not.
   *
   * @returns how far it is decided, at most up to this offset
   * @throws where the store does not say now how far it is
   */
  private async askHowFar(to: number): Promise<number> {
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
  private async takeOver(note: CommitNote, offset: number): Promise<number> {
    const { beginAt, logger } = this.deps;
    const { isKnown, decidedUpTo } = await this.askMoved(note);
    if (!isKnown) throw new LostElsewhere(decidedUpTo);
    await beginAt(this.partition, offset);
    logger.info(
      { ...this.partition, offset, ...clusterOf(note), decidedThere: note.upTo },
      'the partition goes on from another Kafka cluster',
    );
    this.moved = null;
    return Math.min(decidedUpTo, offset);
  }

  private askMoved(note: CommitNote) {
    const { readDecidedUpTo, cluster } = this.deps;
    return askMoved(readDecidedUpTo, cluster, this.partition, note);
  }

  /** What is noted beside an offset, once the partition is decided so far. */
  private noteOf(expectedUpTo: number | null): Pick<Progress, 'expectedUpTo' | 'cluster'> {
    // Nothing came yet to ask the store about: the next owner has to.
    if (this.moved !== null) return { expectedUpTo: this.moved.upTo, cluster: this.moved.cluster };
    return { expectedUpTo, cluster: this.deps.cluster.name };
  }

  private takesUp(first: FirstRecord): void {
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
        if (this.ended.signal.aborted) throw error;
        await this.wait.afterFailure(error, 'kafka', this.ended.signal);
      }
    }
  }

  private advance({ nextOffset, decidedUpTo }: Decided): void {
    if (this.revoked) return;
    this.expected = decidedUpTo ?? this.expected;
    this.nextOffset = nextOffset;
    this.heldUpSince = null;
    this.wait.over();
    // Null where nothing came yet to ask the store about: the next owner has to ask.
    this.shared.committer.decided({ ...this.partition, offset: nextOffset, ...this.noteOf(this.expected) });
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

class NotSetBack extends Error {
  override readonly name = 'NotSetBack';
}
