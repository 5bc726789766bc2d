/**
 * Partitions of a topic that are decided together. Where a round's events come by several partitions, each of these would lock the round, read it and
 * write it anew, one after the other; in one transaction, with records of the same time, it is touched once (docs/rules.md, U4).
 */
import type { Envelope, IntakeResult, OriginBatch, TopicPartition } from '../intake';
import type { Turns } from '../intake/turns';
import type { StreamDeps } from './record-source';
import type { Semaphore } from './semaphore';

/** Of what a partition may give by its share, at least so much is decided, whatever the times of its records are. */
const LEAST_OF_SHARE = 1 / 4;

/** Records that a partition has read, to be decided with those of others. */
export interface Offer {
  readonly batch: OriginBatch<TopicPartition>;
  /** Nothing more of the partition waits. */
  readonly isAll: boolean;
  /** Told which of them are decided now, before they are judged. */
  readonly taken: (envelopes: readonly Envelope[]) => void;
  /** Told once all that they write is on its way to the store. */
  readonly whenSent: () => void;
}

/** What was decided of an offer. */
export interface Gathered {
  readonly result: IntakeResult;
  /** Milliseconds that deciding took. */
  readonly ms: number;
  /** So many records of the partition would have been its share of a whole batch. */
  readonly share: number;
}

/** A partition's place in the next transaction. */
export interface Place {
  /** The others need not wait for it. */
  leave(): void;
  /** What it offers is decided with what the others offer. */
  decide(offer: Offer): Promise<Gathered>;
}

interface Waiting {
  readonly offer: Offer;
  readonly resolve: (gathered: Gathered) => void;
  readonly reject: (error: unknown) => void;
}

export class Gathering {
  /** Partitions that are being read: the next transaction waits for them. */
  private coming = 0;
  private waiting: Waiting[] = [];
  /** One is judged at a time; who comes meanwhile comes into the next one. */
  private isJudging = false;

  constructor(
    private readonly deps: Pick<StreamDeps, 'intake' | 'clock' | 'batchEvents'>,
    private readonly shared: { readonly slots: Semaphore; readonly turns: Turns },
  ) {}

  enter(): Place {
    this.coming++;
    let isComing = true;
    const leave = (): void => {
      if (!isComing) return;
      isComing = false;
      this.coming--;
      this.goOn();
    };
    return {
      leave,
      decide: (offer) =>
        new Promise((resolve, reject) => {
          this.waiting.push({ offer, resolve, reject });
          if (isComing) leave();
          else this.goOn();
        }),
    };
  }

  private goOn(): void {
    if (this.isJudging || this.coming > 0 || this.waiting.length === 0) return;
    this.isJudging = true;
    void this.decide();
  }

  private async decide(): Promise<void> {
    const { intake, clock, batchEvents } = this.deps;
    const { slots, turns } = this.shared;
    await slots.acquire();
    const endTurn = await turns.take();
    const members = this.waiting.splice(0, batchEvents);
    const began = clock.now();
    let isJudged = false;
    const judged = (): void => {
      if (isJudged) return;
      isJudged = true;
      endTurn();
      this.isJudging = false;
      this.goOn();
    };
    try {
      const offers = members.map(({ offer }) => offer);
      const batches = taken(offers, batchEvents);
      for (const [index, offer] of offers.entries()) offer.taken(batches[index]?.envelopes ?? []);
      const results = await intake.decideTogether(batches, () => {
        // First, so that who reads on at once has a place in the next transaction.
        for (const { whenSent } of offers) whenSent();
        judged();
      });
      const ms = clock.now() - began;
      const total = batches.reduce((sum, { envelopes }) => sum + envelopes.length, 0);
      members.forEach(({ resolve }, index) => {
        const [result, batch] = [results[index], batches[index]];
        if (result === undefined || batch === undefined) throw new Error('a partition has no result');
        resolve({ result, ms, share: Math.ceil((batch.envelopes.length * batchEvents) / total) });
      });
    } catch (error) {
      for (const { reject } of members) reject(error);
    } finally {
      slots.release();
      judged();
    }
  }
}

function taken(offers: readonly Offer[], maxEvents: number): OriginBatch<TopicPartition>[] {
  const counts = cut(
    offers.map(({ batch, isAll }) => ({ envelopes: batch.envelopes, isAll })),
    maxEvents,
  );
  return offers.map(({ batch }, index) => ({ ...batch, envelopes: batch.envelopes.slice(0, counts[index]) }));
}

/**
 * How many of each partition's records are decided together, of each that has any at least one: at most so many in all, up to one time. Rounds have their events
 * close to one another: of a partition that runs ahead, they would be touched again when the others come to them.
 *
 * @param maxEvents no fewer than there are partitions
 */
export function cut(
  offers: readonly { readonly envelopes: readonly Pick<Envelope, 'timestamp'>[]; readonly isAll: boolean }[],
  maxEvents: number,
): number[] {
  const beyondFirst = offers.reduce((sum, { envelopes }) => sum + Math.max(0, envelopes.length - 1), 0);
  const fits = Math.min(1, (maxEvents - offers.length) / Math.max(1, beyondFirst));
  const shares = offers.map(({ envelopes, isAll }) => {
    const share = Math.min(envelopes.length, 1 + Math.floor((envelopes.length - 1) * fits));
    return { envelopes, share, isAll: isAll && share === envelopes.length };
  });
  // Who has no more does not hold the others back.
  const until = Math.min(
    ...shares.map(({ envelopes, share, isAll }) =>
      isAll ? Number.POSITIVE_INFINITY : timeOf(envelopes[share - 1]),
    ),
  );
  return shares.map(({ envelopes, share }) => {
    const least = Math.ceil(share * LEAST_OF_SHARE);
    let count = share;
    while (count > least && timeOf(envelopes[count - 1]) > until) count--;
    return count;
  });
}

function timeOf(envelope: Pick<Envelope, 'timestamp'> | undefined): number {
  return Number(envelope?.timestamp ?? Number.POSITIVE_INFINITY);
}
