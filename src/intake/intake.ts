/**
 * The intake: envelopes in, answers out. It has a batch judged and decided, classifies failures, and decides
 * again what can be decided. It knows no transport and no SQL.
 *
 * Every transport shares the intake, so an event gets the same verdict by every transport (docs/rules.md,
 * D1).
 */
import type { Logger } from 'pino';
import type { WhenSent } from '../ledger/decide-batch';
import { classify, isStoreAway } from '../ledger/failures';
import { at } from '../lib/at';
import { asError, messageOf } from '../lib/errors';
import type { TopicPartition } from '../lib/topic-partition';
import type { Answer, Envelope, Section, WebhookRequest } from './delivery';
import { type JudgeDeps, makeJudgeAndDecide } from './judge-and-decide';
import { HeldUp, NotTogether } from './undecided';

/**
 * The result of deciding a batch: all answers, or the answers up to the envelope at which `undecided`
 * happened.
 */
export interface IntakeResult {
  readonly answers: readonly Answer[];
  readonly undecided: Error | null;
}

export interface IntakeDeps extends JudgeDeps {
  readonly logger: Logger;
  /** Called when a batch is retried immediately, with the reason. */
  readonly onRetry?: ((failure: 'again' | 'data') => void) | undefined;
  /** Milliseconds of a clock. Only the rate of panics is measured with it. */
  readonly now: () => number;
}

export interface Intake {
  /**
   * Decides records of Kafka partitions in one batch, each part in its order. Never throws: each result
   * reports why the rest of its part is undecided.
   *
   * Where several parts cannot be decided together, the reason is NotTogether: decide each of them alone.
   *
   * @param parts at least one, of different partitions
   * @param whenSent its calls may be missing, where something prevents them
   * @returns a result for each part, in the order of the parts
   */
  decide(parts: readonly Section<TopicPartition>[], whenSent?: WhenSent): Promise<readonly IntakeResult[]>;
  /** Decides the events of one request to the webhook, or of several. */
  decideRequest(request: WebhookRequest, envelopes: readonly Envelope[]): Promise<IntakeResult>;
}

/** Immediate tries after a lost race or a deadlock. After a lost race, the batches get smaller (U4). */
const MAX_TRIES_AT_ONCE = 5;
/** Tries of an event that fails alone, before it becomes a panic (V9). */
const TRIES_ALONE = 2;
/**
 * After a lost race, this many batches lock their feeds. Other writers then open the same rounds: without the
 * locks all but one of them would have to decide their batches again.
 */
const CONTENDED_BATCHES = 200;

export function makeIntake(deps: IntakeDeps): Intake {
  const { logger, onRetry, now } = deps;
  const judgeAndDecide = makeJudgeAndDecide(deps);
  const takePanic = makePanicLimit(now);
  /** The number of further batches that lock their feeds. */
  let contendedBatches = 0;

  async function decideParts(
    parts: readonly Section<TopicPartition>[],
    whenSent: WhenSent | undefined,
  ): Promise<readonly IntakeResult[]> {
    const [only] = parts;
    if (only !== undefined && parts.length === 1) return [await decideSection(only, whenSent)];
    for (let tries = 1; ; tries++) {
      try {
        const answers = await decideOnce(parts, whenSent);
        let from = 0;
        return parts.map(({ envelopes }) => {
          const to = from + envelopes.length;
          const ofPart = { answers: answers.slice(from, to), undecided: null };
          from = to;
          return ofPart;
        });
      } catch (error) {
        if (classify(error) === 'again' && tries < MAX_TRIES_AT_ONCE) {
          reportRetry('again', { partitions: parts.length }, error);
          continue;
        }
        const undecided = isStoreAway(error)
          ? asError(error)
          : new NotTogether(messageOf(error), { cause: error });
        return parts.map(() => ({ answers: [], undecided }));
      }
    }
  }

  function reportRetry(failure: 'again' | 'data', fields: object, error: unknown): void {
    logger.info({ ...fields, failure, error: messageOf(error) }, 'batch is decided again');
    onRetry?.(failure);
    if (failure === 'again') contendedBatches = CONTENDED_BATCHES;
  }

  async function decideSection(section: Section, whenSent?: WhenSent): Promise<IntakeResult> {
    const answers: Answer[] = [];
    try {
      await decideByHalves(section, whenSent, 1, answers);
      return { answers, undecided: null };
    } catch (error) {
      return { answers, undecided: asError(error) };
    }
  }

  /**
   * Decides a section as one batch, or by halves where some of its envelopes prevent that. Appends the
   * answers to `answers`.
   */
  async function decideByHalves(
    section: Section,
    whenSent: WhenSent | undefined,
    tries: number,
    answers: Answer[],
  ): Promise<void> {
    const { origin, envelopes } = section;
    let next = tries;
    const isAlone = envelopes.length === 1;
    try {
      answers.push(...(await (isAlone ? decideAlone(section, whenSent) : decideOnce([section], whenSent))));
      return;
    } catch (error) {
      if (error instanceof HeldUp && error.before > 0) {
        await decideByHalves(firstOf(section, error.before), undefined, tries, answers);
        throw error;
      }
      const failure = classify(error);
      if (failure === 'undecided' || (failure === 'again' && tries >= MAX_TRIES_AT_ONCE)) throw error;
      // A batch of fewer than two events cannot be halved: a request without events would be divided forever.
      if (failure === 'data' && envelopes.length <= 1) throw error;
      reportRetry(failure, { ...origin, events: envelopes.length }, error);
      // Halving towards a failing event does not count as a try. At any depth, a lost race still has all of
      // its tries.
      if (failure === 'again') next++;
    }
    const half = Math.ceil(envelopes.length / 2);
    if (half === envelopes.length) return decideByHalves(section, whenSent, next, answers);
    // Once the first half is sent, the batch is not yet sent.
    await decideByHalves(firstOf(section, half), undefined, next, answers);
    await decideByHalves(behind(section, half), whenSent, next, answers);
  }

  /**
   * Decides a single event. An event that fails twice is stored as a panic.
   * @throws as `decideOnce` does, and where no panic can be stored
   */
  async function decideAlone(section: Section, whenSent: WhenSent | undefined): Promise<readonly Answer[]> {
    let failure: unknown;
    for (let tries = 1; tries <= TRIES_ALONE; tries++) {
      try {
        return await decideOnce([section], whenSent);
      } catch (error) {
        if (classify(error) !== 'data') throw error;
        onRetry?.('data');
        failure = error;
      }
    }
    const giveBack = takePanic();
    if (giveBack === null) throw failure;
    let isPanic = false;
    try {
      const answers = await decideOnce([section], whenSent, messageOf(failure));
      // A resend of a decided event keeps its verdict.
      isPanic = answers.some(({ decision }) => decision.type === 'decided' && !decision.redelivered);
      if (isPanic)
        logger.error(
          { ...section.origin, offset: at(section.envelopes, 0).offset, error: messageOf(failure) },
          'event failed twice and is rejected as panic',
        );
      return answers;
    } finally {
      if (!isPanic) giveBack();
    }
  }

  /** Runs one transaction. @param panic the error, where the only event of the batch is to become a panic */
  async function decideOnce(
    sections: readonly Section[],
    whenSent: WhenSent | undefined,
    panic?: string,
  ): Promise<readonly Answer[]> {
    const answers = await judgeAndDecide(sections, { contended: contendedBatches > 0, whenSent }, panic);
    if (contendedBatches > 0) contendedBatches--;
    return answers;
  }

  return {
    decide: decideParts,
    decideRequest: (origin, envelopes) => decideSection({ origin, envelopes }),
  };
}

function firstOf(section: Section, count: number): Section {
  return { ...section, envelopes: section.envelopes.slice(0, count) };
}

/** The rest of a section. A store without the first `answered` envelopes has lost them. */
function behind({ envelopes, expectedUpTo, ...section }: Section, answered: number): Section {
  return {
    ...section,
    envelopes: envelopes.slice(answered),
    expectedUpTo: expectedUpTo === undefined ? undefined : at(envelopes, answered - 1).offset + 1,
  };
}

/** Beyond this rate, an event that fails alone stays undecided. */
export const MAX_PANICS_PER_MINUTE = 10;

/**
 * Returns a function that takes a place before a panic is stored: other partitions may be about to store
 * theirs. It returns a function that gives the place back if no panic was stored; null if no place is left.
 *
 * @param now milliseconds of a clock that is never set
 */
export function makePanicLimit(now: () => number): () => (() => void) | null {
  let taken: number[] = [];
  return () => {
    const place = now();
    taken = taken.filter((at) => at >= place - 60_000);
    if (taken.length >= MAX_PANICS_PER_MINUTE) return null;
    taken.push(place);
    return () => {
      if (taken.includes(place)) taken.splice(taken.indexOf(place), 1);
    };
  };
}
