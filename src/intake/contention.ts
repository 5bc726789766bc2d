/** Batches that meet one another in their rounds, and how they get out of one another's way (docs/rules.md, U4). */
import type { Batch } from '../ledger/decide-batch';
import { Turns } from '../lib/turns';

/**
 * Where a round's events come by several partitions, as with random keys, batches that are decided at the same time open the same rounds, and
 * all but one have to be decided again. After such a race so many batches take their turn, before it is tried without again.
 */
const CONTENDED_BATCHES = 200;

export interface Contention {
  /** A batch has lost a race. */
  raced(): void;
  /**
   * Runs a transaction, in its topic's turn where batches are contended.
   *
   * @param hasWaited it is decided again, and waits for nobody but in the store
   */
  run<T>(
    topic: string,
    hasWaited: boolean,
    transaction: (contention: Pick<Batch, 'contended' | 'whenSent'>) => Promise<T>,
  ): Promise<T>;
}

export function makeContention(): Contention {
  /** So many more batches take turns. */
  let contendedBatches = 0;
  /** By topic. */
  const turns = new Map<string, Turns>();

  /**
   * Waits until the contended batches of the topic that came before have sent all that they write. In the store they would wait for one another
   * in any case: judged before that, a batch lives through many garbage collections, and is in the way of the one that has the store.
   *
   * @returns what lets the next one begin
   */
  function takeTurn(topic: string): Promise<() => void> {
    const ofTopic = turns.get(topic) ?? new Turns();
    turns.set(topic, ofTopic);
    return ofTopic.take();
  }

  return {
    raced() {
      contendedBatches = CONTENDED_BATCHES;
    },
    async run(topic, hasWaited, transaction) {
      const contended = contendedBatches > 0;
      const whenSent = contended && !hasWaited ? await takeTurn(topic) : undefined;
      try {
        const result = await transaction({ contended, whenSent });
        if (contendedBatches > 0) contendedBatches--;
        return result;
      } finally {
        whenSent?.();
      }
    },
  };
}
