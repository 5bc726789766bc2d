/**
 * The intake: envelopes in, answers out. It judges a batch, has the ledger decide it, and classifies
 * failures. It knows no transport and no SQL.
 *
 * Every transport shares the intake, so an event gets the same verdict by every transport (docs/rules.md,
 * D1).
 */

import type { Logger } from 'pino';
import type { Reference } from '../domain/reference';
import type { Item } from '../domain/verdict/decide';
import type { Ledger, LedgerBatch } from '../ledger/decide-batch';
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
import { completeAnswers, prepare } from './prepare';
import type { RejectBreaker } from './reject-limit';
import { DeadLetterRefused, HeldUp, LettersRefused, MAY_BE_ADDED, NoReference } from './undecided';

/**
 * The result of deciding a batch: all answers, or the answers up to the envelope at which `undecided`
 * happened.
 */
export interface IntakeResult {
  readonly answers: readonly Answer[];
  readonly undecided: Error | null;
}

/**
 * The reference data in force. It is kept in memory, and reloaded when the store reports that it is stale.
 */
export interface References {
  current(): Promise<Reference>;
  reload(): Promise<Reference>;
}

export interface IntakeDeps {
  readonly ledger: Ledger;
  readonly references: References;
  /**
   * Resolves once all replicas have acknowledged every dead letter. Absent where no Kafka record is decided.
   * @throws LettersRefused where the topic refused some letters and stored the others
   */
  readonly sendDeadLetters?: ((letters: readonly DeadLetter[]) => Promise<void>) | undefined;
  /** Present where rejected events have a limit. */
  readonly breaker?: RejectBreaker | undefined;
  readonly logger: Logger;
  /** Called when a batch is retried immediately, with the reason. */
  readonly onRetry?: ((failure: 'again' | 'data') => void) | undefined;
  /** Milliseconds of a clock. Only the rate of panics is measured with it. */
  readonly now: () => number;
}

export interface Intake {
  /**
   * Decides envelopes of one partition, in their order. Never throws: the result reports why the rest is
   * undecided.
   *
   * @param expectedUpTo one past the last record of the partition that was answered before these envelopes. A
   * store that has decided less has lost records (StoreBehind). Absent where this worker does not continue
   * the partition.
   * @param whenSent called once all writes of the batch are on their way to the store, unless something
   * prevents them
   */
  decide(
    source: TopicPartition,
    envelopes: readonly Envelope[],
    expectedUpTo?: number,
    whenSent?: () => void,
  ): Promise<IntakeResult>;
  /** The same for the events of one request to the webhook, or of several. */
  decideRequest(request: WebhookRequest, envelopes: readonly Envelope[]): Promise<IntakeResult>;
}

/**
 * Immediate tries after a lost race, a deadlock or new reference data. After a lost race, the batches get
 * smaller (U4).
 */
const MAX_TRIES_AT_ONCE = 5;
/** Tries of an event that fails alone, before it becomes a panic (V9). */
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

  /**
   * Decides envelopes as one batch, or by halves where some of them prevent that. Appends the answers to
   * `answers`.
   */
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
      // A batch of fewer than two events cannot be halved: a request without events would be divided forever.
      if (failure === 'data' && envelopes.length <= 1) throw error;
      logger.info(
        { ...from.origin, events: envelopes.length, failure, error: messageOf(error) },
        'batch is decided again',
      );
      onRetry?.(failure);
      // Halving towards a failing event does not count as a try. At any depth, a lost race still has all of
      // its tries.
      if (failure === 'again') {
        next++;
        contention.reportLostRace();
      }
    }
    const half = Math.ceil(envelopes.length / 2);
    const again = { ...from, hasWaited: true };
    if (half === envelopes.length) return decideInParts(again, envelopes, next, answers);
    await decideInParts(partOf(again), envelopes.slice(0, half), next, answers);
    await decideInParts(behind(again, envelopes, half), envelopes.slice(half), next, answers);
  }

  /**
   * Decides a single event. An event that fails twice is stored as a panic.
   * @throws as `decideOnce` does, and where no panic can be stored
   */
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
      // A resend of a decided event keeps its verdict.
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

  /** Runs one transaction. @param panic the error, where the only event of the batch is to become a panic */
  function decideOnce(
    from: BatchOrigin,
    envelopes: readonly Envelope[],
    panic?: string,
  ): Promise<readonly Answer[]> {
    return contention.run(queueOf(from.origin), from.hasWaited === true, (contended) =>
      judgeAndDecide(from, envelopes, contended, panic),
    );
  }

  /** Judges and decides; repeats both where the reference data is stale. */
  async function judgeAndDecide(
    from: BatchOrigin,
    envelopes: readonly Envelope[],
    contended: Pick<LedgerBatch, 'contended' | 'whenSent'>,
    panic?: string,
  ): Promise<readonly Answer[]> {
    const { origin, expectedUpTo, whenSent } = from;
    const numbered = isPartition(origin) ? { ...origin, no: await ledger.partitionNo(origin) } : origin;
    const partition = isPartition(numbered) ? numbered : null;
    const queue = queueOf(origin);
    // A paused topic waits for new reference data.
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
        breaker?.countCommitted(queue, decisions);
        return completeAnswers(unanswered, decisions);
      } catch (error) {
        // Missing reference data may have been added since it was loaded. The store reports stale data only
        // where the batch has events to decide. Reload twice, since a load in progress may have begun before
        // the change.
        const isMissing = MAY_BE_ADDED.some((type) => error instanceof type);
        const mayBeStale = error instanceof StaleReference || (isMissing && tries <= 2);
        if (!mayBeStale || tries >= MAX_TRIES_AT_ONCE) throw error;
        reference = await references.reload();
      }
    }
  }

  /** Returns the function that sends the dead letters of a batch; undefined where the batch has none. */
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
    if (sendDeadLetters === undefined) throw new Error('no sender of dead letters is configured');
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

/** The origin of a batch, and the offset up to which the store is expected to have decided its partition. */
interface BatchOrigin {
  readonly origin: Origin;
  readonly expectedUpTo?: number | undefined;
  readonly whenSent?: (() => void) | undefined;
  /** True on a retry: the batch has already waited for other batches. */
  readonly hasWaited?: boolean;
}

/**
 * The origin for a part of a batch that is not its last part. Once this part is sent, the batch is not yet
 * sent.
 */
function partOf(from: BatchOrigin): BatchOrigin {
  return { ...from, whenSent: undefined };
}

/** The origin for the rest of a batch. A store without the first `answered` envelopes has lost them. */
function behind(from: BatchOrigin, envelopes: readonly Envelope[], answered: number): BatchOrigin {
  if (from.expectedUpTo === undefined) return from;
  return { ...from, expectedUpTo: at(envelopes, answered - 1).offset + 1 };
}

/**
 * The key by which batches take turns when they share rounds, and by which they are paused together. It is a
 * topic, or a connection of the webhook.
 */
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
