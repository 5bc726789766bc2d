/**
 * The intake: envelopes in, answers out. Judges, decides, and says what a failure means. Knows no transport and no SQL.
 * Every transport shares it, so that an event gets the same verdict whichever way it comes (docs/rules.md, D1).
 */
import type { Logger } from 'pino';
import type { Reference } from './domain/reference';
import { asError, messageOf } from './errors';
import { makeContention } from './intake/contention';
import {
  type Answer,
  type DeadLetter,
  type Envelope,
  type Header,
  isPartition,
  type Origin,
  type OriginBatch,
  type TopicPartition,
  type WebhookRequest,
} from './intake/delivery';
import { makePanicLimit } from './intake/panic-limit';
import { answered, type Prepared, prepare } from './intake/prepare';
import type { RejectBreaker } from './intake/reject-limit';
import {
  DeadLetterRefused,
  HeldUp,
  isOfNoConnection,
  isOfOnePartition,
  LettersRefused,
  lostFrom,
  mayBeTooMuch,
  NoReference,
  NoSuchConnection,
  undecidedCause,
} from './intake/undecided';
import { classify, StaleReference } from './ledger/failures';
import type { Batch, Ledger } from './ledger/ledger';
import type { NumberedPartition } from './ledger/partitions';

export type { Answer, DeadLetter, Envelope, Header, Origin, OriginBatch, TopicPartition, WebhookRequest };
export { isOfNoConnection, isPartition, LettersRefused, lostFrom, mayBeTooMuch, undecidedCause };

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
   * @param expectedUpTo see OriginBatch
   * @param whenSent told once all that they write is on its way to the store, unless something stands in the way of it
   */
  decide(
    source: TopicPartition,
    envelopes: readonly Envelope[],
    expectedUpTo?: number,
    whenSent?: () => void,
  ): Promise<IntakeResult>;
  /**
   * The same for several partitions of a topic in one transaction, MAX_BATCH_EVENTS envelopes at most. What stands in the way of one of them is told of it alone.
   *
   * @returns what was decided of each, in their order
   */
  decideTogether(
    batches: readonly OriginBatch<TopicPartition>[],
    whenSent: () => void,
  ): Promise<readonly IntakeResult[]>;
  /** Whether batches met in their rounds of late: then partitions of a topic are better decided together (U4). */
  isContended(): boolean;
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

  /** Where something stands in the way of one of them, each is decided by itself. */
  async function decideTogether(
    batches: readonly OriginBatch<TopicPartition>[],
    whenSent: () => void,
  ): Promise<readonly IntakeResult[]> {
    const { topic } = first(batches).origin;
    if (batches.length > 1) {
      try {
        const answers = await contention.run(topic, true, (contended) =>
          judgeAndDecide(batches, { ...contended, whenSent }),
        );
        return answers.map((ofBatch) => ({ answers: ofBatch, undecided: null }));
      } catch (error) {
        const failure = classify(error);
        if (failure === 'undecided' && !isOfOnePartition(error))
          return batches.map(() => ({ answers: [], undecided: asError(error) }));
        logger.info(
          { topic, partitions: batches.length, failure, error: messageOf(error) },
          'partitions are decided one by one',
        );
        if (failure !== 'undecided') onRetry?.(failure);
        if (failure === 'again') contention.raced();
      }
    }
    const results: IntakeResult[] = [];
    for (const [index, { envelopes, ...from }] of batches.entries()) {
      // Once the last has sent its writes the others are decided, or cannot be now.
      const isLast = index === batches.length - 1;
      const origin = { ...from, hasWaited: true, whenSent: isLast ? whenSent : undefined };
      results.push(await decideAll(origin, envelopes));
    }
    return results;
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
        await decideInParts(from, envelopes.slice(0, error.before), tries, answers);
        throw error;
      }
      const failure = classify(error);
      if (failure === 'undecided' || (failure === 'again' && tries >= MAX_TRIES_AT_ONCE)) throw error;
      if (failure === 'data' && isAlone) throw error;
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
    await decideInParts(again, envelopes.slice(0, half), next, answers);
    if (half < envelopes.length) await decideInParts(again, envelopes.slice(half), next, answers);
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
    return contention.run(queueOf(from.origin), from.hasWaited === true, async (contention) => {
      const whenSent = () => {
        contention.whenSent?.();
        from.whenSent?.();
      };
      const batch = { origin: from.origin, envelopes, expectedUpTo: from.expectedUpTo };
      return first(await judgeAndDecide([batch], { ...contention, whenSent }, panic));
    });
  }

  /** Once more where the reference data turns out to be stale. @returns the answers to each batch */
  async function judgeAndDecide(
    batches: readonly OriginBatch[],
    options: Pick<Batch, 'contended' | 'whenSent'>,
    panic?: string,
  ): Promise<readonly (readonly Answer[])[]> {
    const numbered = await Promise.all(batches.map(withNumber));
    const queue = queueOf(first(batches).origin);
    // New reference data is what a paused topic waits for.
    let reference = await (breaker?.isPaused(queue) ? references.reload() : references.current());
    for (let tries = 1; ; tries++) {
      try {
        if (reference.version === 0) throw new NoReference('no reference data has been applied yet');
        breaker?.admit(queue, reference);
        const prepared = prepare(reference, numbered, panic !== undefined);
        const decisions = await ledger.decideBatch({
          ...options,
          items: prepared.items,
          parts: prepared.parts,
          reference,
          beforeWrites: breaker && ((decided) => breaker.check(queue, reference, decided)),
          beforeCommit: deadLetterSending(batches, prepared),
          ...(panic === undefined
            ? {}
            : { panic: { error: panic, payload: first(first(batches).envelopes).value } }),
        });
        breaker?.committed(queue, decisions);
        return answered(prepared, decisions);
      } catch (error) {
        // What is missing may have been added since; the store tells that it was only where there is something to decide. Twice, since a load that was under way
        // may have begun before.
        const isMissing = error instanceof NoReference || error instanceof NoSuchConnection;
        const mayBeStale = error instanceof StaleReference || (isMissing && tries <= 2);
        if (!mayBeStale || tries >= MAX_TRIES_AT_ONCE) throw error;
        reference = await references.reload();
      }
    }
  }

  async function withNumber({
    origin,
    ...batch
  }: OriginBatch): Promise<OriginBatch<NumberedPartition | WebhookRequest>> {
    return {
      ...batch,
      origin: isPartition(origin) ? { ...origin, no: await ledger.partitionNo(origin) } : origin,
    };
  }

  /** Sends the dead letters of batches that are decided together; undefined where they have none. */
  function deadLetterSending(
    batches: readonly OriginBatch[],
    prepared: Pick<Prepared, 'items' | 'unanswered'>,
  ): (() => Promise<void>) | undefined {
    const letters = lettersOf(batches, prepared);
    if (letters.length === 0) return undefined;
    if (sendDeadLetters === undefined) throw new Error('nothing sends dead letters here');
    return async () => {
      try {
        await sendDeadLetters(letters);
      } catch (error) {
        const waits = error instanceof LettersRefused ? first(error.refused) : first(letters);
        // Of several batches nobody asks: each is decided again by itself.
        const before = first(batches).envelopes.indexOf(waits.envelope);
        throw new DeadLetterRefused(`the dead-letter topic refused: ${messageOf(error)}`, before, error);
      }
    };
  }

  return {
    decide: (origin, envelopes, expectedUpTo, whenSent) =>
      decideAll({ origin, expectedUpTo, whenSent }, envelopes),
    decideTogether,
    isContended: contention.isOn,
    decideRequest: (origin, envelopes) => decideAll({ origin }, envelopes),
  };
}

/** Where a batch comes from, and how far the store is expected to have decided its partition. */
interface BatchOrigin extends Omit<OriginBatch, 'envelopes'> {
  readonly whenSent?: (() => void) | undefined;
  /** It is decided again: it has waited enough for others. */
  readonly hasWaited?: boolean;
}

function lettersOf(
  batches: readonly OriginBatch[],
  { items, unanswered }: Pick<Prepared, 'items' | 'unanswered'>,
): DeadLetter[] {
  const letters: DeadLetter[] = [];
  let next = 0;
  batches.forEach(({ origin }, index) => {
    for (const { envelope } of at(unanswered, index)) {
      const item = at(items, next++);
      if (isPartition(origin) && item.type === 'unstored' && item.deadLetter !== null)
        letters.push({ envelope, source: origin, reason: item.deadLetter });
    }
  });
  return letters;
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
