/**
 * The loop of a Kafka partition: take records in their order, have them decided, publish the decisions, commit the offset
 * (docs/rules.md, U1-U5).
 */
import { type Answer, lostFrom, mayBeTooMuch, type TopicPartition, undecidedCause } from '../intake';
import type { Turns } from '../intake/turns';
import { ChunkQueue, type QueueShares } from './chunk-queue';
import type { Committer } from './committer';
import { decodeRecords } from './envelope';
import { observeBatch, observeWait } from './observe';
import {
  type Chunk,
  type PublishedAnswer,
  type StreamDeps,
  type StreamRecord,
  withoutRecord,
} from './record-source';
import type { Semaphore } from './semaphore';
import { type UndecidedPartition, UndecidedWait } from './undecided-wait';

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
export interface LoopShared {
  /** So many partitions have a batch decided at once. */
  readonly slots: Semaphore;
  /**
   * Of those of which much waits one is read and judged at a time, until all that its batch writes is on its way to the store. Side by side they would only wait for the
   * same processor: what they are made of lives longer, and is copied by more garbage collections.
   */
  readonly turns: Turns;
  readonly committer: Committer;
  readonly queueShares: QueueShares;
  /** Called before each batch that is tried. */
  readonly active: () => void;
}

/** What came of the next batch. */
interface Next {
  /** Null where not even its first record could be decided. */
  readonly decided: Decided | null;
  /** What stands in the way of the rest of it. */
  readonly undecided: Error | null;
}

/** What of a batch is decided, or was fetched and held no record. */
interface Decided {
  readonly toPublish: readonly PublishedAnswer[];
  /** Where the next batch begins. */
  readonly nextOffset: number;
  /** See Progress. */
  readonly expectedUpTo: number | null;
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
  private waitsSince: number | null = null;
  /** Since when there is more than can be fetched, in milliseconds since 1970. */
  private heldUpSince: number | null = null;
  private maxEvents = FIRST_BATCH_EVENTS;

  constructor(
    readonly partition: TopicPartition,
    private readonly deps: StreamDeps,
    private readonly shared: LoopShared,
  ) {
    this.queue = new ChunkQueue(shared.queueShares);
    this.wait = new UndecidedWait(partition, deps);
  }

  offer(chunk: Chunk): void {
    if (this.ended.signal.aborted) return;
    this.queue.push(chunk);
    if (this.queue.isFull && !this.fetchPaused) {
      this.fetchPaused = true;
      this.deps.source.pause(this.partition);
    }
    this.running ??= this.run();
  }

  /** A broker said where the partition ends, and where it begins by now. */
  ends(end: number, start: number): void {
    this.log = { start, end };
    if (this.running !== null) return;
    if (this.lag === 0) this.heldUpSince = null;
    else this.heldUpSince ??= Date.now();
  }

  /** @param offset @param expectedUpTo as SourceListener's */
  begins(offset: number | null, expectedUpTo: number | null): void {
    this.nextOffset = offset;
    this.expected = expectedUpTo;
  }

  /** Whether it fetches no more until it is decided further. */
  get isFetchPaused(): boolean {
    return this.fetchPaused;
  }

  /** How far the store has to have decided it; null where that is not known, and while a batch is under way, which finds out by itself. */
  expectedUpTo(): number | null {
    return this.running === null ? this.expected : null;
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

  /** Begins no further batch, and resolves when the one under way is decided and published, or cannot be now. */
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
    while (!this.queue.isEmpty && !this.ended.signal.aborted) {
      try {
        this.shared.active();
        await this.step();
      } catch (error) {
        // Whatever stands in the way shows as an undecided partition, a defect of this loop too.
        this.queue.rest();
        await this.wait.afterFailure(error, undecidedCause(error), this.ended.signal);
      }
    }
    this.running = null;
    this.waitsSince = null;
  }

  /** Decides one batch, or as much of its beginning as can be decided now. @throws where not even its first record can be */
  private async step(): Promise<void> {
    const { decided, undecided } = await this.decideNext();
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
      { ...this.partition, from: this.expected, to },
      'the store has lost what it had decided; it is read again',
    );
    this.expected = to;
    this.nextOffset = to;
    this.queue.clear();
    this.wait.over();
    this.resumeIfLow();
  }

  /** Reads, decodes and decides in its turn: what waits for others of its worker waits as bytes. */
  private async decideNext(): Promise<Next> {
    const { clock, intake, batchEvents, largeBatchBytes = LARGE_BATCH_BYTES, wireFormat } = this.deps;
    const { slots, turns } = this.shared;
    const maxEvents = Math.min(this.maxEvents, batchEvents);
    await slots.acquire();
    const endTurn = this.queue.bytes < largeBatchBytes ? NO_TURN : await turns.take();
    try {
      if (this.ended.signal.aborted) return NOTHING;
      const records = await this.queue.peek(maxEvents, MAX_BATCH_BYTES);
      this.takesUp(records[0]);
      if (records[0] !== undefined) this.expected ??= await this.askHowFar(records[0].offset);
      const { envelopes, failure } = await decodeRecords(records, wireFormat, (asked) => {
        endTurn();
        return this.whileAsking(asked);
      });
      if (this.ended.signal.aborted) return NOTHING;
      if (envelopes.length === 0)
        return { decided: failure === null ? this.take([]) : null, undecided: failure };
      const began = clock.now();
      const { answers, undecided } = await intake.decide(
        this.partition,
        envelopes,
        this.expected ?? 0,
        endTurn,
      );
      this.observe(answers, clock.now() - began);
      const isTooMuch = answers.length === 0 && mayBeTooMuch(undecided);
      this.maxEvents = isTooMuch ? Math.max(1, envelopes.length >> 1) : maxEvents * 2;
      return { decided: answers.length === 0 ? null : this.take(answers), undecided: undecided ?? failure };
    } finally {
      endTurn();
      slots.release();
    }
  }

  /** Others are decided while the registry is asked, unless what is decompressed would be too much together. */
  private async whileAsking<T>(asked: Promise<T>): Promise<T> {
    if (!this.queue.keepOpen()) return asked;
    try {
      return await this.shared.slots.releasedWhile(asked);
    } finally {
      this.queue.takeUp();
    }
  }

  /** Out of the queue, and all of it but what is published let go: publishing has no slot, and may wait for long. */
  private take(answers: readonly Answer[]): Decided {
    const last = answers.at(-1);
    const nextOffset = this.queue.remove(answers.length);
    this.queue.rest();
    return {
      toPublish: this.deps.publishVerdicts === null ? [] : answers.map(withoutRecord),
      nextOffset,
      expectedUpTo: last === undefined ? this.expected : last.envelope.offset + 1,
    };
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

  private takesUp(first: StreamRecord | undefined): void {
    if (first === undefined) return;
    // Of a topic that was made anew, the offset that is committed is the old one's.
    this.nextOffset = first.offset;
    const timestamp = Number(first.timestamp);
    // Some producers give none.
    this.waitsSince = timestamp > 0 ? timestamp : null;
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

  private advance({ nextOffset, expectedUpTo }: Decided): void {
    if (this.revoked) return;
    this.expected = expectedUpTo;
    this.nextOffset = nextOffset;
    this.heldUpSince = null;
    this.wait.over();
    // Null where nothing came yet to ask the store about: the next owner has to ask.
    this.shared.committer.decided({ ...this.partition, offset: nextOffset, expectedUpTo });
    this.resumeIfLow();
  }

  private resumeIfLow(): void {
    if (this.fetchPaused && this.queue.isLow) {
      this.fetchPaused = false;
      this.deps.source.resume(this.partition);
    }
  }

  private observe(answers: readonly Answer[], ms: number): void {
    const last = answers.at(-1);
    if (last === undefined) return;
    observeBatch(this.deps, this.partition, answers, ms);
    if (this.waitsSince !== null) observeWait(this.deps, this.waitsSince);
    const nextOffset = last.envelope.offset + 1;
    this.deps.logger.debug(
      { ...this.partition, events: answers.length, nextOffset, ms: Math.round(ms) },
      'batch decided',
    );
  }
}

const NO_TURN = (): void => undefined;
/** Of a partition that is given up. */
const NOTHING: Next = { decided: null, undecided: null };
