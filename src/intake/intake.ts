/**
 * The intake: envelopes in, answers out. Judges, decides, and says what a failure means. Knows no transport and no SQL.
 * Every transport shares it, so that an event gets the same verdict whichever way it comes (docs/rules.md, D1).
 */

import type { Logger } from 'pino';
import type { Reference } from '../domain/reference';
import type { Item } from '../domain/verdict/decide';
import type { Batch, Ledger } from '../ledger/decide-batch';
import { classify, StaleReference } from '../ledger/failures';
import { asError, messageOf } from '../lib/errors';
import type { TopicPartition } from '../lib/topic-partition';
import { makeContention } from './contention';
import {
  type Answer,
  type DeadLetter,
  type Envelope,
  isPartition,
  type Origin,
  type WebhookRequest,
} from './delivery';
import { makePanicLimit } from './panic-limit';
import { answered, prepare } from './prepare';
import type { RejectBreaker } from './reject-limit';
import { DeadLetterRefused, HeldUp, LettersRefused, MAY_BE_ADDED, NoReference } from './undecided';

/** What was decided of a batch: all of it, or the answers up to the envelope at which `undecided` happened. */
export interface IntakeResult {
  readonly answers: readonly Answer[];
  readonly undecided: Error | null;
}

/** The reference data in force, kept in memory and reloaded where the store says that it is stale. */
export interface References {
  current(): Promise<Reference>;
  reload(): Promise<Reference>;
}

export interface IntakeDeps {
  readonly ledger: Ledger;
  readonly references: References;
  /** Resolves once every dead letter is acknowledged by all replicas. Absent where no Kafka record is decided. @throws LettersRefused where all but some are */
  readonly sendDeadLetters?: ((letters: readonly DeadLetter[]) => Promise<void>) | undefined;
  /** Where rejected events have a limit. */
  readonly breaker?: RejectBreaker | undefined;
  readonly logger: Logger;
  /** Told of each batch that is decided again at once, and why. */
  readonly onRetry?: ((failure: 'again' | 'data') => void) | undefined;
  /** Milliseconds of a clock that only the rate of panics is measured with. */
  readonly now: () => number;
}

export interface Intake {
  /**
   * Decides envelopes of one partition, in their order. Never throws: what cannot be decided now is in the result.
   *
   * @param expectedUpTo one past the last record of the partition that was answered before them: a store that has decided less has lost it (StoreBehind).
   * Absent where nobody reads the partition on from here.
   * @param whenSent told once all that they write is on its way to the store, unless something stands in the way of it
   */
  decide(
    source: TopicPartition,
    envelopes: readonly Envelope[],
    expectedUpTo?: number,
    whenSent?: () => void,
  ): Promise<IntakeResult>;
  /** The same for the events of a request to the webhook, or of several. */
  decideRequest(request: WebhookRequest, envelopes: readonly Envelope[]): Promise<IntakeResult>;
}

/** Tries at once after a lost race or a deadlock, in ever smaller batches, and after new reference data (U4). */
const MAX_TRIES_AT_ONCE = 5;
/** Tries of an event that fails by itself, before it is a panic (V9). */
const TRIES_ALONE = 2;

export function makeIntake(deps: IntakeDeps): Intake {
  const { ledger, references, sendDeadLetters, breaker, logger, onRetry, now } = deps;
  const contention = makeContention();
  const panics = makePanicLimit(now);

  async function decideAll(from: BatchOrigin, envelopes: readonly Envelope[]): Promise<IntakeResult> {
    const answers: Answer[] = [];
    try {
      await decideInParts(from, envelopes, 1, answers);
      return { answers, undecided: null };
    } catch (error) {
      return { answers, undecided: asError(error) };
    }
  }

  /** Decides envelopes whole, or by halves where something in them stands in the way. Appends what is decided to `answers`. */
  async function decideInParts(
    from: BatchOrigin,
    envelopes: readonly Envelope[],
    tries: number,
    answers: Answer[],
  ): Promise<void> {
    let next = tries;
    const isAlone = envelopes.length === 1;
    try {
      answers.push(...(await (isAlone ? decideAlone(from, envelopes) : decideOnce(from, envelopes))));
      return;
    } catch (error) {
      if (error instanceof HeldUp && error.before > 0) {
        await decideInParts(partOf(from), envelopes.slice(0, error.before), tries, answers);
        throw error;
      }
      const failure = classify(error);
      if (failure === 'undecided' || (failure === 'again' && tries >= MAX_TRIES_AT_ONCE)) throw error;
      // Half of nothing is nothing: a request without events would be divided for ever.
      if (failure === 'data' && envelopes.length <= 1) throw error;
      logger.info(
        { ...from.origin, events: envelopes.length, failure, error: messageOf(error) },
        'batch is decided again',
      );
      onRetry?.(failure);
      // Halving towards an event that fails is no further try: however deep it goes, a lost race there has all of its tries.
      if (failure === 'again') {
        next++;
        contention.raced();
      }
    }
    const half = Math.ceil(envelopes.length / 2);
    const again = { ...from, hasWaited: true };
    if (half === envelopes.length) return decideInParts(again, envelopes, next, answers);
    await decideInParts(partOf(again), envelopes.slice(0, half), next, answers);
    await decideInParts(behind(again, envelopes, half), envelopes.slice(half), next, answers);
  }

  /** An event by itself: what fails twice is stored as a panic. @throws as `decideOnce` does, and where no panic can be stored */
  async function decideAlone(from: BatchOrigin, envelopes: readonly Envelope[]): Promise<readonly Answer[]> {
    let failure: unknown;
    for (let tries = 1; tries <= TRIES_ALONE; tries++) {
      try {
        return await decideOnce(from, envelopes);
      } catch (error) {
        if (classify(error) !== 'data') throw error;
        onRetry?.('data');
        failure = error;
      }
    }
    const giveBack = panics.take();
    if (giveBack === null) throw failure;
    let isPanic = false;
    try {
      const answers = await decideOnce(from, envelopes, messageOf(failure));
      // A resend of what is decided keeps its verdict.
      isPanic = answers.some(({ decision }) => decision.type === 'decided' && !decision.redelivered);
      if (isPanic)
        logger.error(
          { ...from.origin, offset: first(envelopes).offset, error: messageOf(failure) },
          'event failed twice and is rejected as panic',
        );
      return answers;
    } finally {
      if (!isPanic) giveBack();
    }
  }

  /** One transaction. @param panic what failed, where the only event of the batch is to be a panic */
  function decideOnce(
    from: BatchOrigin,
    envelopes: readonly Envelope[],
    panic?: string,
  ): Promise<readonly Answer[]> {
    return contention.run(queueOf(from.origin), from.hasWaited === true, (contended) =>
      judgeAndDecide(from, envelopes, contended, panic),
    );
  }

  /** Once more where the reference data turns out to be stale. */
  async function judgeAndDecide(
    from: BatchOrigin,
    envelopes: readonly Envelope[],
    contended: Pick<Batch, 'contended' | 'whenSent'>,
    panic?: string,
  ): Promise<readonly Answer[]> {
    const { origin, expectedUpTo, whenSent } = from;
    const numbered = isPartition(origin) ? { ...origin, no: await ledger.partitionNo(origin) } : origin;
    const partition = isPartition(numbered) ? numbered : null;
    const queue = queueOf(origin);
    // New reference data is what a paused topic waits for.
    let reference = await (breaker?.isPaused(queue) ? references.reload() : references.current());
    for (let tries = 1; ; tries++) {
      try {
        if (reference.version === 0) throw new NoReference('no reference data has been applied yet');
        breaker?.admit(queue, reference);
        const { items, unanswered } = prepare(reference, numbered, envelopes, panic !== undefined);
        const decisions = await ledger.decideBatch({
          items,
          partition,
          expectedUpTo,
          reference,
          ...contended,
          whenSent() {
            contended.whenSent?.();
            whenSent?.();
          },
          beforeWrites: breaker && ((decided) => breaker.check(queue, reference, decided)),
          beforeCommit: (partition && deadLetterSending(partition, envelopes, items)) ?? undefined,
          ...(panic === undefined ? {} : { panic: { error: panic, payload: first(envelopes).value } }),
        });
        breaker?.committed(queue, decisions);
        return answered(unanswered, decisions);
      } catch (error) {
        // What is missing may have been added since; the store tells that it was only where there is something to decide. Twice, since a load that was under way
        // may have begun before.
        const isMissing = MAY_BE_ADDED.some((type) => error instanceof type);
        const mayBeStale = error instanceof StaleReference || (isMissing && tries <= 2);
        if (!mayBeStale || tries >= MAX_TRIES_AT_ONCE) throw error;
        reference = await references.reload();
      }
    }
  }

  /** Sends the dead letters of a batch; undefined where it has none. */
  function deadLetterSending(
    source: TopicPartition,
    envelopes: readonly Envelope[],
    items: readonly Item[],
  ): (() => Promise<void>) | undefined {
    const letters: DeadLetter[] = [];
    items.forEach((item, index) => {
      if (item.type === 'unstored' && item.deadLetter !== null)
        letters.push({ envelope: at(envelopes, index), source, reason: item.deadLetter });
    });
    if (letters.length === 0) return undefined;
    if (sendDeadLetters === undefined) throw new Error('nothing sends dead letters here');
    return async () => {
      try {
        await sendDeadLetters(letters);
      } catch (error) {
        const waits = error instanceof LettersRefused ? first(error.refused) : first(letters);
        const before = envelopes.indexOf(waits.envelope);
        throw new DeadLetterRefused(`the dead-letter topic refused: ${messageOf(error)}`, before, error);
      }
    };
  }

  return {
    decide: (origin, envelopes, expectedUpTo, whenSent) =>
      decideAll({ origin, expectedUpTo, whenSent }, envelopes),
    decideRequest: (origin, envelopes) => decideAll({ origin }, envelopes),
  };
}

/** Where a batch comes from, and how far the store is expected to have decided its partition. */
interface BatchOrigin {
  readonly origin: Origin;
  readonly expectedUpTo?: number | undefined;
  readonly whenSent?: (() => void) | undefined;
  /** It is decided again: it has waited enough for others. */
  readonly hasWaited?: boolean;
}

/** A part of a batch that is not its last: when it is sent, the batch is not. */
function partOf(from: BatchOrigin): BatchOrigin {
  return { ...from, whenSent: undefined };
}

/** The rest of a batch, of which the first so many are answered: a store that does not know these has lost them. */
function behind(from: BatchOrigin, envelopes: readonly Envelope[], answered: number): BatchOrigin {
  if (from.expectedUpTo === undefined) return from;
  return { ...from, expectedUpTo: at(envelopes, answered - 1).offset + 1 };
}

/** Whose batches take turns where they meet in their rounds, and are paused together: a topic, or a connection of the webhook. */
function queueOf(origin: Origin): string {
  return isPartition(origin) ? origin.topic : origin.connectionId;
}

function first<T>(list: readonly T[]): T {
  return at(list, 0);
}

function at<T>(list: readonly T[], index: number): T {
  const element = list[index];
  if (element === undefined) throw new Error(`a list of ${list.length} has no element ${index}`);
  return element;
}
