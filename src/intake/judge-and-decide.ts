/**
 * One attempt to decide a batch: load the reference data, judge the events, and have the ledger decide them.
 * Sends the dead letters before the commit, and applies the limit on rejected events.
 */
import type { Reference } from '../domain/reference';
import type { Decision, Item } from '../domain/verdict/decide';
import { PANIC } from '../domain/verdict/judge';
import type { Ledger, LedgerBatch } from '../ledger/decide-batch';
import type { PublishedFacts } from '../ledger/published-facts';
import type { NumberedPartition, PartitionItems } from '../ledger/statements/find';
import { at } from '../lib/at';
import { messageOf } from '../lib/errors';
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
import type { Checked, RejectLimit } from './reject-limit';
import type { SharedRounds } from './shared-rounds';
import { DeadLetterRefused, LettersRefused } from './undecided';

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
    const checked: Checked[] = [];
    let isCommitted = false;
    try {
      for (const { origin } of sections) rejectLimit?.admit(limitKeyOf(origin), reference);
      const prepared: Prepared = { items: [], unanswered: [], isPublished };
      const parts: PartitionItems[] = [];
      for (const { origin, envelopes, expectedUpTo } of sections) {
        const from = prepared.items.length;
        prepare(prepared, reference, origin, envelopes, panic !== undefined);
        if (isPartition(origin))
          parts.push({ partition: origin, from, to: prepared.items.length, expectedUpTo });
      }
      const { items, unanswered } = prepared;
      if (parts.length > 0) sharedRounds?.observe(items);
      for (const { front } of sections) await front;
      const { decisions, facts } = await ledger.decideBatch({
        ...{ items, parts, reference, isPublished },
        ...options,
        beforeWrites:
          rejectLimit &&
          ((decided) => {
            for (const [key, ofKey] of decisionsByLimitKey(sections, decided))
              checked.push(rejectLimit.check(key, reference, ofKey));
          }),
        beforeCommit: deadLetterSending(parts, unanswered, items),
        ...(panic === undefined
          ? {}
          : { panic: { error: panic, payload: at(unanswered, 0).envelope.value } }),
      });
      isCommitted = true;
      return completeAnswers(unanswered, decisions, facts);
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
        const waits = at(error instanceof LettersRefused ? error.refused : letters, 0);
        const before = unanswered.findIndex(({ envelope }) => envelope === waits.envelope);
        throw new DeadLetterRefused(`the dead-letter topic refused: ${messageOf(error)}`, before, error);
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

function decisionsByLimitKey(
  sections: readonly Section[],
  decisions: readonly Decision[],
): ReadonlyMap<string, readonly Decision[]> {
  const byKey = new Map(sections.map(({ origin }): [string, Decision[]] => [limitKeyOf(origin), []]));
  let from = 0;
  for (const { origin, envelopes } of sections) {
    const to = from + envelopes.length;
    byKey.get(limitKeyOf(origin))?.push(...decisions.slice(from, to));
    from = to;
  }
  return byKey;
}
