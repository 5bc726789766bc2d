/**
 * The loop of a Kafka partition: take records in their order, have them decided, publish the decisions, commit the offset.
 * Every partition goes its own way; one that is undecided waits while the others go on (docs/rules.md, U1-U6).
 *
 * Works above a port, RecordSource, which kafka.ts implements for a real cluster.
 */
import type { Logger } from 'pino';
import type { Clock } from '../clock';
import { backoffMs } from '../domain/backoff';
import type { Answer, Envelope, Intake, IntakeResult, Source } from '../intake';
import type { Metrics } from '../telemetry';
import type { WireFormat } from './wire-format';

/** A record as it came: an envelope whose payload is not decoded yet. */
export interface StreamRecord extends Omit<Envelope, 'payload'> {
  /** Why the batch that this record stands for cannot be read. */
  readonly undecodable?: string;
}

/** Consecutive records of a partition. Offsets may be missing: markers, aborted and compacted records are left out. */
export interface Chunk extends Source {
  readonly records: readonly StreamRecord[];
  /** Where the partition goes on after this chunk, with everything counted that was left out. */
  readonly nextOffset: number;
}

/** A consumer group's side of Kafka. */
export interface RecordSource {
  /** Begins to deliver to the listener. */
  start(listener: SourceListener): Promise<void>;
  /** Delivers no more of a partition until `resume`. */
  pause(partition: Source): void;
  resume(partition: Source): void;
  /** Stores how far partitions are decided. @throws where the group has moved on: the records come again */
  commit(offsets: readonly (Source & { readonly offset: number })[]): Promise<void>;
  /** Leaves the group. */
  stop(): Promise<void>;
}

export interface SourceListener {
  /** These partitions are ours from now on, from their committed offsets; whatever was delivered before is void. */
  assigned(partitions: readonly Source[]): void;
  chunk(chunk: Chunk): void;
  /** Kafka answered a fetch, with records or without: the client is alive. */
  fetched(): void;
}

/** Publishes decisions. Resolves once they are stored by all replicas. */
export type PublishVerdicts = (source: Source, answers: readonly Answer[]) => Promise<void>;

export interface StreamDeps {
  readonly source: RecordSource;
  readonly intake: Intake;
  readonly wireFormat: WireFormat;
  readonly publishVerdicts: PublishVerdicts | null;
  readonly clock: Clock;
  readonly logger: Logger;
  readonly metrics: Metrics;
  readonly batchEvents: number;
  readonly partitionsAtOnce: number;
}

/** A batch takes no further record once it holds this many bytes. */
const MAX_BATCH_BYTES = 4 * 1024 * 1024;
/** A partition is paused while it holds more than this, and resumed below half of it. */
const MAX_QUEUED_BYTES = 4 * 1024 * 1024;
/** Memory that a record takes beside its value. */
const RECORD_OVERHEAD_BYTES = 200;
/** Of the records that a line of the log tells of, the first so many are named. */
const MAX_LOGGED_OFFSETS = 20;
/** Wait between two tries of an offset commit that failed. */
const COMMIT_RETRY_MS = 1_000;

export interface Stream {
  start(): Promise<void>;
  /** Finishes what is being decided, commits, and leaves the group. @returns whether it did so within the deadline */
  stop(deadlineMs: number): Promise<boolean>;
  /** Whether the group has given this worker its partitions. */
  joined(): boolean;
  /** Milliseconds since Kafka last delivered, or a batch was last tried. A waiting retry counts as a try. */
  idleMs(): number;
  /** Partitions that wait, with the milliseconds since their first failure. */
  undecided(): readonly (Source & { readonly sinceMs: number; readonly failures: number })[];
}

export function makeStream(deps: StreamDeps): Stream {
  const { source, clock, logger } = deps;
  const slots = makeSlots(deps.partitionsAtOnce);
  const committer = makeCommitter(deps);
  let loops = new Map<string, PartitionLoop>();
  let joined = false;
  let stopping = false;
  let lastActivity = clock.now();
  const active = () => {
    lastActivity = clock.now();
  };

  const listener: SourceListener = {
    assigned(partitions) {
      for (const loop of loops.values()) loop.revoke();
      committer.forget();
      loops = new Map();
      if (stopping) return;
      for (const partition of partitions)
        loops.set(keyOf(partition), new PartitionLoop(partition, deps, slots, committer, active));
      joined = true;
      logger.info({ partitions: partitions.map(keyOf) }, 'partitions assigned');
    },
    chunk(chunk) {
      loops.get(keyOf(chunk))?.offer(chunk);
    },
    fetched: active,
  };

  return {
    start: () => source.start(listener),
    async stop(deadlineMs) {
      stopping = true;
      const deadline = new AbortController();
      const late = clock.sleep(deadlineMs, deadline.signal).then(() => !deadline.signal.aborted);
      const loopsFinished = Promise.all([...loops.values()].map((loop) => loop.finish()));
      const left = loopsFinished.then(() => committer.flush()).then(() => source.stop());
      const isLate = await Promise.race([left.then(() => false), late]);
      deadline.abort();
      if (isLate) logger.warn({ deadlineMs }, 'stopped at the deadline; what was under way is read again');
      return !isLate;
    },
    joined: () => joined,
    idleMs: () => clock.now() - lastActivity,
    undecided: () => [...loops.values()].flatMap((loop) => loop.undecided() ?? []),
  };
}

function keyOf({ topic, partition }: Source): string {
  return `${topic}/${partition}`;
}

const TOMBSTONE = { type: 'json', bytes: null } as const;
const UNDECODABLE = { type: 'undecodable' } as const;

/** One partition in one generation of the group. */
class PartitionLoop {
  private readonly queue: { record: StreamRecord | null; nextOffset: number; bytes: number }[] = [];
  private queuedBytes = 0;
  private paused = false;
  private running: Promise<void> | null = null;
  private readonly ended = new AbortController();
  private revoked = false;
  private failures = 0;
  private failingSince = 0;

  constructor(
    private readonly partition: Source,
    private readonly deps: StreamDeps,
    private readonly slots: Slots,
    private readonly committer: Committer,
    private readonly active: () => void,
  ) {}

  offer(chunk: Chunk): void {
    if (this.ended.signal.aborted) return;
    for (const record of chunk.records) {
      const bytes = RECORD_OVERHEAD_BYTES + (record.value?.length ?? 0);
      this.queue.push({ record, nextOffset: record.offset + 1, bytes });
      this.queuedBytes += bytes;
    }
    // The end of a chunk may lie beyond its last record: what was left out has to be committed too.
    const last = this.queue.at(-1);
    if (chunk.records.length > 0 && last !== undefined) last.nextOffset = chunk.nextOffset;
    else this.queue.push({ record: null, nextOffset: chunk.nextOffset, bytes: 0 });

    if (this.queuedBytes > MAX_QUEUED_BYTES && !this.paused) {
      this.paused = true;
      this.deps.source.pause(this.partition);
    }
    this.running ??= this.run();
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

  undecided(): (Source & { sinceMs: number; failures: number }) | null {
    if (this.failures === 0) return null;
    return { ...this.partition, sinceMs: this.deps.clock.now() - this.failingSince, failures: this.failures };
  }

  private async run(): Promise<void> {
    while (this.queue.length > 0 && !this.ended.signal.aborted) {
      try {
        this.active();
        await this.step();
      } catch (error) {
        // Whatever stands in the way shows as an undecided partition, a defect of this loop too.
        await this.wait(error);
      }
    }
    this.running = null;
  }

  /** Decides one batch, or as much of its beginning as can be decided now. @throws where not even its first record can be */
  private async step(): Promise<void> {
    const batch = this.peek();
    const records = batch.flatMap(({ record }) => (record === null ? [] : [record]));
    if (records.length === 0) {
      this.advance(batch.length);
      return;
    }
    const { answers, undecided } = await this.decide(records);
    if (answers.length > 0) {
      await this.publish(answers);
      this.advance(undecided === null ? batch.length : positionAfter(batch, answers.length));
    }
    if (undecided !== null) throw undecided;
  }

  private async decide(records: readonly StreamRecord[]): Promise<IntakeResult> {
    const { clock, intake } = this.deps;
    const { envelopes, failure } = await this.decode(records);
    if (envelopes.length === 0) return { answers: [], undecided: failure };
    const release = await this.slots.take();
    try {
      if (this.ended.signal.aborted) return { answers: [], undecided: null };
      const began = clock.now();
      const { answers, undecided } = await intake.decide(this.partition, envelopes);
      this.observe(answers, clock.now() - began);
      return { answers, undecided: undecided ?? failure };
    } finally {
      release();
    }
  }

  /** The head of the queue, up to the limits of a batch. */
  private peek() {
    let bytes = 0;
    let length = 0;
    while (length < this.queue.length && length < this.deps.batchEvents && bytes < MAX_BATCH_BYTES) {
      bytes += this.queue[length]?.bytes ?? 0;
      length++;
    }
    return this.queue.slice(0, length);
  }

  /** Decodes records up to the first that cannot be decoded now: what stands before it need not wait for it. */
  private async decode(
    records: readonly StreamRecord[],
  ): Promise<{ envelopes: Envelope[]; failure: Error | null }> {
    const envelopes: Envelope[] = [];
    try {
      for (const record of records) {
        const payload = this.payloadOf(record);
        envelopes.push({ ...record, payload: payload instanceof Promise ? await payload : payload });
      }
      return { envelopes, failure: null };
    } catch (error) {
      return { envelopes, failure: error instanceof Error ? error : new Error(String(error)) };
    }
  }

  private payloadOf({
    value,
    undecodable,
  }: StreamRecord): Envelope['payload'] | Promise<Envelope['payload']> {
    if (undecodable !== undefined) return UNDECODABLE;
    return value === null ? TOMBSTONE : this.deps.wireFormat.decode(value);
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
        await this.wait(error);
      }
    }
  }

  private advance(entries: number): void {
    if (this.revoked) return;
    const done = this.queue.splice(0, entries);
    const last = done.at(-1);
    if (last === undefined) return;
    for (const { bytes } of done) this.queuedBytes -= bytes;
    this.settled();
    this.committer.decided(this.partition, last.nextOffset);
    if (this.paused && this.queuedBytes < MAX_QUEUED_BYTES / 2) {
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
  }

  /** The wait of an undecided partition: 1, 2, 4 ... 30 s, cut short by shutdown and by losing the partition (U2). */
  private async wait(error: unknown): Promise<void> {
    const { clock, logger, metrics } = this.deps;
    if (this.ended.signal.aborted) return;
    if (this.failures === 0) {
      this.failingSince = clock.now();
      metrics.undecidedPartitions.inc();
    }
    this.failures++;
    metrics.retries.inc();
    const waitMs = backoffMs(this.failures);
    const message = error instanceof Error ? error.message : String(error);
    logger.warn(
      { ...this.partition, failures: this.failures, waitMs, error: message },
      'partition is undecided',
    );
    await clock.sleep(waitMs, this.ended.signal);
  }

  private observe(answers: readonly Answer[], ms: number): void {
    const { metrics, logger } = this.deps;
    if (answers.length === 0) return;
    metrics.batchEvents.observe(answers.length);
    metrics.batchSeconds.observe(ms / 1000);
    const unstored = new Map<string, number[]>();
    for (const { decision, connection, envelope } of answers) {
      if (decision.redelivered) {
        metrics.redeliveries.inc();
      } else if (decision.type === 'unstored') {
        const reason = decision.deadLetter ?? 'no_idempotency_key';
        const offsets = unstored.get(reason) ?? [];
        unstored.set(reason, offsets);
        offsets.push(envelope.offset);
        if (decision.deadLetter !== null) metrics.deadLetters.inc({ reason });
        else count('rejected', reason, connection?.id);
      } else if (decision.type === 'duplicate') {
        count('duplicate', decision.first.reason ?? '', connection?.id);
      } else {
        count(decision.outcome.verdict, decision.outcome.reason ?? '', connection?.id);
      }
    }
    // A line a batch, not one a record: a sender that gets it wrong gets it wrong often.
    for (const [reason, offsets] of unstored) {
      const about = {
        ...this.partition,
        reason,
        records: offsets.length,
        offsets: offsets.slice(0, MAX_LOGGED_OFFSETS),
      };
      logger.warn(
        about,
        reason === 'no_idempotency_key'
          ? 'records without event_id'
          : 'records sent to the dead-letter topic',
      );
    }
    logger.debug({ ...this.partition, events: answers.length, ms: Math.round(ms) }, 'batch decided');

    function count(verdict: string, reason: string, id = ''): void {
      metrics.verdicts.inc({ verdict, reason, connection: id });
    }
  }
}

/** Entries of the queue that the first `answers` records make up. */
function positionAfter(batch: readonly { record: StreamRecord | null }[], answers: number): number {
  let seen = 0;
  for (let index = 0; index < batch.length; index++) {
    if (batch[index]?.record === null) continue;
    if (seen === answers) return index;
    seen++;
  }
  return batch.length;
}

interface Slots {
  /** Resolves with the function that gives the slot back. */
  take(): Promise<() => void>;
}

/** At most `count` holders at once; the others wait in the order in which they came. */
function makeSlots(count: number): Slots {
  const waiting: (() => void)[] = [];
  let free = count;
  const release = () => {
    const next = waiting.shift();
    if (next === undefined) free++;
    else next();
  };
  return {
    async take() {
      if (free > 0) free--;
      else await new Promise<void>((resolve) => waiting.push(resolve));
      let held = true;
      return () => {
        if (held) release();
        held = false;
      };
    },
  };
}

interface Committer {
  decided(partition: Source, offset: number): void;
  /** Drops what is not committed yet: the group has moved on. */
  forget(): void;
  /** Resolves when everything decided is committed, or a commit failed. */
  flush(): Promise<void>;
}

/** Commits how far partitions are decided: one commit at a time, each with everything that has been decided meanwhile. */
function makeCommitter({ source, clock, logger }: StreamDeps): Committer {
  let pending = new Map<string, Source & { offset: number }>();
  let generation = 0;
  let committing: Promise<void> | null = null;
  const flushing = new AbortController();

  async function commitPending(): Promise<void> {
    while (pending.size > 0) {
      const offsets = pending;
      const begunIn = generation;
      pending = new Map();
      try {
        await source.commit([...offsets.values()]);
      } catch (error) {
        logger.warn(
          { error: error instanceof Error ? error.message : String(error) },
          'offset commit failed',
        );
        if (generation === begunIn) pending = new Map([...offsets, ...pending]);
        if (flushing.signal.aborted) break;
        await clock.sleep(COMMIT_RETRY_MS, flushing.signal);
      }
    }
    // In the same step in which nothing was left: what is decided from now on begins anew.
    committing = null;
  }

  function run(): Promise<void> {
    committing ??= Promise.resolve().then(commitPending);
    return committing;
  }

  return {
    decided(partition, offset) {
      pending.set(keyOf(partition), { ...partition, offset });
      void run();
    },
    forget() {
      generation++;
      pending = new Map();
    },
    async flush() {
      flushing.abort();
      await run();
    },
  };
}
