/** The records of one partition in a batch, and their result. */

import type { Envelope } from '../intake/delivery';
import { mayBeTooLarge, NotTogether } from '../intake/undecided';
import type { PublishedAnswer } from '../publishing/published-answer';
import type { FirstRecord } from './position';

/** Records of a batch, or room for them. */
export interface BatchSize {
  events: number;
  bytes: number;
}

export interface PartResult {
  /** The decided records, from the first on; null where not even the first record could be decided. */
  readonly decided: DecidedPrefix | null;
  /** Why the rest could not be decided. Null where all of it was, and where the part is begun again. */
  readonly undecided: Error | null;
}

/** The decided records at the beginning of a part. Also covers a fetch without records. */
export interface DecidedPrefix {
  readonly toPublish: readonly PublishedAnswer[];
  /** The offset where the next part begins. */
  readonly nextOffset: number;
  /** One past the last decided record; null where there was no record. */
  readonly decidedUpTo: number | null;
}

export class Part {
  /** Its first record, once the records are read. */
  first: FirstRecord | undefined;
  /** How many records at the head of the queue belong to this part, until they are removed. */
  records = 0;
  /** One past the last record, once all writes of the batch are sent to the store. */
  sentUpTo: number | null = null;
  /** The part in front of it was not decided as a whole: the result of this part does not count. */
  isVoid = false;
  /**
   * Resolves once the part has ended. Carries no result on purpose: a result would keep the part's records
   * in memory while the part waits to be answered.
   */
  readonly ended = Promise.withResolvers<void>();
  /** Settles after the result of the part in front, once the decided records are removed from the queue. */
  readonly result = Promise.withResolvers<PartResult>();

  /**
   * @param isAhead begun before the part in front of it was answered
   * @param maxEvents the most records that it may hold
   * @param expectedUpTo how far the store must have decided the partition before this part
   */
  constructor(
    readonly isAhead: boolean,
    readonly maxEvents: number,
    public expectedUpTo: number,
  ) {
    // The lane gets the error once it waits for this part.
    this.result.promise.catch(() => undefined);
  }

  /** It has all records that it may hold. */
  get isFull(): boolean {
    return this.records >= this.maxEvents;
  }
}

/**
 * The most records of a partition in its first batch. Each later batch may have twice as many. A small first
 * batch keeps conflicts cheap: workers that start together may open the same rounds, and then decide their
 * batches again. A part that could not be decided is retried with half its records, because a slow store may
 * manage fewer in time.
 */
const FIRST_PART_EVENTS = 250;

/** How many records the next part of a lane may hold. */
export class PartSize {
  private most = FIRST_PART_EVENTS;

  /** @param batchEvents the most records in a batch */
  constructor(private readonly batchEvents: number) {}

  get maxEvents(): number {
    return this.most;
  }

  /** @param undecided why no record of the last part could be decided; null where some were */
  update(events: number, undecided: Error | null): void {
    if (events === 0 || undecided instanceof NotTogether) return;
    const isTooLarge = undecided !== null && mayBeTooLarge(undecided);
    this.most = isTooLarge ? Math.max(1, events >> 1) : Math.min(this.most, this.batchEvents) * 2;
  }
}

export function endOf(last: Pick<Envelope, 'offset'> | undefined): number | null {
  return last === undefined ? null : last.offset + 1;
}
