/**
 * Batches that share rounds with other batches at the same time, and the turns that they take (docs/rules.md,
 * U4).
 */
import type { LedgerBatch } from '../ledger/decide-batch';
import { Turns } from '../lib/turns';

/**
 * The number of batches that take turns after a lost race, before batches of the topic run concurrently
 * again.
 *
 * With random record keys, the events of one round come by several partitions. Concurrent batches then open
 * the same rounds, and all but one of them must be decided again.
 */
const CONTENDED_BATCHES = 200;

export interface Contention {
  /** Reports that a batch has lost a race. */
  reportLostRace(): void;
  /**
   * Runs a transaction. Where batches are contended, it first waits for its turn in the topic.
   *
   * @param hasWaited true on a retry: the batch takes no turn again, and waits only for locks in the store
   */
  run<T>(
    topic: string,
    hasWaited: boolean,
    transaction: (contention: Pick<LedgerBatch, 'contended' | 'whenSent'>) => Promise<T>,
  ): Promise<T>;
}

export function makeContention(): Contention {
  /** The number of further batches that take turns. */
  let contendedBatches = 0;
  /** Turns by topic. */
  const turns = new Map<string, Turns>();

  /**
   * Waits until the earlier contended batches of the topic have sent all of their writes.
   *
   * In the store, they would wait for one another in any case. A batch that is judged earlier lives through
   * many garbage collections, and slows down the batch that the store is working on.
   *
   * @returns the function that lets the next batch begin
   */
  function takeTurn(topic: string): Promise<() => void> {
    const ofTopic = turns.get(topic) ?? new Turns();
    turns.set(topic, ofTopic);
    return ofTopic.take();
  }

  return {
    reportLostRace() {
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
