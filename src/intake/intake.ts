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

/** The answers to each section of a batch. */
type Decided = readonly (readonly Answer[])[];

export interface IntakeDeps extends JudgeDeps {
  readonly logger: Logger;
  /** Called when a batch is retried immediately, with the reason. */
  readonly onRetry?: ((failure: 'again' | 'data') => void) | undefined;
  /** Milliseconds of a clock that is never set. Only the rate of panics is measured with it. */
  readonly now: () => number;
}

export interface Intake {
  /**
   * Decides records of Kafka partitions in one batch, each part in its order. Never throws: each result
   * reports why the rest of its part is undecided.
   *
   * Parts that can be decided are decided, whatever keeps the others undecided. The reason NotTogether says
   * that none is decided, and nothing shows which of them prevent that: decide each of them alone.
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
/** Beyond this rate, an event that fails alone stays undecided. */
export const MAX_PANICS_PER_MINUTE = 10;
/**
 * After a lost race, this many batches lock their feeds. Other writers then open the same rounds: without the
 * locks all but one of them would have to decide their batches again.
 */
const CONTENDED_BATCHES = 200;

export function makeIntake(deps: IntakeDeps): Intake {
  const { logger, onRetry, now } = deps;
  const judgeAndDecide = makeJudgeAndDecide(deps);
  /** When events of the last minute became panics, or will. Several batches may be about to store theirs. */
  let panics: number[] = [];
  /** The number of further batches that lock their feeds. */
  let contendedBatches = 0;

  /**
   * Decides sections as one batch. Where that fails:
   *
   * - Sections that prevent it are cut in front of their first envelope that does, and the rest is decided.
   * - After a lost race, a batch of several sections is decided again, and a section by halves.
   * - Where an event makes it fail, it is decided by halves: of its sections, then of their envelopes.
   *
   * @param whenSent missing for a batch that has only some of the records
   * @param tries after lost races
   */
  async function decide(
    sections: readonly Section[],
    whenSent?: WhenSent,
    tries = 1,
  ): Promise<readonly IntakeResult[]> {
    const only = onlyOf(sections);
    // A request without events would be divided forever.
    const isIndivisible = only !== undefined && only.envelopes.length <= 1;
    try {
      const decided = await (only?.envelopes.length === 1
        ? decideAlone(only, whenSent)
        : decideOnce(sections, whenSent));
      return decided.map((answers) => ({ answers, undecided: null }));
    } catch (error) {
      if (error instanceof HeldUp) return decideRest(sections, error.sections, tries);
      const failure = classify(error);
      if (failure === 'undecided' || (failure === 'again' ? tries >= MAX_TRIES_AT_ONCE : isIndivisible)) {
        const isForAll = only !== undefined || isStoreAway(error);
        const undecided = isForAll ? asError(error) : new NotTogether(messageOf(error), { cause: error });
        return sections.map(() => ({ answers: [], undecided }));
      }
      logger.info({ ...nameOf(sections), failure, error: messageOf(error) }, 'batch is decided again');
      onRetry?.(failure);
      // This is no try: at any depth, a lost race still has all of its tries.
      if (failure === 'data') return decideHalves(sections, whenSent, tries);
      contendedBatches = CONTENDED_BATCHES;
      const isWhole = only === undefined || isIndivisible;
      return (isWhole ? decide : decideHalves)(sections, whenSent, tries + 1);
    }
  }

  async function decideHalves(
    sections: readonly Section[],
    whenSent: WhenSent | undefined,
    tries: number,
  ): Promise<readonly IntakeResult[]> {
    const only = onlyOf(sections);
    const half = Math.ceil((only?.envelopes ?? sections).length / 2);
    // Once the first half is sent, the batch is not yet sent.
    const front = await decide(only ? [firstOf(only, half)] : sections.slice(0, half), undefined, tries);
    if (only === undefined) return [...front, ...(await decide(sections.slice(half), whenSent, tries))];
    const [first = NOTHING] = front;
    if (first.undecided !== null) return front;
    const [second = NOTHING] = await decide([behind(only, half)], whenSent, tries);
    return [{ answers: [...first.answers, ...second.answers], undecided: second.undecided }];
  }

  /** Decides a batch without what prevents it. */
  async function decideRest(
    sections: readonly Section[],
    blocked: HeldUp['sections'],
    tries: number,
  ): Promise<readonly IntakeResult[]> {
    const cut = sections.map((section, index) => firstOf(section, blocked.get(index)?.before));
    const rest = cut.filter(({ envelopes }) => envelopes.length > 0);
    const results = rest.length === 0 ? [] : await decide(rest, undefined, tries);
    return cut.map((section, index) => {
      const { answers, undecided } = results[rest.indexOf(section)] ?? NOTHING;
      return { answers, undecided: undecided ?? blocked.get(index)?.reason ?? null };
    });
  }

  /**
   * Decides a single event. An event that fails twice is stored as a panic.
   * @throws as `decideOnce` does, and where no panic can be stored
   */
  async function decideAlone(section: Section, whenSent: WhenSent | undefined): Promise<Decided> {
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
    const place = now();
    panics = panics.filter((at) => at >= place - 60_000);
    if (panics.length >= MAX_PANICS_PER_MINUTE) throw failure;
    panics.push(place);
    let isPanic = false;
    try {
      const decided = await decideOnce([section], whenSent, messageOf(failure));
      // A resend of a decided event keeps its verdict.
      isPanic = at(decided, 0).some(({ decision }) => decision.type === 'decided' && !decision.redelivered);
      if (isPanic)
        logger.error(
          { ...section.origin, offset: at(section.envelopes, 0).offset, error: messageOf(failure) },
          'event failed twice and is rejected as panic',
        );
      return decided;
    } finally {
      if (!isPanic && panics.includes(place)) panics.splice(panics.indexOf(place), 1);
    }
  }

  /** Runs one transaction. @param panic the error, where the only event of the batch is to become a panic */
  async function decideOnce(
    sections: readonly Section[],
    whenSent: WhenSent | undefined,
    panic?: string,
  ): Promise<Decided> {
    const decided = await judgeAndDecide(sections, { contended: contendedBatches > 0, whenSent }, panic);
    if (contendedBatches > 0) contendedBatches--;
    return decided;
  }

  return {
    decide,
    decideRequest: async (origin, envelopes) => at(await decide([{ origin, envelopes }]), 0),
  };
}

const NOTHING: IntakeResult = { answers: [], undecided: null };

/** Fields of a log line. */
function nameOf(sections: readonly Section[]): object {
  const events = sections.reduce((sum, { envelopes }) => sum + envelopes.length, 0);
  return { ...(onlyOf(sections)?.origin ?? { partitions: sections.length }), events };
}

function onlyOf(sections: readonly Section[]): Section | undefined {
  return sections.length === 1 ? sections[0] : undefined;
}

/** @param count all by default */
function firstOf(section: Section, count?: number): Section {
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
