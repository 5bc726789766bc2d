/**
 * The batches in flight of one partition, two at most (docs/rules.md, U1). The loop waits for the batch
 * `current`. The batch `ahead` is read and judged while the store writes `current`, on a machine with nothing
 * else to do. Each batch is a transaction of its own, and batches are answered in their order.
 */

import { observeBatch, observeWait } from '../intake/batch-metrics';
import type { Answer, Envelope } from '../intake/delivery';
import type { IntakeResult } from '../intake/intake';
import { mayBeTooEarly, mayBeTooMuch } from '../intake/undecided';
import type { StreamRecord } from '../kafka/protocol/record';
import type { Semaphore } from '../lib/semaphore';
import type { TopicPartition } from '../lib/topic-partition';
import type { Turns } from '../lib/turns';
import { type PublishedAnswer, withoutRecord } from '../publishing/published-answer';
import type { ChunkQueue, QueueShares } from './chunk-queue';
import type { StreamDeps } from './deps';
import { decodeRecords } from './envelope';

/**
 * The most records in a partition's first batch. Each later batch may hold twice as many as the one before,
 * up to BATCH_EVENTS. A small first batch keeps conflicts cheap: workers that start together may open the
 * same rounds, and then decide their batches again. A batch that could not be decided is retried with half
 * its records, because a slow store may manage fewer in time.
 */
const FIRST_BATCH_EVENTS = 250;
/** A batch takes no further record once it holds this many bytes. */
const MAX_BATCH_BYTES = 4 * 1024 * 1024;
/**
 * A partition with this many bytes in its queue takes turns with others like it. A smaller queue is judged
 * quickly. Most of its time goes to the round trips to the store, which need no turn.
 */
const LARGE_BATCH_BYTES = 64 * 1024;
/**
 * The batch ahead is begun once this many unread bytes wait behind the current batch. With fewer, the batch
 * ahead would be small. On a worker that can hardly keep up, waiting makes batches larger and events cheaper.
 */
const AHEAD_BYTES = 1024 * 1024;

/** The parts that all partitions of a worker share to decide batches. */
export interface DecidingShared {
  /** Limits how many batches are decided at once. */
  readonly slots: Semaphore;
  /**
   * Lets one partition with a large backlog read and judge at a time, until its batch is sent to the store.
   * Side by side these partitions would only compete for one processor. Their objects would live longer, and
   * more garbage collections would copy them.
   */
  readonly turns: Turns;
  readonly queueShares: QueueShares;
}

/** The fields of a batch's first record that are kept. The whole record would keep its fetch in memory. */
export type FirstRecord = Pick<StreamRecord, 'offset' | 'timestamp'>;

/** The side of a partition's loop that the pipeline calls. */
export interface PipelineOwner {
  readonly stopSignal: AbortSignal;
  /** The loop now waits for the batch that begins with this record. */
  onBatchAwaited(first: FirstRecord): void;
  /**
   * How far the store must have decided the partition before this record.
   *
   * @throws where the store has to be asked and does not answer
   */
  expectedUpTo(first: FirstRecord): Promise<number>;
}

/** The result of a batch. */
export interface BatchResult {
  /**
   * The records that were decided, from the first on; null where not even the first record could be decided.
   */
  readonly decided: DecidedPrefix | null;
  /**
   * Why the rest of the batch could not be decided. Null if the whole batch was decided, or if it was aborted
   * or has to begin again.
   */
  readonly undecided: Error | null;
}

/** The decided records at the beginning of a batch. Also covers a fetch without records. */
export interface DecidedPrefix {
  readonly toPublish: readonly PublishedAnswer[];
  /** The offset where the next batch begins. */
  readonly nextOffset: number;
  /** One past the last decided record; null where there was no record. */
  readonly decidedUpTo: number | null;
}

interface Batch {
  /**
   * One past the last record of the batch before this one, while that batch is not answered yet; else null.
   */
  readonly follows: number | null;
  /** The loop waits for this batch. */
  isAwaited: boolean;
  /** The first record, once the records are read. */
  first: FirstRecord | undefined;
  /** How many records at the head of the queue belong to this batch. */
  records: number;
  /** One past the last record, once all writes of the batch are sent to the store. */
  sentUpTo: number | null;
  /** The batch is aborted, because the batch before it was not decided as a whole. */
  isVoid: boolean;
}

interface BegunBatch extends Batch {
  /**
   * Resolves when deciding has stopped, successfully or not. Carries no result on purpose: a result would
   * keep the batch's records in memory while the batch waits to be answered.
   */
  readonly decidingEnded: Promise<void>;
  /** Settles after the result of the batch before, once the decided records are removed from the queue. */
  readonly result: Promise<BatchResult>;
}

export class BatchPipeline {
  /** The batch that the loop waits for next. */
  private current: BegunBatch | null = null;
  /** The batch that was begun behind `current`. */
  private ahead: BegunBatch | null = null;
  /** Number of batches whose records are in the queue. */
  private inQueue = 0;
  /**
   * A read of the queue in progress. It finds records by their place, so nothing may be removed meanwhile.
   */
  private peeking: Promise<unknown> | null = null;
  private maxEvents = FIRST_BATCH_EVENTS;
  /**
   * The store is where the last batch ended, and would notice missing records before the next batch. False
   * until a record has been decided for the first time, not redelivered. Before that, the store may already
   * have decided records further on: of an older log under the same name, or behind a gap.
   */
  private isContinuous = false;

  constructor(
    private readonly partition: TopicPartition,
    private readonly queue: ChunkQueue,
    private readonly owner: PipelineOwner,
    private readonly deps: StreamDeps,
    private readonly shared: DecidingShared,
  ) {}

  get isEmpty(): boolean {
    return this.current === null;
  }

  /**
   * Waits for the batch in front, or begins one.
   *
   * @throws where its records cannot be read, or the store does not report how far it is
   */
  async next(): Promise<BatchResult> {
    const batch = this.current ?? this.begin(null);
    batch.isAwaited = true;
    if (batch.first !== undefined) this.owner.onBatchAwaited(batch.first);
    try {
      return await batch.result;
    } finally {
      this.current = this.ahead;
      this.ahead = null;
      this.lookAhead();
    }
  }

  /**
   * Begins the batch ahead while the store writes the current one. Needs a large backlog, and fewer
   * partitions with queued records than batches decided at once.
   */
  lookAhead(): void {
    const { partitionsAtOnce, largeBatchBytes = AHEAD_BYTES } = this.deps;
    const { slots, queueShares } = this.shared;
    const sentUpTo = this.current?.sentUpTo ?? null;
    if (sentUpTo === null || this.ahead !== null || !this.isContinuous || this.owner.stopSignal.aborted)
      return;
    // A slot that is free only for a moment is left to the other partitions. A batch that waits for a slot
    // grows meanwhile, and costs less per record.
    if (queueShares.queuesInUse >= partitionsAtOnce || !slots.hasFree) return;
    if (this.queue.hasUnread(largeBatchBytes)) this.begin(sentUpTo);
  }

  /**
   * Waits until no batch is in flight, and discards the results. The records are delivered again, to this
   * worker or to the next owner.
   */
  async abort(): Promise<void> {
    this.isContinuous = false;
    const begun = [this.current, this.ahead];
    for (const batch of begun) if (batch !== null) batch.isVoid = true;
    await Promise.allSettled(begun.map((batch) => batch?.result));
    this.current = null;
    this.ahead = null;
  }

  private begin(follows: number | null): BegunBatch {
    const before = this.current;
    const batch: Batch = {
      follows,
      isAwaited: false,
      first: undefined,
      records: 0,
      sentUpTo: null,
      isVoid: false,
    };
    const deciding = this.decide(batch);
    const decidingEnded = deciding.then(NOTHING, NOTHING);
    const begun = Object.assign(batch, {
      decidingEnded,
      result: this.settleInOrder(batch, deciding, before),
    });
    // The loop gets the error once it waits for this batch.
    begun.result.catch(NOTHING);
    if (before === null) this.current = begun;
    else this.ahead = begun;
    this.inQueue++;
    return begun;
  }

  /** Reads, decodes and decides a batch in its turn. Until then its records stay bytes in the queue. */
  private async decide(batch: Batch): Promise<IntakeResult | null> {
    const { clock, intake, batchEvents, largeBatchBytes = LARGE_BATCH_BYTES, wireFormat } = this.deps;
    const { slots, turns } = this.shared;
    const maxEvents = Math.min(this.maxEvents, batchEvents);
    await slots.acquire();
    const endTurn = this.queue.bytes < largeBatchBytes ? NOTHING : await turns.take();
    try {
      if (this.isAborted(batch)) return null;
      const records = await this.peek(batch, maxEvents);
      // Opening records takes time, and the partition may be revoked meanwhile. It must not commit a rewind
      // then: that offset belongs to the generation before.
      if (this.isAborted(batch)) return null;
      const first = records[0] && { offset: records[0].offset, timestamp: records[0].timestamp };
      batch.first = first;
      if (first !== undefined && batch.isAwaited) this.owner.onBatchAwaited(first);
      const expectedUpTo = batch.follows ?? (first === undefined ? 0 : await this.owner.expectedUpTo(first));
      const { envelopes, failure } = await decodeRecords(records, wireFormat, (asked) => {
        endTurn();
        return this.withoutSlotWhile(asked);
      });
      if (this.isAborted(batch)) return null;
      // No record ahead: decide nothing yet. Once the batch in front is removed, the queue shows whether the
      // partition is drained.
      if (envelopes.length === 0) return batch.follows === null ? { answers: [], undecided: failure } : null;
      batch.records = envelopes.length;
      const began = clock.now();
      const { answers, undecided } = await intake.decide(this.partition, envelopes, expectedUpTo, () => {
        endTurn();
        batch.sentUpTo = endOf(envelopes.at(-1));
        this.lookAhead();
      });
      this.observe(first, answers, clock.now() - began);
      return { answers, undecided: undecided ?? failure };
    } finally {
      endTurn();
      slots.release();
    }
  }

  private isAborted(batch: Batch): boolean {
    return batch.isVoid || this.owner.stopSignal.aborted;
  }

  private async peek(batch: Batch, maxEvents: number): Promise<readonly StreamRecord[]> {
    const before = this.ahead === batch ? (this.current?.records ?? 0) : 0;
    const peeked = this.queue.peek(maxEvents, MAX_BATCH_BYTES, before);
    const done = (): void => {
      this.peeking = null;
    };
    this.peeking = peeked.then(done, done);
    return peeked;
  }

  /**
   * Gives the slot to other batches while the registry is asked, unless too many decompressed bytes would
   * wait in all queues together.
   */
  private async withoutSlotWhile<T>(answer: Promise<T>): Promise<T> {
    if (!this.queue.keepOpen()) return answer;
    try {
      return await this.shared.slots.releasedWhile(answer);
    } finally {
      this.queue.releaseOpened();
    }
  }

  /** The result of a batch, after the result of the batch before it. */
  private async settleInOrder(
    batch: Batch,
    deciding: Promise<IntakeResult | null>,
    before: BegunBatch | null,
  ): Promise<BatchResult> {
    await before?.result.catch(NOTHING);
    let isWhole = false;
    try {
      const result = await deciding;
      while (this.peeking !== null) await this.peeking;
      if (result === null || batch.isVoid) return { decided: null, undecided: null };
      const { answers, undecided } = result;
      isWhole = undecided === null;
      if (isWhole) this.isContinuous ||= answers.some(({ decision }) => !decision.redelivered);
      const isDecided = isWhole || answers.length > 0;
      // The batch before was not answered yet, so the store may have been asked too early.
      const isTooEarly = batch.follows !== null && mayBeTooEarly(undecided);
      if (!isTooEarly) this.resize(batch.records, isDecided ? null : undecided);
      return {
        decided: isDecided ? this.removeDecided(batch, answers) : null,
        undecided: isTooEarly ? null : undecided,
      };
    } finally {
      if (!isWhole) await this.abortAhead(batch);
      if (--this.inQueue === 0) this.queue.trimOpened();
    }
  }

  /**
   * Sets how many events the next batch may hold.
   *
   * @param undecided why no record of the last batch could be decided; null where some were
   */
  private resize(events: number, undecided: Error | null): void {
    if (events === 0) return;
    const isTooMuch = undecided !== null && mayBeTooMuch(undecided);
    this.maxEvents = isTooMuch
      ? Math.max(1, events >> 1)
      : Math.min(this.maxEvents, this.deps.batchEvents) * 2;
  }

  /**
   * Removes the decided records from the queue, and keeps only the verdicts to publish. Publishing holds no
   * slot and may take long, so records kept until then would use memory.
   */
  private removeDecided(batch: Batch, answers: readonly Answer[]): DecidedPrefix {
    batch.records = 0;
    return {
      toPublish: this.deps.publishVerdicts === null ? [] : answers.map(withoutRecord),
      nextOffset: this.queue.remove(answers.length),
      decidedUpTo: endOf(answers.at(-1)?.envelope),
    };
  }

  /**
   * Aborts the batch ahead of a batch that was not decided as a whole. It is begun again, whatever its
   * result.
   */
  private async abortAhead(batch: Batch): Promise<void> {
    this.isContinuous = false;
    if (this.current !== batch || this.ahead === null) return;
    this.ahead.isVoid = true;
    await this.ahead.decidingEnded;
    this.ahead = null;
  }

  private observe(first: FirstRecord | undefined, answers: readonly Answer[], ms: number): void {
    const nextOffset = endOf(answers.at(-1)?.envelope);
    if (first === undefined || nextOffset === null) return;
    observeBatch(this.deps, this.partition, answers, ms);
    const since = timeOf(first);
    if (since !== null) observeWait(this.deps, since);
    this.deps.logger.debug(
      { ...this.partition, events: answers.length, nextOffset, ms: Math.round(ms) },
      'batch decided',
    );
  }
}

/** When a record was written, in milliseconds since 1970. Null where its producer left out the time. */
export function timeOf({ timestamp }: FirstRecord): number | null {
  const time = Number(timestamp);
  return time > 0 ? time : null;
}

function endOf(last: Envelope | undefined): number | null {
  return last === undefined ? null : last.offset + 1;
}

const NOTHING = (): void => undefined;
