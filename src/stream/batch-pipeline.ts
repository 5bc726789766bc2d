/**
 * The batches of a partition that are under way: the one that its loop waits for, and, where the machine has nothing else to do, the one behind it, which is
 * read and judged while the store is at what the first one writes. Each is a transaction of its own, and they are answered in their order
 * (docs/rules.md, U1).
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
 * A partition's first batch takes no more records than this, and each one after it twice as many, up to BATCH_EVENTS: workers that begin
 * together may meet in the rounds that they open, and what is decided anew then is little. One that could not be decided is tried again as half
 * of it: less may be what a slow store can do in time.
 */
const FIRST_BATCH_EVENTS = 250;
/** A batch takes no further record once it holds this many bytes. */
const MAX_BATCH_BYTES = 4 * 1024 * 1024;
/**
 * A partition of which so many bytes wait takes turns. Less is soon judged, and takes longer to ask and tell the store, for which it need not wait for
 * others.
 */
const LARGE_BATCH_BYTES = 64 * 1024;
/**
 * A partition of which so many bytes wait behind a batch may have the next one begun. With less, it would be a small one: where a worker is hard put to keep up, waiting
 * makes batches larger, and events cheaper.
 */
const AHEAD_BYTES = 1024 * 1024;

/** What the partitions of a worker share to have batches decided. */
export interface DecidingShared {
  /** So many batches are decided at once. */
  readonly slots: Semaphore;
  /**
   * Of those of which much waits one is read and judged at a time, until all that its batch writes is on its way to the store. Side by side they would only wait for the
   * same processor: what they are made of lives longer, and is copied by more garbage collections.
   */
  readonly turns: Turns;
  readonly queueShares: QueueShares;
}

/** What is kept of a batch's first record: not its bytes, nor the fetch in which they stand. */
export type FirstRecord = Pick<StreamRecord, 'offset' | 'timestamp'>;

/** What a partition's loop knows. */
export interface PipelineOwner {
  readonly stopSignal: AbortSignal;
  /** A batch is waited for that begins with this record. */
  onBatchAwaited(first: FirstRecord): void;
  /** How far the store has to have decided the partition before this record. @throws where the store has to be asked, and does not say */
  expectedUpTo(first: FirstRecord): Promise<number>;
}

/** What came of a batch. */
export interface BatchResult {
  /** Null where not even its first record could be decided. */
  readonly decided: DecidedPrefix | null;
  /** What stands in the way of the rest of it; null, too, where it was given up, or has to be begun anew. */
  readonly undecided: Error | null;
}

/** What of a batch is decided, or was fetched and held no record. */
export interface DecidedPrefix {
  readonly toPublish: readonly PublishedAnswer[];
  /** Where the next batch begins. */
  readonly nextOffset: number;
  /** One past its last record; null where it held none. */
  readonly decidedUpTo: number | null;
}

interface Batch {
  /** One past the last record of the one before, where that is not answered yet. */
  readonly follows: number | null;
  /** Its loop waits for it. */
  isAwaited: boolean;
  /** The first of its records, once they are read. */
  first: FirstRecord | undefined;
  /** So many records at the head of the queue are being decided with it. */
  records: number;
  /** One past the last of them, once all that they write is on its way to the store. */
  sentUpTo: number | null;
  /** It is given up: what is before it was not decided whole. */
  isVoid: boolean;
}

interface BegunBatch extends Batch {
  /** Fulfils when nothing is done any more to have it decided. Without what came of it, whose records would stay for as long as it waits for its turn. */
  readonly decidingEnded: Promise<void>;
  /** Settles behind that of the batch before, with what is decided taken out of the queue. */
  readonly result: Promise<BatchResult>;
}

export class BatchPipeline {
  /** The next one that the loop waits for. */
  private current: BegunBatch | null = null;
  /** The one that was begun behind it. */
  private ahead: BegunBatch | null = null;
  /** Batches whose records are in the queue. */
  private inQueue = 0;
  /** Records are being read from the queue, which finds them by their place. */
  private peeking: Promise<unknown> | null = null;
  private maxEvents = FIRST_BATCH_EVENTS;
  /**
   * The store stands where the last batch ended, and would notice that something before the next is missing. Not before something was decided anew: of a log that
   * was made anew, or of which a part was passed over, it may have decided what stands behind.
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
   * Waits for the batch that was begun first, or begins one.
   *
   * @throws where its records cannot be read, or the store does not say how far it is
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

  /** Begins the next batch while the store is at what the last one writes, where much waits, and fewer partitions hold something than are decided at once. */
  lookAhead(): void {
    const { partitionsAtOnce, largeBatchBytes = AHEAD_BYTES } = this.deps;
    const { slots, queueShares } = this.shared;
    const sentUpTo = this.current?.sentUpTo ?? null;
    if (sentUpTo === null || this.ahead !== null || !this.isContinuous || this.owner.stopSignal.aborted)
      return;
    // A slot that is only free for a moment is the others': a batch that waits for it meanwhile grows, and costs less.
    if (queueShares.queuesInUse >= partitionsAtOnce || !slots.hasFree) return;
    if (this.queue.hasUnread(largeBatchBytes)) this.begin(sentUpTo);
  }

  /** Waits until nothing is under way, and takes nothing of it: its records come again, to us or to the next owner. */
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
    // The loop is told, once it is its turn.
    begun.result.catch(NOTHING);
    if (before === null) this.current = begun;
    else this.ahead = begun;
    this.inQueue++;
    return begun;
  }

  /** Reads, decodes and decides in its turn: what waits for others of its worker waits as bytes. */
  private async decide(batch: Batch): Promise<IntakeResult | null> {
    const { clock, intake, batchEvents, largeBatchBytes = LARGE_BATCH_BYTES, wireFormat } = this.deps;
    const { slots, turns } = this.shared;
    const maxEvents = Math.min(this.maxEvents, batchEvents);
    await slots.acquire();
    const endTurn = this.queue.bytes < largeBatchBytes ? NOTHING : await turns.take();
    try {
      if (this.isAborted(batch)) return null;
      const records = await this.peek(batch, maxEvents);
      // Opening records takes time. A partition revoked meanwhile must not set the group back: the offset is of the generation before.
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
      // Where no record is read behind another batch, what that one leaves of the queue shows what that means.
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

  /** Others are decided while the registry is asked, unless what is decompressed would be too much together. */
  private async withoutSlotWhile<T>(answer: Promise<T>): Promise<T> {
    if (!this.queue.keepOpen()) return answer;
    try {
      return await this.shared.slots.releasedWhile(answer);
    } finally {
      this.queue.releaseOpened();
    }
  }

  /** What came of a batch, once that of the one before is known. */
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
      // Where the one before was not answered yet, the store may have been asked too early.
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

  /** How many events the next batch may hold. @param undecided what stood in the way of all of the last one */
  private resize(events: number, undecided: Error | null): void {
    if (events === 0) return;
    const isTooMuch = undecided !== null && mayBeTooMuch(undecided);
    this.maxEvents = isTooMuch
      ? Math.max(1, events >> 1)
      : Math.min(this.maxEvents, this.deps.batchEvents) * 2;
  }

  /** Out of the queue, and all of it but what is published let go: publishing has no slot, and may wait for long. */
  private removeDecided(batch: Batch, answers: readonly Answer[]): DecidedPrefix {
    batch.records = 0;
    return {
      toPublish: this.deps.publishVerdicts === null ? [] : answers.map(withoutRecord),
      nextOffset: this.queue.remove(answers.length),
      decidedUpTo: endOf(answers.at(-1)?.envelope),
    };
  }

  /** What was begun behind a batch that is not decided whole is begun anew, whatever came of it. */
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

/** When a record was written, in milliseconds since 1970; null where its producer does not say. */
export function timeOf({ timestamp }: FirstRecord): number | null {
  const time = Number(timestamp);
  return time > 0 ? time : null;
}

function endOf(last: Envelope | undefined): number | null {
  return last === undefined ? null : last.offset + 1;
}

const NOTHING = (): void => undefined;
