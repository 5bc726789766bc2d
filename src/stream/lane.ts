/**
 * One partition in one generation of the group: its queue, its position, and its way through the states
 * (docs/rules.md, U1-U5).
 *
 *     idle ──▶ ready ──▶ in flight ──▶ idle, or ready where records are left
 *                ▲           │
 *                │           ├── a schema is requested ──▶ requesting ──▶ ready
 *                └── waiting ┴── not decided: 1 to 30 s
 *
 * `stop` ends every state. A part in flight is still decided and published. Behind it, another part may be
 * read ahead: see parts.ts.
 */

import { lostFrom, NotTogether, undecidedCause } from '../intake/undecided';
import type { Chunk } from '../kafka/port';
import type { TopicPartition } from '../lib/topic-partition';
import { type PublishedAnswer, publishingRest } from '../publishing/published-answer';
import type { Committer } from './committer';
import type { StreamDeps } from './deps';
import { type Part, Parts } from './parts';
import { LanePosition, type PartitionStatus } from './position';
import { type QueueShares, RecordQueue } from './record-queue';
import { RetryWait, type UndecidedPartition } from './retry-wait';

/** What all lanes of a worker share. */
export interface LaneShared {
  readonly committer: Committer;
  readonly queueShares: QueueShares;
  /**
   * Called when a lane has become ready, and when more of a lane in flight can be read ahead.
   *
   * @returns the place of the lane in the order of turns
   */
  readonly onReady: () => number;
  /** Called before each try to decide records. */
  readonly onActive: () => void;
}

/** The states of a lane, as drawn above. */
type LaneState =
  | { readonly type: 'idle' | 'in flight' | 'requesting' | 'waiting' }
  | {
      readonly type: 'ready';
      /** Lower for a lane that became ready earlier. */
      readonly turn: number;
      /** Ends the wait for a batch. */
      readonly onTaken: () => void;
    };

export class Lane {
  readonly queue: RecordQueue;
  readonly parts: Parts;
  readonly position: LanePosition;
  private readonly retryWait: RetryWait;
  private readonly stopping = new AbortController();
  private state: LaneState = { type: 'idle' };
  /** Resolves once the lane is idle. */
  private running: Promise<void> = Promise.resolve();
  private isRevoked = false;
  /** Fetches are paused until more of the queue is decided. */
  isFetchPaused = false;
  /** It has had no batch so far. */
  isNew = true;
  /** The records of the last part were not all decided. */
  private isSuspect = false;

  constructor(
    readonly partition: TopicPartition,
    private readonly deps: StreamDeps,
    private readonly shared: LaneShared,
  ) {
    this.queue = new RecordQueue(shared.queueShares, deps.wireFormat);
    this.retryWait = new RetryWait(partition, deps);
    this.position = new LanePosition(partition, deps, shared.committer, () => this.isIdle);
    this.parts = new Parts(partition, this.queue, this.position, deps, this.stopping.signal);
  }

  onChunk(chunk: Chunk): void {
    if (this.isStopping) return;
    this.queue.push(chunk);
    if (this.queue.isFull && !this.isFetchPaused) {
      this.isFetchPaused = true;
      this.deps.source.pause(this.partition);
    }
    if (this.isIdle) this.running = this.run();
    if (this.parts.bytesAhead > 0) this.shared.onReady();
  }

  /** Stops because the group took the partition away: a part in flight is not committed by this worker. */
  revoke(): void {
    this.isRevoked = true;
    this.stop();
  }

  /** Begins no further part. Resolves when parts in flight are decided and published, or have failed. */
  async finish(): Promise<void> {
    this.stop();
    await this.running;
  }

  /**
   * Reads the partition again from the first decision that the store has lost, without the queued records.
   *
   * @param lost the offset from which on the store has no decisions
   */
  rewindTo(lost: number): void {
    if (this.isStopping) return;
    this.position.rewindTo(lost);
    this.queue.clear();
    this.retryWait.onDecided();
    this.resumeIfLow();
  }

  /**
   * Checks an offset that a mirror has translated before the first record arrives. Rewinds where the store
   * has lost decisions that the offset's note counts on.
   *
   * @throws where the store does not answer now
   */
  async checkMirrored(): Promise<void> {
    if (!this.isIdle) return;
    const lost = await this.position.findLostElsewhere();
    if (lost !== null && this.isIdle) this.rewindTo(lost);
  }

  /**
   * How far the store must have decided the partition. Null where that is unknown, and while records are in
   * flight: their batch checks it then.
   */
  expectedUpTo(): number | null {
    return this.isIdle ? this.position.expectedUpTo : null;
  }

  status(): PartitionStatus {
    return { ...this.partition, ...this.position.status(), undecided: this.undecided };
  }

  /** The failure that the partition waits to retry; null where it is not undecided, or stops. */
  get undecided(): UndecidedPartition | null {
    return this.isStopping ? null : this.retryWait.state;
  }

  get isStopping(): boolean {
    return this.stopping.signal.aborted;
  }

  /** Its place in the order of turns; null where it is not ready. */
  get turn(): number | null {
    return this.state.type === 'ready' ? this.state.turn : null;
  }

  /**
   * It has batches of its own, to spare the others. Its last records were not decided, its position is not
   * confirmed, or its chunks take long to decompress.
   */
  get isAlone(): boolean {
    return this.isSuspect || this.queue.hasLargeChunks || !this.position.isConfirmed;
  }

  /** A batch of several lanes has failed, and nothing shows so far that this one was the cause. */
  get isVictim(): boolean {
    return this.isSuspect && this.undecided === null;
  }

  private get isIdle(): boolean {
    return this.state.type === 'idle';
  }

  /** Begins a part of a batch. */
  begin(): Part {
    this.isNew = false;
    this.leaveReady();
    return this.parts.begin();
  }

  private stop(): void {
    this.stopping.abort();
    this.leaveReady();
  }

  private leaveReady(): void {
    if (this.state.type !== 'ready') return;
    this.state.onTaken();
    this.state = { type: 'in flight' };
  }

  private async run(): Promise<void> {
    while (this.parts.front !== undefined || (!this.queue.isEmpty && !this.isStopping)) {
      try {
        this.shared.onActive();
        await this.step();
      } catch (error) {
        // Any failure shows as an undecided partition, even a defect of this lane.
        await this.parts.abort();
        this.isSuspect = true;
        const lost = lostFrom(error);
        if (lost !== null) this.rewindTo(lost);
        else if (!(error instanceof NotTogether)) {
          this.state = { type: 'waiting' };
          await this.retryWait.afterFailure(error, undecidedCause(error), this.stopping.signal);
        }
      }
    }
    this.state = { type: 'idle' };
    this.position.onIdle();
  }

  /**
   * Has one part decided, or as many of its first records as can be decided now.
   *
   * @throws the reason why the rest cannot be decided
   */
  private async step(): Promise<void> {
    if (this.parts.front === undefined) await this.untilTaken();
    const { front } = this.parts;
    if (front === undefined) return;
    this.position.onFront(front.envelopes[0]);
    const { toPublish, nextOffset, decidedUpTo, rest } = await this.parts.answered(front);
    if (nextOffset !== null) {
      // Publishing may take long. Meanwhile the next part is decided, and another one is read ahead.
      if (this.parts.bytesAhead > 0) this.shared.onReady();
      await this.publish(toPublish);
      this.advance(nextOffset, decidedUpTo);
      this.isSuspect = false;
    }
    if (rest !== null) throw rest;
  }

  /** Waits until a batch takes records of the lane, or the lane stops. */
  private async untilTaken(): Promise<void> {
    if (this.queue.requesting !== null) {
      this.state = { type: 'requesting' };
      await this.queue.requesting;
      if (this.isStopping) return;
    }
    const { promise, resolve } = Promise.withResolvers<void>();
    this.state = { type: 'ready', turn: this.shared.onReady(), onTaken: resolve };
    await promise;
  }

  /**
   * Publishes until it succeeds: the verdicts are stored already. Where the lane stops first, the part is not
   * committed. The next owner then reads these records again and publishes their verdicts.
   */
  private async publish(answers: readonly PublishedAnswer[]): Promise<void> {
    const { publishVerdicts } = this.deps;
    if (publishVerdicts === null || answers.length === 0) return;
    const publish = publishingRest(publishVerdicts, this.partition, answers);
    await this.retryWait.retry(publish, 'kafka', this.stopping.signal);
  }

  private advance(nextOffset: number, decidedUpTo: number | null): void {
    if (this.isRevoked) return;
    this.retryWait.onDecided();
    this.shared.committer.enqueueCommit(this.position.advance(nextOffset, decidedUpTo));
    this.resumeIfLow();
  }

  private resumeIfLow(): void {
    if (this.isFetchPaused && this.queue.isLow) {
      this.isFetchPaused = false;
      this.deps.source.resume(this.partition);
    }
  }
}
