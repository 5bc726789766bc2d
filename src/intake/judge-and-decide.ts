/**
 * One attempt to decide a batch: load the reference data, judge the events, and have the ledger decide them.
 * Sends the dead letters before the commit, and applies the limit on rejected events.
 */
import type { Reference } from '../domain/reference';
import type { Decision } from '../domain/verdict/decide';
import { PANIC } from '../domain/verdict/judge';
import { type Ledger, type LedgerBatch, questionsOf } from '../ledger/decide-batch';
import { PartsBehind } from '../ledger/failures';
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

/** The items of a section. */
interface Range {
  /** The place of the section in the batch. */
  readonly section: number;
  readonly key: string;
  readonly from: number;
  readonly to: number;
}

/** A dead letter with its place in its section. */
interface Letter extends DeadLetter, Pick<Range, 'section'>, Pick<Blocked, 'before'> {}

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
   * @returns the answers to each section
   * @throws the reason why the batch is undecided, see undecided.ts and failures.ts
   */
  async function judgeAndDecide(
    sections: readonly Section[],
    options: BatchOptions,
    panic?: string,
  ): Promise<readonly (readonly Answer[])[]> {
    const numbered = await Promise.all(
      sections.map(async (section) => {
        const { origin } = section;
        return {
          ...section,
          origin: isPartition(origin) ? { ...origin, no: await ledger.partitionNo(origin) } : origin,
        };
      }),
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
  ): Promise<readonly (readonly Answer[])[]> {
    const prepared: Prepared = { items: [], unanswered: [], isPublished };
    const { items, unanswered } = prepared;
    const ranges: Range[] = [];
    const parts: PartitionItems[] = [];
    const letters: Letter[] = [];
    const blocked = new Map<number, Blocked>();
    for (const [section, { origin, envelopes, expectedUpTo }] of sections.entries()) {
      const [key, from] = [limitKeyOf(origin), items.length];
      try {
        rejectLimit?.admit(key, reference);
        prepare(prepared, reference, origin, envelopes, panic !== undefined);
      } catch (error) {
        if (!(error instanceof TopicPaused || error instanceof PayloadUnavailable)) throw error;
        blocked.set(section, { before: items.length - from, reason: error });
      }
      ranges.push({ section, key, from, to: items.length });
      if (!isPartition(origin)) continue;
      parts.push({ partition: origin, from, to: items.length, expectedUpTo });
      envelopes.forEach((envelope, before) => {
        const item = items[from + before];
        if (item?.type === 'unstored' && item.deadLetter !== null)
          letters.push({ envelope, source: origin, reason: item.deadLetter, section, before });
      });
    }
    if (parts.length > 0) sharedRounds?.observe(items);
    const questions = questionsOf(items);
    for (const [section, { front }] of sections.entries())
      await front?.catch((error) => blocked.set(section, { before: 0, reason: asError(error) }));
    throwIfAny(blocked);

    const checked: Checked[] = [];
    let isCommitted = false;
    try {
      const { decisions, facts } = await ledger.decideBatch({
        items,
        questions,
        parts,
        reference,
        isPublished,
        ...options,
        beforeWrites:
          rejectLimit &&
          ((decided) => {
            for (const [key, ofKey] of Map.groupBy(ranges, (range) => range.key))
              try {
                const decisions = ofKey.flatMap(({ from, to }) => decided.slice(from, to));
                checked.push(rejectLimit.check(key, reference, decisions));
              } catch (error) {
                if (!(error instanceof TopicPaused)) throw error;
                for (const { section } of ofKey) blocked.set(section, { before: 0, reason: error });
              }
            throwIfAny(blocked);
          }),
        beforeCommit: letters.length === 0 ? undefined : () => send(letters),
        ...(panic === undefined
          ? {}
          : { panic: { error: panic, payload: at(unanswered, 0).envelope.value } }),
      });
      isCommitted = true;
      const answers = completeAnswers(unanswered, decisions, facts);
      return ranges.map(({ from, to }) => answers.slice(from, to));
    } catch (error) {
      if (!(error instanceof PartsBehind)) throw error;
      throw new HeldUp(new Map([...error.parts].map(([part, reason]) => [part, { before: 0, reason }])));
    } finally {
      for (const end of checked) end(isCommitted);
    }
  }

  /** @throws HeldUp where the topic does not accept all of them */
  async function send(letters: readonly Letter[]): Promise<void> {
    if (sendDeadLetters === undefined) throw new Error('no producer of dead letters is configured');
    try {
      await sendDeadLetters(letters);
    } catch (error) {
      const message = `the dead-letter topic refused: ${messageOf(error)}`;
      const reason = new DeadLetterRefused(message, { cause: error });
      const refused = new Set<DeadLetter>(error instanceof LettersRefused ? error.refused : letters);
      // The first one of each section is set last.
      const held = letters.filter((letter) => refused.has(letter)).reverse();
      throw new HeldUp(new Map(held.map(({ section, before }) => [section, { before, reason }])));
    }
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

function throwIfAny(blocked: ReadonlyMap<number, Blocked>): void {
  if (blocked.size > 0) throw new HeldUp(blocked);
}
