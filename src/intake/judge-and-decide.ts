/**
 * One attempt to decide a batch: load the reference data, judge the events, and have the ledger decide them.
 * Sends the dead letters before the commit, and applies the limit on rejected events.
 */
import type { Reference } from '../domain/reference';
import type { Decision, Item } from '../domain/verdict/decide';
import { PANIC } from '../domain/verdict/judge';
import { type Ledger, type LedgerBatch, questionsOf } from '../ledger/decide-batch';
import { StoreBehind } from '../ledger/failures';
import type { PublishedFacts } from '../ledger/published-facts';
import type { NumberedPartition, PartitionItems } from '../ledger/statements/find';
import { at } from '../lib/at';
import { asError, messageOf } from '../lib/errors';
import {
  type Answer,
  type DeadLetter,
  isPartition,
  type Origin,
  type Section,
  type WebhookRequest,
} from './delivery';
import { type Prepared, prepare, type Unanswered } from './prepare';
import { type References, withReference } from './references';
import { type Checked, type RejectLimit, TopicPaused } from './reject-limit';
import type { SharedRounds } from './shared-rounds';
import { type Blocked, DeadLetterRefused, HeldUp, LettersRefused, PayloadUnavailable } from './undecided';

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
  readonly rejectLimit?: RejectLimit | undefined;
  /** Receives the items of each batch of Kafka records. */
  readonly sharedRounds?: Pick<SharedRounds, 'observe'> | undefined;
}

/** The options of a batch that pass to the ledger unchanged. */
export type BatchOptions = Pick<LedgerBatch, 'contended' | 'whenSent'>;

export function makeJudgeAndDecide({
  ledger,
  references,
  sendDeadLetters,
  isPublished = false,
  rejectLimit,
  sharedRounds,
}: JudgeDeps) {
  /**
   * Judges and decides a batch in one transaction.
   *
   * @param panic the error, where the only event of the batch is to become a panic
   * @returns the answers, section by section
   * @throws the reason why the batch is undecided, see undecided.ts and failures.ts
   */
  async function judgeAndDecide(
    sections: readonly Section[],
    options: BatchOptions,
    panic?: string,
  ): Promise<readonly Answer[]> {
    const numbered = await Promise.all(
      sections.map(async ({ origin, envelopes, expectedUpTo, front }) => ({
        origin: isPartition(origin) ? { ...origin, no: await ledger.partitionNo(origin) } : origin,
        envelopes,
        expectedUpTo,
        front,
      })),
    );
    // A paused topic waits for new reference data.
    const isPaused = sections.some(({ origin }) => rejectLimit?.isPaused(limitKeyOf(origin)));
    return withReference(references, isPaused, (reference) =>
      decideWith(reference, numbered, options, panic),
    );
  }

  /** One try, with this reference data. */
  async function decideWith(
    reference: Reference,
    sections: readonly Section<NumberedPartition | WebhookRequest>[],
    options: BatchOptions,
    panic: string | undefined,
  ): Promise<readonly Answer[]> {
    const blocked = new Map<number, Blocked>();
    const checked: Checked[] = [];
    let isCommitted = false;
    try {
      const prepared: Prepared = { items: [], unanswered: [], isPublished };
      const { items, unanswered } = prepared;
      const parts: PartitionItems[] = [];
      for (const [index, { origin, envelopes, expectedUpTo }] of sections.entries()) {
        const from = items.length;
        try {
          rejectLimit?.admit(limitKeyOf(origin), reference);
          prepare(prepared, reference, origin, envelopes, panic !== undefined);
        } catch (error) {
          if (!(error instanceof TopicPaused || error instanceof PayloadUnavailable)) throw error;
          blocked.set(index, { before: items.length - from, reason: error });
        }
        if (isPartition(origin)) parts.push({ partition: origin, from, to: items.length, expectedUpTo });
      }
      if (parts.length > 0) sharedRounds?.observe(items);
      const questions = questionsOf(items);
      for (const [index, { front }] of sections.entries())
        await front?.catch((error) => blocked.set(index, { before: 0, reason: asError(error) }));
      throwIfAny(blocked);
      const { decisions, facts } = await ledger.decideBatch({
        ...{ items, questions, parts, reference, isPublished },
        ...options,
        beforeWrites:
          rejectLimit &&
          ((decided) => {
            for (const [key, { decisions, places }] of byLimitKey(sections, decided))
              try {
                checked.push(rejectLimit.check(key, reference, decisions));
              } catch (error) {
                if (!(error instanceof TopicPaused)) throw error;
                for (const index of places) blocked.set(index, { before: 0, reason: error });
              }
            throwIfAny(blocked);
          }),
        beforeCommit: deadLetterSending(parts, unanswered, items),
        ...(panic === undefined
          ? {}
          : { panic: { error: panic, payload: at(unanswered, 0).envelope.value } }),
      });
      isCommitted = true;
      return completeAnswers(unanswered, decisions, facts);
    } catch (error) {
      if (error instanceof StoreBehind)
        throw new HeldUp(new Map([[error.part, { before: 0, reason: error }]]));
      throw error;
    } finally {
      for (const end of checked) end(isCommitted);
    }
  }

  /** Returns the function that sends the dead letters of a batch; undefined where the batch has none. */
  function deadLetterSending(
    parts: readonly PartitionItems[],
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
    if (sendDeadLetters === undefined) throw new Error('no producer of dead letters is configured');
    return async () => {
      try {
        await sendDeadLetters(letters);
      } catch (error) {
        const refused = error instanceof LettersRefused ? error.refused : letters;
        const envelopes = new Set(refused.map(({ envelope }) => envelope));
        const reason = new DeadLetterRefused(`the dead-letter topic refused: ${messageOf(error)}`, {
          cause: error,
        });
        const blocked = new Map<number, Blocked>();
        for (const [index, { from, to }] of parts.entries()) {
          const before = unanswered.slice(from, to).findIndex(({ envelope }) => envelopes.has(envelope));
          if (before >= 0) blocked.set(index, { before, reason });
        }
        throwIfAny(blocked);
        throw reason;
      }
    };
  }

  return judgeAndDecide;
}

/**
 * Completes the answers with their decisions, in place. Thousands of answers wait for the store; new objects
 * would double their number.
 */
export function completeAnswers(
  unanswered: readonly Unanswered[],
  decisions: readonly Decision[],
  facts: PublishedFacts | null = null,
): readonly Answer[] {
  unanswered.forEach((answer, index) => {
    answer.decision = decisions[index] ?? null;
    if (facts === null) return;
    // Its first answer had none: the event was reduced to its id (V9).
    if (answer.decision?.type === 'decided' && answer.decision.outcome === PANIC) answer.fields = null;
    answer.decidedAt = facts.decidedAt(index);
    answer.reversed = facts.reversed(index);
  });
  if (!unanswered.every(isAnswered)) throw new Error('an envelope has no answer');
  return unanswered;
}

function isAnswered(answer: Unanswered): answer is Unanswered & Pick<Answer, 'decision'> {
  return answer.decision !== null;
}

/** The key under which the limit counts and pauses: the topic, or the id of the webhook connection. */
function limitKeyOf(origin: Origin): string {
  return isPartition(origin) ? origin.topic : origin.connectionId;
}

/** The sections of each key by their places in the batch, and their decisions. */
function byLimitKey(sections: readonly Section[], decisions: readonly Decision[]) {
  const byKey = new Map<string, { places: number[]; decisions: Decision[] }>();
  let from = 0;
  for (const [index, { origin, envelopes }] of sections.entries()) {
    const to = from + envelopes.length;
    const key = limitKeyOf(origin);
    const ofKey = byKey.get(key) ?? { places: [], decisions: [] };
    byKey.set(key, ofKey);
    ofKey.places.push(index);
    ofKey.decisions.push(...decisions.slice(from, to));
    from = to;
  }
  return byKey;
}

function throwIfAny(blocked: ReadonlyMap<number, Blocked>): void {
  if (blocked.size > 0) throw new HeldUp(blocked);
}
