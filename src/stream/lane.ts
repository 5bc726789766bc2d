/**
 * One partition in one generation of the group: its queue, its position, and its way through the states
 * (docs/rules.md, U1-U5).
 *
 *     idle ──▶ ready ──▶ in flight ──▶ idle, or ready where records are left
 *                ▲           │
 *                │           ├── a schema is requested ──▶ requesting ──▶ ready
 *                └── waiting ┴── not decided: 1 to 30 s
 *
 * While a part is in flight, another part can be read ahead. That part is answered after the part in front of
 * it. It is void where the part in front is not decided as a whole.
 *
 * `stop` ends every state. A part in flight is still decided and published.
 */

import type { IntakeResult } from '../intake/intake';
import { lostFrom, mayBeTooEarly, NotTogether, undecidedCause } from '../intake/undecided';
import type { Chunk } from '../kafka/port';
import { asError } from '../lib/errors';
import type { TopicPartition } from '../lib/topic-partition';
import { type PublishedAnswer, publishingRest, withoutRecord } from '../publishing/published-answer';
import type { Committer } from './committer';
import type { StreamDeps } from './deps';
import { type BatchSize, type DecidedPrefix, endOf, Part, type PartResult, PartSize } from './part';
import { LanePosition, type PartitionStatus } from './position';
import { NO_RECORDS, type QueueShares, type ReadRecords, RecordQueue } from './record-queue';
import { RetryWait, type UndecidedPartition } from './retry-wait';

/** What all lanes of a worker share. */
export interface LaneShared {
  readonly committer: Committer;
  readonly queueShares: QueueShares;
  /** Called when a lane has become ready, and when more of a lane in flight can be read ahead. */
  readonly onReady: (lane: Lane) => void;
  /** Called before each try to decide records. */
  readonly onActive: () => void;
}

export class Lane {
  readonly queue: RecordQueue;
  private readonly position: LanePosition;
  private readonly retryWait: RetryWait;
  private readonly stopping = new AbortController();
  private running: Promise<void> | null = null;
  private isRevoked = false;
  /** Fetches are paused until more of the queue is decided. */
  isFetchPaused = false;
  /** The parts that are not answered yet: the one that the lane waits for, and one that is read ahead. */
  private parts: Part[] = [];
  /** Resolves the wait for a batch; null where the lane is not ready. */
  private onGathered: (() => void) | null = null;
  /** The records that wait for a schema, once they are decoded. */
  private requesting: Promise<ReadRecords> | null = null;
  private readonly size: PartSize;
  /** The records of the last part were not all decided. */
  private isSuspect = false;
  /**
   * The store is where the last part ended, and would notice missing records before the next part. False
   * while all decided records were redeliveries. The store may then have decided later records already: of an
   * older log under the same name, or behind a gap.
   */
  private isContinuous = false;

  constructor(
    readonly partition: TopicPartition,
    private readonly deps: StreamDeps,
    private readonly shared: LaneShared,
  ) {
    this.queue = new RecordQueue(shared.queueShares, deps.wireFormat);
    this.size = new PartSize(deps.batchEvents);
    this.retryWait = new RetryWait(partition, deps);
    this.position = new LanePosition(partition, deps, shared.committer);
  }

  onChunk(chunk: Chunk): void {
    if (this.isStopping) return;
    this.queue.push(chunk);
    if (this.queue.isFull && !this.isFetchPaused) {
      this.isFetchPaused = true;
      this.deps.source.pause(this.partition);
    }
    this.running ??= this.run();
    if (this.bytesAhead > 0) this.shared.onReady(this);
  }

  /** A broker reported the partition's high watermark and its first offset. */
  onHighWatermark(highWatermark: number, start: number): void {
    this.position.onHighWatermark(highWatermark, start, this.isIdle);
  }

  /** See `SourceListener`. */
  onPositioned(offset: number | null, expectedUpTo: number | null, cluster = ''): void {
    this.position.start(offset, expectedUpTo, cluster);
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
    return { ...this.partition, ...this.position.status(this.isIdle), undecided: this.undecided };
  }

  /** The failure that the partition waits to retry; null where it is not undecided. */
  get undecided(): UndecidedPartition | null {
    return this.retryWait.state;
  }

  get isStopping(): boolean {
    return this.stopping.signal.aborted;
  }

  get isReady(): boolean {
    return this.onGathered !== null;
  }

  /**
   * It has batches of its own, to spare the others. Its last records were not decided, its position is not
   * confirmed, or its chunks take long to decompress.
   */
  get isAlone(): boolean {
    return this.isSuspect || this.queue.hasLargeChunks || !this.position.isConfirmed;
  }

  /** Bytes behind a part that is sent, which can be read ahead; 0 where none can. */
  get bytesAhead(): number {
    const [front, ahead] = this.parts;
    const mayReadAhead =
      front !== undefined && front.sentUpTo !== null && ahead === undefined && this.isContinuous;
    return mayReadAhead && !this.isStopping ? this.queue.unreadBytes : 0;
  }

  private get isIdle(): boolean {
    return this.running === null;
  }

  private stop(): void {
    this.stopping.abort();
    this.retryWait.clear();
    this.endReady();
  }

  private endReady(): void {
    this.onGathered?.();
    this.onGathered = null;
  }

  private async run(): Promise<void> {
    while (this.parts.length > 0 || (!this.queue.isEmpty && !this.isStopping)) {
      try {
        this.shared.onActive();
        await this.step();
      } catch (error) {
        // Any failure shows as an undecided partition, even a defect of this lane.
        await this.abort();
        this.isSuspect = true;
        await this.retryWait.afterFailure(error, undecidedCause(error), this.stopping.signal);
      }
    }
    this.running = null;
    this.position.onIdle();
  }

  /**
   * Has one part decided, or as many of its first records as can be decided now.
   *
   * @throws where not even the first record can be decided
   */
  private async step(): Promise<void> {
    if (this.parts.length === 0) await this.untilGathered();
    const [part] = this.parts;
    if (part === undefined) return;
    this.position.onFront(part.first);
    const { decided, undecided } = await part.result.promise;
    this.parts.shift();
    const { requesting } = this;
    this.requesting = null;
    if (requesting !== null) this.queue.keepDecoded(await requesting);
    if (decided !== null) {
      // Publishing may take long. Meanwhile the next part is decided, and another one is read ahead.
      if (this.bytesAhead > 0) this.shared.onReady(this);
      await this.publish(decided.toPublish);
      this.advance(decided);
    }
    if (decided !== null || undecided !== null) this.isSuspect = undecided !== null;
    const lost = lostFrom(undecided);
    if (lost !== null) this.rewindTo(lost);
    else if (undecided !== null && !(undecided instanceof NotTogether)) throw undecided;
  }

  /** Waits until a batch takes records of the lane, or the lane stops. */
  private async untilGathered(): Promise<void> {
    const gathered = new Promise<void>((resolve) => {
      this.onGathered = resolve;
    });
    this.shared.onReady(this);
    await gathered;
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

  private advance({ nextOffset, decidedUpTo }: DecidedPrefix): void {
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

  /** Waits until no part is in flight, and discards the results. The records are read again. */
  private async abort(): Promise<void> {
    this.isContinuous = false;
    for (const part of this.parts) part.isVoid = true;
    await Promise.allSettled(this.parts.map(({ result }) => result.promise));
    this.parts = [];
  }

  /** Begins a part of a batch. */
  begin(): Part {
    const front = this.parts.at(-1);
    const expectedUpTo = front?.sentUpTo ?? this.position.expectedUpTo ?? 0;
    const part = new Part(front !== undefined, this.size.maxEvents, expectedUpTo);
    this.parts.push(part);
    this.endReady();
    return part;
  }

  /**
   * Reads and decodes further records of a part, without removing them from the queue.
   *
   * @param mayOpen whether a further chunk may be decompressed
   * @returns null where the part has ended: its first record cannot be read, or needs a schema first
   */
  async read(part: Part, limit: BatchSize, mayOpen: boolean): Promise<ReadRecords | null> {
    const isFirst = part.records === 0;
    try {
      return await this.readOn(part, limit, mayOpen);
    } catch (error) {
      // The records before these are decided; the next part of the lane meets the error again.
      if (!isFirst) return NO_RECORDS;
      this.end(part, { answers: [], undecided: asError(error) });
      return null;
    }
  }

  /** As `read`. @throws where the first of these records cannot be read */
  private async readOn(part: Part, limit: BatchSize, mayOpen: boolean): Promise<ReadRecords | null> {
    const behind = this.parts.reduce((sum, { records }) => sum + records, 0);
    const most = Math.min(limit.events, part.maxEvents - part.records);
    const read = await this.queue.decode(most, limit.bytes, behind, mayOpen);
    const isFront = part === this.parts[0];
    if ('requesting' in read && part.records > 0) return NO_RECORDS;
    if ('requesting' in read && (!isFront || this.queue.mayStayOpen)) {
      // A part that is read ahead is read again in its turn.
      if (isFront) this.requesting = read.requesting;
      else this.isContinuous = false;
      this.end(part, null);
      return null;
    }
    const records = 'requesting' in read ? await read.requesting : read;
    const [first] = records.envelopes;
    part.records += records.envelopes.length;
    part.first ??= first && { offset: first.offset, timestamp: first.timestamp };
    // The part may have become the front one during the reads.
    if (part !== this.parts[0]) return records;
    this.position.onFront(part.first);
    // Once the partition is revoked, a rewind must not be committed: it belongs to the generation before.
    if (!this.position.isConfirmed && !this.isStopping) {
      await this.position.confirm(part.first);
      part.expectedUpTo = this.position.expectedUpTo ?? 0;
    }
    return records;
  }

  /**
   * Ends a part. Its result settles after the result of the part in front of it.
   *
   * @param result null where the part was not decided, and has to be begun again
   */
  end(part: Part, result: IntakeResult | null): void {
    const front = this.parts[this.parts.indexOf(part) - 1];
    part.ended.resolve();
    part.result.resolve(this.settle(part, result, front));
  }

  private async settle(
    part: Part,
    result: IntakeResult | null,
    front: Part | undefined,
  ): Promise<PartResult> {
    await front?.result.promise.catch(() => undefined);
    let isWhole = false;
    try {
      await this.queue.untilRead();
      if (result === null || part.isVoid) return { decided: null, undecided: null };
      const { answers, undecided } = result;
      isWhole = undecided === null;
      if (isWhole) this.isContinuous ||= answers.some(({ decision }) => !decision.redelivered);
      const isDecided = isWhole || answers.length > 0;
      // The part in front was not answered yet, so the store may have been asked too early.
      const isTooEarly = part.isAhead && mayBeTooEarly(undecided);
      if (!isTooEarly) this.size.update(part.records, isDecided ? null : undecided);
      return {
        decided: !isDecided
          ? null
          : {
              // Publishing may take long, so records kept until then would use memory.
              toPublish: this.deps.publishVerdicts === null ? [] : answers.map(withoutRecord),
              nextOffset: this.queue.remove(answers.length),
              decidedUpTo: endOf(answers.at(-1)?.envelope),
            },
        undecided: isTooEarly ? null : undecided,
      };
    } finally {
      part.records = 0;
      const ahead = this.parts[this.parts.indexOf(part) + 1];
      if (!isWhole) await this.voidAhead(ahead);
      if (!isWhole || ahead === undefined) this.queue.trimOpened();
    }
  }

  /** Ends the part ahead of a part that was not decided as a whole. Its records are read again. */
  private async voidAhead(ahead: Part | undefined): Promise<void> {
    this.isContinuous = false;
    if (ahead === undefined) return;
    ahead.isVoid = true;
    await ahead.ended.promise;
    this.parts.pop();
  }
}
