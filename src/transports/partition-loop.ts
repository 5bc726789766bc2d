/**
 * The loop of a Kafka partition: take records in their order, have them decided, publish the decisions, commit the offset
 * (docs/rules.md, U1-U5).
 */
import { backoffMs } from '../domain/backoff';
import {
  type Answer,
  type Envelope,
  type IntakeResult,
  lostFrom,
  mayBeTooMuch,
  type Source,
  undecidedCause,
} from '../intake';
import { TopicPaused } from '../intake/reject-limit';
import type { UndecidedCause } from '../telemetry';
import { ChunkQueue, type QueueShares } from './chunk-queue';
import type { Committer } from './committer';
import { envelopeOf } from './envelope';
import { observeBatch, observeWait } from './observe';
import { type Chunk, messageOf, type StreamDeps, type StreamRecord } from './record-source';

/**
 * A partition's first batch takes no more records than this, and each one after it twice as many, up to BATCH_EVENTS: workers that begin
 * together may meet in the rounds that they open, and what is decided anew then is little. One that could not be decided is tried again as half
 * of it: less may be what a slow store can do in time.
 */
const FIRST_BATCH_EVENTS = 250;
/** A batch takes no further record once it holds this many bytes. */
const MAX_BATCH_BYTES = 4 * 1024 * 1024;
/**
 * Records whose schemas are asked for at the same time. One after the other, a sender of ever new ids, which the registry is asked for twice,
 * would hold up all who share the partition.
 */
const DECODED_AT_ONCE = 64;

const NOTHING = { answers: [], undecided: null, isEmpty: false } as const;

/** A partition that waits. */
export interface UndecidedPartition extends Source {
  /** Since its first failure. */
  readonly sinceMs: number;
  readonly failures: number;
  /** What the last one said. */
  readonly because: string;
  readonly cause: UndecidedCause;
}

/** Where a partition stands. */
export interface Standing extends Source {
  /** Offsets between what is decided and the end; null until something is known of both. */
  readonly lag: number | null;
  /** Time of the first record that is fetched and not decided, in milliseconds since 1970; null where there is none, or none was read yet. */
  readonly waitsSince: number | null;
  readonly undecided: UndecidedPartition | null;
}

/** One partition in one generation of the group. */
export class PartitionLoop {
  private readonly queue: ChunkQueue;
  private paused = false;
  private running: Promise<void> | null = null;
  private readonly ended = new AbortController();
  private revoked = false;
  private failures = 0;
  private failingSince = 0;
  private failure: unknown = null;
  private cause: UndecidedCause = 'worker';
  /** Where the partition ends, as a broker last told. */
  private endOffset: number | null = null;
  /** Where the next batch begins. */
  private nextOffset: number | null = null;
  /** See Progress; 0 where nothing is known of it. */
  private decidedUpTo = 0;
  private waitsSince: number | null = null;
  private isSetByOthers = false;
  private maxEvents = FIRST_BATCH_EVENTS;

  constructor(
    readonly partition: Source,
    private readonly deps: StreamDeps,
    private readonly turns: Turns,
    private readonly committer: Committer,
    shares: QueueShares,
    private readonly active: () => void,
  ) {
    this.queue = new ChunkQueue(shares);
  }

  offer(chunk: Chunk): void {
    if (this.ended.signal.aborted) return;
    this.queue.push(chunk);
    if (this.queue.isFull && !this.paused) {
      this.paused = true;
      this.deps.source.pause(this.partition);
    }
    this.running ??= this.run();
  }

  /** A broker said where the partition ends. */
  ends(offset: number): void {
    this.endOffset = offset;
  }

  /** @param decidedUpTo as SourceListener's */
  begins(decidedUpTo: number | null): void {
    // An offset that no worker has set may be beyond what is decided.
    if (decidedUpTo === null) this.isSetByOthers = true;
    else this.decidedUpTo = decidedUpTo;
  }

  /** Whether it fetches no more until it is decided further. */
  get isPaused(): boolean {
    return this.paused;
  }

  /** How far the store has to have decided it; null while a batch is under way, which asks by itself. */
  expected(): number | null {
    return this.running === null ? this.decidedUpTo : null;
  }

  standing(): Standing {
    const { endOffset, nextOffset, queue } = this;
    const undecided = this.undecided();
    // Nothing is left of a partition of which nothing has come.
    const from = nextOffset ?? (queue.isEmpty ? endOffset : null);
    const lag = endOffset === null || from === null ? null : Math.max(0, endOffset - from);
    return { ...this.partition, lag, waitsSince: queue.isEmpty ? null : this.waitsSince, undecided };
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
    this.waitNoMore();
  }

  undecided(): UndecidedPartition | null {
    if (this.failures === 0) return null;
    const sinceMs = this.deps.clock.now() - this.failingSince;
    return {
      ...this.partition,
      sinceMs,
      failures: this.failures,
      because: messageOf(this.failure),
      cause: this.cause,
    };
  }

  private async run(): Promise<void> {
    while (!this.queue.isEmpty && !this.ended.signal.aborted) {
      try {
        this.active();
        await this.step();
      } catch (error) {
        // Whatever stands in the way shows as an undecided partition, a defect of this loop too.
        this.queue.rest();
        await this.wait(error, undecidedCause(error));
      }
    }
    this.running = null;
  }

  /** Decides one batch, or as much of its beginning as can be decided now. @throws where not even its first record can be */
  private async step(): Promise<void> {
    const { answers, undecided, isEmpty } = await this.decideNext();
    if (isEmpty) this.advance([]);
    if (answers.length > 0) {
      await this.publish(answers);
      this.advance(answers);
    }
    const lost = lostFrom(undecided);
    if (lost !== null) this.goBack(lost);
    else if (undecided !== null) throw undecided;
  }

  /** What the store has lost is read again; what waits is fetched behind it once more. */
  goBack(to: number): void {
    if (this.ended.signal.aborted) return;
    const { source, logger } = this.deps;
    source.goBack(this.partition, to);
    logger.error(
      { ...this.partition, from: this.decidedUpTo, to },
      'the store has lost what it had decided; it is read again',
    );
    this.decidedUpTo = to;
    this.nextOffset = to;
    this.queue.clear();
    this.settled();
    this.resumeIfPaused();
  }

  /** Reads, decodes and decides in its turn: what waits for others of its worker waits as bytes. */
  private async decideNext(): Promise<IntakeResult & { isEmpty: boolean }> {
    const { clock, intake, batchEvents } = this.deps;
    const maxEvents = Math.min(this.maxEvents, batchEvents);
    await this.turns.begin();
    try {
      if (this.ended.signal.aborted) return NOTHING;
      const records = await this.queue.peek(maxEvents, MAX_BATCH_BYTES);
      this.takesUp(records[0]);
      if (this.isSetByOthers && records[0] !== undefined) await this.askHowFar(records[0].offset);
      const { envelopes, failure } = await this.decode(records);
      if (this.ended.signal.aborted) return NOTHING;
      if (envelopes.length === 0) return { answers: [], undecided: failure, isEmpty: failure === null };
      const began = clock.now();
      const { answers, undecided } = await intake.decide(this.partition, envelopes, this.decidedUpTo);
      this.observe(answers, clock.now() - began);
      const isTooMuch = answers.length === 0 && mayBeTooMuch(undecided);
      this.maxEvents = isTooMuch ? Math.max(1, envelopes.length >> 1) : maxEvents * 2;
      return { answers, undecided: undecided ?? failure, isEmpty: false };
    } finally {
      this.turns.end();
    }
  }

  /**
   * Of offsets that no worker has set, only the store knows what of the records before them is decided. Tells of those that are not.
   *
   * @throws where the store does not say now how far it is
   */
  private async askHowFar(to: number): Promise<void> {
    const { decidedUpTo, metrics, logger } = this.deps;
    const [from = 0] = await decidedUpTo([this.partition]);
    this.isSetByOthers = false;
    this.decidedUpTo = Math.min(from, to);
    if (from === 0 || from >= to) return;
    metrics.gapRecords.inc({ topic: this.partition.topic }, to - from);
    logger.error(
      { ...this.partition, from, to },
      'records were passed over: offsets were set forward, or lost',
    );
  }

  private takesUp(first: StreamRecord | undefined): void {
    if (first === undefined) return;
    this.nextOffset ??= first.offset;
    const timestamp = Number(first.timestamp);
    // Some producers give none.
    this.waitsSince = timestamp > 0 ? timestamp : null;
  }

  /** Decodes records up to the first that cannot be decoded now: what stands before it need not wait for it. */
  private async decode(
    records: readonly StreamRecord[],
  ): Promise<{ envelopes: Envelope[]; failure: Error | null }> {
    const envelopes: Envelope[] = [];
    try {
      for (let from = 0; from < records.length; from += DECODED_AT_ONCE) {
        const begun = records.slice(from, from + DECODED_AT_ONCE).map((record) => this.beginEnvelope(record));
        if (begun.every(isDecoded)) envelopes.push(...begun);
        else
          for (const each of begun) {
            const envelope = isDecoded(each) ? each : await this.turns.without(each);
            envelopes.push(envelope);
            if (envelope.payload.type === 'unavailable') return { envelopes, failure: null };
          }
      }
      return { envelopes, failure: null };
    } catch (error) {
      return { envelopes, failure: error instanceof Error ? error : new Error(String(error)) };
    }
  }

  /** As `envelopeOf`, where a failure has to wait until what stands before it is decoded. */
  private beginEnvelope(record: StreamRecord): Envelope | Promise<Envelope> {
    const envelope = envelopeOf(record, this.deps.wireFormat);
    if (envelope instanceof Promise) envelope.catch(() => undefined);
    return envelope;
  }

  /** Publishes until it succeeds: the verdicts are stored, so deciding again would only count redeliveries. */
  private async publish(answers: readonly Answer[]): Promise<void> {
    const { publishVerdicts } = this.deps;
    if (publishVerdicts === null) return;
    for (;;) {
      try {
        await publishVerdicts(this.partition, answers);
        return;
      } catch (error) {
        // Not committed, so the next owner reads these records again and publishes their verdicts.
        if (this.ended.signal.aborted) throw error;
        await this.wait(error, 'kafka');
      }
    }
  }

  private advance(answers: readonly Answer[]): void {
    if (this.revoked) return;
    const last = answers.at(-1);
    if (last !== undefined) this.decidedUpTo = last.envelope.offset + 1;
    const offset = this.queue.remove(answers.length);
    this.queue.rest();
    this.nextOffset = offset;
    this.settled();
    this.committer.decided({ ...this.partition, offset, decidedUpTo: this.decidedUpTo });
    this.resumeIfPaused();
  }

  private resumeIfPaused(): void {
    if (this.paused && this.queue.isLow) {
      this.paused = false;
      this.deps.source.resume(this.partition);
    }
  }

  private settled(): void {
    if (this.failures === 0) return;
    this.deps.logger.info({ ...this.partition, failures: this.failures }, 'partition is no longer undecided');
    this.waitNoMore();
  }

  private waitNoMore(): void {
    if (this.failures > 0) this.deps.metrics.undecidedPartitions.dec();
    this.failures = 0;
    this.noteFailure(null);
  }

  /** The wait of an undecided partition: 1, 2, 4 ... 30 s, cut short by shutdown and by losing the partition (U2). */
  private async wait(error: unknown, cause: UndecidedCause): Promise<void> {
    const { clock, logger, metrics } = this.deps;
    if (this.ended.signal.aborted) return;
    if (this.failures === 0) {
      this.failingSince = clock.now();
      metrics.undecidedPartitions.inc();
    }
    this.failures++;
    this.cause = cause;
    this.noteFailure(error);
    metrics.retries.inc({ class: 'undecided' });
    const waitMs = backoffMs(this.failures);
    logger.warn(
      { ...this.partition, failures: this.failures, waitMs, error: messageOf(error) },
      'partition is undecided',
    );
    await clock.sleep(waitMs, this.ended.signal);
  }

  private noteFailure(error: unknown): void {
    const { topic } = this.partition;
    const { pausedPartitions } = this.deps.metrics;
    if (this.failure instanceof TopicPaused) pausedPartitions.dec({ topic });
    if (error instanceof TopicPaused) pausedPartitions.inc({ topic });
    this.failure = error;
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

function isDecoded(envelope: Envelope | Promise<Envelope>): envelope is Envelope {
  return !(envelope instanceof Promise);
}

/** At most `free` turns at once; the others wait in the order in which they came. */
export class Turns {
  private readonly waiting: (() => void)[] = [];

  constructor(private free: number) {}

  async begin(): Promise<void> {
    if (this.free > 0) this.free--;
    else await new Promise<void>((resolve) => this.waiting.push(resolve));
  }

  end(): void {
    const next = this.waiting.shift();
    if (next === undefined) this.free++;
    else next();
  }

  /** Leaves the turn to others while something else is waited for. */
  async without<T>(promise: Promise<T>): Promise<T> {
    this.end();
    try {
      return await promise;
    } finally {
      await this.begin();
    }
  }
}
