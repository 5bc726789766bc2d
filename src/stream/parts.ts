/**
 * The parts of a lane: the records that batches have read from its queue, and that are not answered yet.
 * Their chunks stay in the queue until they are decided, so that they can be read again.
 *
 *     gathering ──▶ sent ──▶ settled ──▶ answered
 *
 * Behind a part that is sent, one part may be read ahead and judged. It is sent once the part in front is
 * decided as a whole. Where that one is not, both are aborted, and their records are begun again.
 */
import type { Envelope, Section } from '../intake/delivery';
import type { IntakeResult } from '../intake/intake';
import { mayBeTooLarge, NotTogether } from '../intake/undecided';
import { asError } from '../lib/errors';
import type { TopicPartition } from '../lib/topic-partition';
import { type PublishedAnswer, withoutRecord } from '../publishing/published-answer';
import type { StreamDeps } from './deps';
import type { LanePosition } from './position';
import type { RecordQueue } from './record-queue';

/** Records of a batch, or room for them. */
export interface BatchSize {
  events: number;
  bytes: number;
}

/** The rest of the limits of a batch. */
export interface Room extends BatchSize {
  /** No further chunk is opened where none are left. */
  decompressedBytes: number;
}

/** The decided records at the beginning of a part. Also covers a fetch without records. */
export interface PartResult {
  readonly toPublish: readonly PublishedAnswer[];
  /** The offset where the next part begins; null where not even the first record could be decided. */
  readonly nextOffset: number | null;
  /** One past the last decided record; null where there is none. */
  readonly decidedUpTo: number | null;
  /** Why the rest of the records could not be decided; null where none is left. */
  readonly rest: Error | null;
}

const NONE_DECIDED = { toPublish: [], nextOffset: null, decidedUpTo: null };

/** The records of one partition in a batch. */
export class Part implements Section<TopicPartition> {
  /** Its records so far. None once it has settled: it may wait long to be answered. */
  envelopes: Envelope[] = [];
  /** Memory that its records keep. */
  bytes = 0;
  /** Timestamp of its last record. */
  readUpTo = 0;
  /** Of its lane, as its batch has counted them. */
  decompressedBytes = 0;
  /** Its batch takes no further record of the lane. */
  isDrained = false;
  /** One past the last record, once all writes of the batch are sent to the store. */
  sentUpTo: number | null = null;
  /** Settles once the decided records are removed from the queue. */
  readonly result = Promise.withResolvers<PartResult>();

  /**
   * @param front settles as the part in front does, where that one is not answered yet
   * @param maxEvents the most records that it may hold
   * @param expectedUpTo how far the store must have decided the partition before this part
   */
  constructor(
    readonly lane: Parts,
    readonly origin: TopicPartition,
    readonly front: Promise<void> | undefined,
    readonly maxEvents: number,
    public expectedUpTo: number,
  ) {
    // The lane gets the error once it waits for this part.
    this.result.promise.catch(() => undefined);
    this.front?.catch(() => undefined);
  }

  /** It has all records that it may hold. */
  get isFull(): boolean {
    return this.envelopes.length >= this.maxEvents;
  }
}

/**
 * The most records of a partition in its first batch. Each later batch may have twice as many. A small first
 * batch keeps conflicts cheap: workers that start together may open the same rounds, and then decide their
 * batches again. A part that could not be decided is retried with half its records, because a slow store may
 * manage fewer in time.
 */
const FIRST_PART_EVENTS = 250;

export class Parts {
  /** The one that is answered next, and one that is read ahead. */
  private parts: Part[] = [];
  /** The most records in the next part. */
  private maxEvents = FIRST_PART_EVENTS;

  constructor(
    private readonly partition: TopicPartition,
    readonly queue: RecordQueue,
    private readonly position: LanePosition,
    private readonly deps: Pick<StreamDeps, 'batchEvents' | 'publishVerdicts'>,
    private readonly stopSignal: AbortSignal,
  ) {}

  get isStopping(): boolean {
    return this.stopSignal.aborted;
  }

  /** The part that is answered next. */
  get front(): Part | undefined {
    return this.parts[0];
  }

  /** Bytes behind a part that is sent, which can be read ahead; 0 where none can. */
  get bytesAhead(): number {
    const [front, ahead] = this.parts;
    if (front === undefined || front.sentUpTo === null || ahead !== undefined) return 0;
    return this.isStopping || this.queue.requesting !== null ? 0 : this.queue.unreadBytes;
  }

  begin(): Part {
    const front = this.parts.at(-1);
    const expectedUpTo = front?.sentUpTo ?? this.position.expectedUpTo ?? 0;
    const part = new Part(
      this,
      this.partition,
      front && decidedAsAWhole(front),
      this.maxEvents,
      expectedUpTo,
    );
    this.parts.push(part);
    return part;
  }

  /**
   * Takes one run of further records: reads and decodes them.
   *
   * @returns whether the part is in the batch. It has ended where it has no record, and where its first one
   * cannot be read, or needs a schema first
   */
  async take(part: Part, run: BatchSize, room: Room): Promise<boolean> {
    const most = { events: Math.min(run.events, room.events), bytes: Math.min(run.bytes, room.bytes) };
    const before = { events: part.envelopes.length, bytes: part.bytes };
    try {
      const isRead = await this.read(part, most, room.decompressedBytes > 0);
      // Without a record ahead, the queue shows whether the lane is drained once the front is answered.
      if (part.envelopes.length === 0)
        return this.end(part, isRead && part === this.front ? { answers: [], undecided: null } : null);
    } catch (error) {
      // The records before these are decided; the next part of the lane meets the error again.
      if (before.events === 0) return this.end(part, { answers: [], undecided: asError(error) });
    }
    const taken = { events: part.envelopes.length - before.events, bytes: part.bytes - before.bytes };
    part.isDrained = taken.events < most.events && taken.bytes < most.bytes && !part.isFull;
    room.events -= taken.events;
    room.bytes -= taken.bytes;
    const { decompressedBytes } = this.queue;
    room.decompressedBytes -= decompressedBytes - part.decompressedBytes;
    part.decompressedBytes = decompressedBytes;
    return true;
  }

  /**
   * @param mayOpen whether a further chunk may be decompressed
   * @returns false where schemas have to come first
   * @throws where the first of these records cannot be read
   */
  private async read(part: Part, most: BatchSize, mayOpen: boolean): Promise<boolean> {
    const events = Math.min(most.events, part.maxEvents - part.envelopes.length);
    const read = await this.queue.decode(events, most.bytes, mayOpen);
    if (read === null) {
      // While much is decompressed, the batch waits for the schemas, and keeps the turn.
      const isInTurn = part.envelopes.length === 0 && part === this.front && !this.queue.mayStayOpen;
      return isInTurn && this.read(part, most, mayOpen);
    }
    part.envelopes.push(...read.envelopes);
    part.bytes += read.bytes;
    part.readUpTo = Number(part.envelopes.at(-1)?.timestamp ?? 0);
    // The part may have become the front one during the reads.
    if (part !== this.front) return true;
    this.position.onFront(part.envelopes[0]);
    // Once the partition is revoked, a rewind must not be committed: it belongs to the generation before.
    if (!this.position.isConfirmed && !this.isStopping) {
      await this.position.confirm(part.envelopes[0]);
      part.expectedUpTo = this.position.expectedUpTo ?? 0;
    }
    return true;
  }

  /**
   * Ends a part. Of an aborted part the result does not count: its records are begun again.
   *
   * @param result null where the part has no records for this batch
   * @returns that the part is in no batch any more
   */
  end(part: Part, result: IntakeResult | null): false {
    part.result.resolve(this.settle(part, result));
    return false;
  }

  private async settle(part: Part, result: IntakeResult | null): Promise<PartResult> {
    const settled = this.resultOf(part, result);
    part.envelopes = [];
    if (this.parts.length === 1 && !this.queue.mayStayOpen) this.queue.readAgain();
    return settled;
  }

  /** Removes the decided records of a part from the queue. */
  private resultOf(part: Part, result: IntakeResult | null): PartResult {
    if (result === null || !this.parts.includes(part)) return { ...NONE_DECIDED, rest: null };
    const { answers, undecided } = result;
    const isDecided = undecided === null || answers.length > 0;
    this.resize(part.envelopes.length, isDecided ? null : undecided);
    if (!isDecided) return { ...NONE_DECIDED, rest: undecided };
    const decidedUpTo = endOf(answers.at(-1)?.envelope);
    // Publishing may take long, so records kept until then would use memory.
    const toPublish = this.deps.publishVerdicts === null ? [] : answers.map(withoutRecord);
    return { toPublish, nextOffset: this.queue.removeUpTo(decidedUpTo), decidedUpTo, rest: undecided };
  }

  /** @param undecided why no record of the last part could be decided; null where some were */
  private resize(events: number, undecided: Error | null): void {
    if (events === 0 || undecided instanceof NotTogether) return;
    const isTooLarge = undecided !== null && mayBeTooLarge(undecided);
    const most = this.maxEvents;
    this.maxEvents = isTooLarge ? Math.max(1, events >> 1) : Math.min(most, this.deps.batchEvents) * 2;
  }

  /** Waits for the result of the front part, and removes it. */
  async answered(front: Part): Promise<PartResult> {
    const result = await front.result.promise;
    this.parts.shift();
    return result;
  }

  /** Waits until no part is in flight, and discards the results. The records are read again. */
  async abort(): Promise<void> {
    const aborted = this.parts;
    this.parts = [];
    await Promise.allSettled(aborted.map(({ result }) => result.promise));
    this.queue.readAgain();
  }
}

/** @throws the reason why it is not */
async function decidedAsAWhole({ result }: Part): Promise<void> {
  const { rest } = await result.promise;
  if (rest !== null) throw rest;
}

export function endOf(last: Pick<Envelope, 'offset'> | undefined): number | null {
  return last === undefined ? null : last.offset + 1;
}
