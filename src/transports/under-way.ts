/**
 * The batches of a partition that are under way: read, decoded and decided, each in its turn. One is waited for; where partitions are decided together, the
 * next one is begun behind it.
 */
import { type Envelope, type IntakeResult, mayBeTooMuch, type TopicPartition } from '../intake';
import type { Turns } from '../intake/turns';
import type { ChunkQueue } from './chunk-queue';
import { decodeRecords } from './envelope';
import type { Gathering, Place } from './gathering';
import type { StreamDeps, StreamRecord } from './record-source';
import type { Semaphore } from './semaphore';

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

/** What the partitions of a worker share to have batches decided. */
export interface DecidingShared {
  /** So many batches are decided at once. */
  readonly slots: Semaphore;
  /**
   * Of partitions of which much waits one is read and judged at a time, until all that its batch writes is on its way to the store. Side by side they would only wait for the
   * same processor: what they are made of lives longer, and is copied by more garbage collections.
   */
  readonly turns: Turns;
  /** For the partitions of a topic that are decided together. */
  readonly gathering: Gathering;
}

/** What a partition's loop knows. */
export interface LoopState {
  readonly ended: AbortSignal;
  /** Whether the partition waits since something stands in its way. */
  isUndecided(): boolean;
  /** A batch is waited for that begins with this record. */
  takesUp(first: StreamRecord): void;
  /** How far the store has to have decided the partition where a batch begins with this record. @throws where the store has to be asked, and does not say */
  expectedUpTo(first: StreamRecord): Promise<number>;
}

interface Timed extends IntakeResult {
  /** Milliseconds that deciding took. */
  readonly ms: number;
}

/** What came of a batch. */
export interface Outcome extends Timed {
  /** Where the next batch begins; null where nothing was decided. */
  readonly nextOffset: number | null;
  /** It was begun behind a batch that was not decided then, and may have asked the store too early. */
  readonly isAhead: boolean;
}

interface Batch {
  /** Where the one before it ends, if that was under way. */
  readonly follows: number | null;
  /** The first of its records, once they are read. */
  first: StreamRecord | undefined;
  /** What is being decided, once it is. */
  taken: readonly Envelope[];
  /** All that it writes is on its way to the store. */
  isSent: boolean;
  /** It is given up. */
  isVoid: boolean;
}

/** A slot, and a turn where much of the partition waits. */
interface Turn {
  end(): void;
  /** Ends it, and leaves the slot. */
  leave(): void;
}

/** Records that are read and decoded, up to the first that cannot be now. */
interface Read {
  readonly envelopes: readonly Envelope[];
  readonly failure: Error | null;
  readonly expectedUpTo: number;
}

/** Null: given up before it was decided, or nothing was to be read. */
type Begun = Batch & { readonly outcome: Promise<Timed | null> };

export class UnderWay {
  /** One or two, in their order. */
  private readonly batches: Begun[] = [];
  /** Records are being read from the queue, which finds them by their place. */
  private peeking: Promise<unknown> | null = null;
  private maxEvents = FIRST_BATCH_EVENTS;
  /**
   * What was decided last is where the store stands, which would notice that something before a batch is missing. Not before something was decided anew: of a log that
   * was made anew, or of which a part was passed over, it may have decided what stands behind.
   */
  private goesOn = false;

  constructor(
    private readonly partition: TopicPartition,
    private readonly queue: ChunkQueue,
    private readonly loop: LoopState,
    private readonly deps: Pick<
      StreamDeps,
      'intake' | 'clock' | 'batchEvents' | 'largeBatchBytes' | 'wireFormat'
    >,
    private readonly shared: DecidingShared,
  ) {}

  get isEmpty(): boolean {
    return this.batches.length === 0;
  }

  /**
   * Waits for the batch that was begun first, or begins one. What is decided of it leaves the queue.
   *
   * @returns what came of it; null where it was given up
   * @throws where its records cannot be read, or the store does not say how far it is
   */
  async next(): Promise<Outcome | null> {
    const batch = this.batches[0] ?? this.begin(null);
    if (batch.first !== undefined) this.loop.takesUp(batch.first);
    const result = await batch.outcome.catch(async (error: unknown) => {
      await this.giveUp();
      this.queue.rest();
      throw error;
    });
    while (this.peeking !== null) await this.peeking;
    this.batches.shift();
    if (result === null || result.undecided !== null) await this.giveUp();
    if (result === null) return null;
    this.goesOn ||= result.undecided === null && result.answers.some(({ decision }) => !decision.redelivered);
    const isDecided = result.undecided === null || result.answers.length > 0;
    const nextOffset = isDecided ? this.queue.remove(result.answers.length) : null;
    if (this.isEmpty) this.queue.rest();
    else this.lookAhead();
    return { ...result, nextOffset, isAhead: batch.follows !== null };
  }

  /**
   * Begins the next batch while the store is at what the one before writes: where partitions are decided together there is no other to be judged meanwhile.
   * Where the one before is rolled back it is, too: the store has decided less than it expects.
   */
  lookAhead(): void {
    const [batch, next] = this.batches;
    if (next !== undefined || batch?.isSent !== true || !this.goesTogether) return;
    const last = batch.taken.at(-1);
    if (this.goesOn && last !== undefined && this.queue.isBehind(batch.taken.length))
      this.begin(last.offset + 1);
  }

  /** Waits until nothing is under way, and takes nothing of it: what was begun behind a batch that is not decided whole is begun anew. */
  private async giveUp(): Promise<void> {
    for (const batch of this.batches) batch.isVoid = true;
    await Promise.allSettled(this.batches.map(({ outcome }) => outcome));
    this.batches.length = 0;
    this.goesOn = false;
  }

  /** Not with others while it is undecided: these would wait for it. */
  private get goesTogether(): boolean {
    return this.deps.intake.isContended() && !this.loop.isUndecided() && !this.loop.ended.aborted;
  }

  private begin(follows: number | null): Begun {
    const batch: Batch = { follows, first: undefined, taken: [], isSent: false, isVoid: false };
    const begun = Object.assign(batch, { outcome: this.decide(batch) });
    // Whoever waits for it is told, once it is its turn.
    begun.outcome.catch(() => undefined);
    this.batches.push(begun);
    return begun;
  }

  private async decide(batch: Batch): Promise<Timed | null> {
    const place = this.goesTogether ? this.shared.gathering.enter() : null;
    try {
      const turn = await this.takeTurn();
      try {
        const isAhead = batch.follows !== null;
        const read = await this.read(batch, place, turn);
        if (read === null || (isAhead && read.envelopes.length === 0)) return null;
        if (read.envelopes.length === 0) return { answers: [], undecided: read.failure, ms: 0 };
        // Where what is decompressed would be too much together, each is decided before the next is read.
        const isTogether = place !== null && this.queue.keepOpen();
        if (isTogether) turn.leave();
        else place?.leave();
        const whenSent = (): void => {
          turn.end();
          batch.isSent = true;
          this.lookAhead();
        };
        const result = await (isTogether
          ? this.decideWithOthers(batch, read, place, whenSent)
          : this.decideAlone(batch, read, whenSent));
        return { ...result, undecided: result.undecided ?? read.failure };
      } finally {
        turn.leave();
      }
    } finally {
      place?.leave();
    }
  }

  /** What waits for others of its worker waits as bytes. */
  private async takeTurn(): Promise<Turn> {
    const { slots, turns } = this.shared;
    const { largeBatchBytes = LARGE_BATCH_BYTES } = this.deps;
    await slots.acquire();
    const end = this.queue.bytes < largeBatchBytes ? NO_TURN : await turns.take();
    let hasSlot = true;
    const leave = (): void => {
      end();
      if (hasSlot) slots.release();
      hasSlot = false;
    };
    return { end, leave };
  }

  /** @returns null where the batch is given up */
  private async read(batch: Batch, place: Place | null, turn: Turn): Promise<Read | null> {
    const isOver = (): boolean => batch.isVoid || this.loop.ended.aborted;
    if (isOver()) return null;
    const records = await this.peek(batch, place !== null);
    const [first] = records;
    batch.first = first;
    if (first !== undefined && this.batches[0] === batch) this.loop.takesUp(first);
    const expectedUpTo = batch.follows ?? (first === undefined ? 0 : await this.loop.expectedUpTo(first));
    const { envelopes, failure } = await decodeRecords(records, this.deps.wireFormat, (asked) => {
      turn.end();
      place?.leave();
      return this.whileAsking(asked);
    });
    return isOver() ? null : { envelopes, failure, expectedUpTo };
  }

  private async peek(batch: Batch, isTogether: boolean): Promise<readonly StreamRecord[]> {
    const { batchEvents } = this.deps;
    const maxEvents = Math.min(this.maxEvents, batchEvents);
    // Of what is decided together each has its share, of the bytes too.
    const maxBytes = isTogether ? (MAX_BATCH_BYTES * maxEvents) / batchEvents : MAX_BATCH_BYTES;
    const peeked = this.queue.peek(maxEvents, maxBytes, this.before(batch));
    const done = (): void => {
      this.peeking = null;
    };
    this.peeking = peeked.then(done, done);
    return peeked;
  }

  /** Records of the queue that are being decided before those of the batch. */
  private before(batch: Batch): number {
    const [first] = this.batches;
    return first === undefined || first === batch ? 0 : first.taken.length;
  }

  private async decideAlone(
    batch: Batch,
    { envelopes, expectedUpTo }: Read,
    whenSent: () => void,
  ): Promise<Timed> {
    const { intake, clock, batchEvents } = this.deps;
    const maxEvents = Math.min(this.maxEvents, batchEvents);
    const began = clock.now();
    batch.taken = envelopes;
    const result = await intake.decide(this.partition, envelopes, expectedUpTo, whenSent);
    this.adapt(result, envelopes.length, maxEvents * 2);
    return { ...result, ms: clock.now() - began };
  }

  private async decideWithOthers(
    batch: Batch,
    { envelopes, expectedUpTo }: Read,
    place: Place,
    whenSent: () => void,
  ): Promise<Timed> {
    const { result, ms, share } = await place.decide({
      batch: { origin: this.partition, envelopes, expectedUpTo },
      isAll: !this.queue.isBehind(this.before(batch) + envelopes.length),
      taken(which) {
        batch.taken = which;
      },
      whenSent,
    });
    this.adapt(result, batch.taken.length, Math.max(FIRST_BATCH_EVENTS, share));
    return { ...result, ms };
  }

  /** How many records the next batch may take. */
  private adapt({ answers, undecided }: IntakeResult, taken: number, most: number): void {
    const isTooMuch = answers.length === 0 && mayBeTooMuch(undecided);
    this.maxEvents = isTooMuch ? Math.max(1, taken >> 1) : most;
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
}

const NO_TURN = (): void => undefined;
