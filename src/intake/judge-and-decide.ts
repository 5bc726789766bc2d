/**
 * One attempt to decide a batch: load the reference data, judge the events, and have the ledger decide them.
 * Sends the dead letters before the commit, and applies the limit on rejected events.
 */

import type { Reference } from '../domain/reference';
import type { Decision, Item } from '../domain/verdict/decide';
import type { Ledger, LedgerBatch } from '../ledger/decide-batch';
import { StaleReference } from '../ledger/failures';
import type { LedgerPart } from '../ledger/parts';
import type { PublishedFacts } from '../ledger/published-facts';
import { at } from '../lib/at';
import { messageOf } from '../lib/errors';
import { type Answer, type BatchPart, type DeadLetter, isPartition, type Origin } from './delivery';
import { completeAnswers, type Prepared, prepare, type Unanswered } from './prepare';
import type { RejectBreaker } from './reject-limit';
import type { SharedRounds } from './shared-rounds';
import { DeadLetterRefused, LettersRefused, MAY_BE_ADDED, NoReference } from './undecided';

/**
 * The reference data in force. It is kept in memory, and reloaded when the store reports that it is stale.
 */
export interface References {
  current(): Promise<Reference>;
  reload(): Promise<Reference>;
}

export interface JudgeDeps {
  readonly ledger: Ledger;
  readonly references: References;
  /**
   * Resolves once all replicas have acknowledged every dead letter. Absent where no Kafka record is decided.
   * @throws LettersRefused where the topic refused some letters and stored the others
   */
  readonly sendDeadLetters?: ((letters: readonly DeadLetter[]) => Promise<void>) | undefined;
  /** Whether the answers are published. */
  readonly isPublished?: boolean | undefined;
  /** Present where rejected events have a limit. */
  readonly breaker?: RejectBreaker | undefined;
  /** Receives the items of each batch of Kafka records. */
  readonly sharedRounds?: Pick<SharedRounds, 'observe'> | undefined;
}

/** Envelopes of one origin in a batch. */
export interface Section extends Omit<BatchPart, 'source'> {
  readonly origin: Origin;
}

/** Immediate tries after new reference data. */
const MAX_TRIES = 5;

/**
 * Judges and decides a batch in one transaction.
 *
 * @param panic the error, where the only event of the batch is to become a panic
 * @returns the answers, section by section
 * @throws the reason why the batch is undecided, see undecided.ts and failures.ts
 */
export type JudgeAndDecide = (
  sections: readonly Section[],
  contended: Pick<LedgerBatch, 'contended' | 'whenSent'>,
  panic?: string,
) => Promise<readonly Answer[]>;

export function makeJudgeAndDecide({
  ledger,
  references,
  sendDeadLetters,
  isPublished = false,
  breaker,
  sharedRounds,
}: JudgeDeps): JudgeAndDecide {
  /** Repeats both where the reference data is stale. */
  async function judgeAndDecide(
    sections: readonly Section[],
    contended: Pick<LedgerBatch, 'contended' | 'whenSent'>,
    panic?: string,
  ): Promise<readonly Answer[]> {
    const numbered = await Promise.all(
      sections.map(async ({ origin }) =>
        isPartition(origin) ? { ...origin, no: await ledger.partitionNo(origin) } : origin,
      ),
    );
    const queues = breaker === undefined ? [] : queuesOf(sections);
    // A paused topic waits for new reference data.
    const isPaused = queues.some(({ queue }) => breaker?.isPaused(queue));
    let reference = await (isPaused ? references.reload() : references.current());
    for (let tries = 1; ; tries++) {
      const checked: { readonly queue: string; readonly its: readonly Decision[] }[] = [];
      try {
        if (reference.version === 0) throw new NoReference('no reference data has been applied yet');
        for (const { queue } of queues) breaker?.admit(queue, reference);
        const prepared: Prepared = { items: [], unanswered: [], isPublished };
        let facts: PublishedFacts | null = null;
        const parts: LedgerPart[] = [];
        for (const [index, { envelopes, expectedUpTo }] of sections.entries()) {
          const origin = at(numbered, index);
          const from = prepared.items.length;
          prepare(prepared, reference, origin, envelopes, panic !== undefined);
          if (isPartition(origin))
            parts.push({ partition: origin, from, to: prepared.items.length, expectedUpTo });
        }
        const { items, unanswered } = prepared;
        if (parts.length > 0) sharedRounds?.observe(items);
        const decisions = await ledger.decideBatch({
          items,
          parts,
          reference,
          ...contended,
          beforeWrites:
            breaker &&
            ((decided) => {
              for (const { queue, of } of queues) {
                const its = of(decided);
                breaker.check(queue, reference, its);
                checked.push({ queue, its });
              }
            }),
          onFacts: isPublished
            ? (read) => {
                facts = read;
              }
            : undefined,
          beforeCommit: deadLetterSending(parts, unanswered, items),
          ...(panic === undefined
            ? {}
            : { panic: { error: panic, payload: at(unanswered, 0).envelope.value } }),
        });
        checked.length = 0;
        for (const { queue, of } of queues) breaker?.countCommitted(queue, of(decisions));
        return completeAnswers(unanswered, decisions, facts);
      } catch (error) {
        for (const { queue, its } of checked) breaker?.abandon?.(queue, its);
        // Missing reference data may have been added since it was loaded. The store reports stale data only
        // where the batch has events to decide. Reload twice, since a load in progress may have begun before
        // the change.
        const isMissing = MAY_BE_ADDED.some((type) => error instanceof type);
        const mayBeStale = error instanceof StaleReference || (isMissing && tries <= 2);
        if (!mayBeStale || tries >= MAX_TRIES) throw error;
        reference = await references.reload();
      }
    }
  }

  /** Returns the function that sends the dead letters of a batch; undefined where the batch has none. */
  function deadLetterSending(
    parts: readonly LedgerPart[],
    unanswered: readonly Unanswered[],
    items: readonly Item[],
  ): (() => Promise<void>) | undefined {
    const letters: DeadLetter[] = [];
    for (const { partition, from, to } of parts) {
      for (let index = from; index < to; index++) {
        const item = at(items, index);
        if (item.type === 'unstored' && item.deadLetter !== null)
          letters.push({
            envelope: at(unanswered, index).envelope,
            source: partition,
            reason: item.deadLetter,
          });
      }
    }
    if (letters.length === 0) return undefined;
    if (sendDeadLetters === undefined) throw new Error('no sender of dead letters is configured');
    return async () => {
      try {
        await sendDeadLetters(letters);
      } catch (error) {
        const waits = at(error instanceof LettersRefused ? error.refused : letters, 0);
        const before = unanswered.findIndex(({ envelope }) => envelope === waits.envelope);
        throw new DeadLetterRefused(`the dead-letter topic refused: ${messageOf(error)}`, before, error);
      }
    };
  }

  return judgeAndDecide;
}

/** The key by which batches are paused together: a topic, or a connection of the webhook. */
function queueOf(origin: Origin): string {
  return isPartition(origin) ? origin.topic : origin.connectionId;
}

/** The decisions of each topic or connection in a batch. */
interface QueueOfBatch {
  readonly queue: string;
  readonly of: (decisions: readonly Decision[]) => readonly Decision[];
}

function queuesOf(sections: readonly Section[]): QueueOfBatch[] {
  const ranges = new Map<string, [from: number, to: number][]>();
  let from = 0;
  for (const { origin, envelopes } of sections) {
    const to = from + envelopes.length;
    const queue = queueOf(origin);
    ranges.set(queue, [...(ranges.get(queue) ?? []), [from, to]]);
    from = to;
  }
  const isOne = ranges.size === 1;
  return [...ranges].map(([queue, its]) => ({
    queue,
    of: (decisions) => (isOne ? decisions : its.flatMap(([begin, end]) => decisions.slice(begin, end))),
  }));
}
