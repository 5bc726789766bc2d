/** Why envelopes stay undecided: what stands in their way, and what that means for those who wait. */
import {
  classify,
  LostRace,
  StaleReference,
  StoreBehind,
  StoreError,
  Undecided,
  UnreadableReference,
} from '../ledger/failures';
import type { DeadLetter } from './delivery';
import { TopicPaused } from './reject-limit';

/** An envelope holds its partition up, and all behind it wait. What stands before it in the batch need not. */
export class HeldUp extends Undecided {
  override readonly name: string = 'HeldUp';
  /** @param before how many envelopes stand before it */
  constructor(
    message: string,
    readonly before: number,
    cause: unknown,
  ) {
    super(message, { cause });
  }
}

/** The payload cannot be decoded now. */
export class PayloadUnavailable extends HeldUp {
  override readonly name = 'PayloadUnavailable';
}

/** The reference data has no such webhook connection (any more). */
export class NoSuchConnection extends Undecided {
  override readonly name = 'NoSuchConnection';
}

/** The dead-letter topic refuses letters for what they are; the others are stored. */
export class LettersRefused extends Error {
  override readonly name = 'LettersRefused';
  /** @param refused in the order of the envelopes; at least one */
  constructor(
    message: string,
    readonly refused: readonly DeadLetter[],
  ) {
    super(message);
  }
}

/** The dead-letter topic does not take the envelope. */
export class DeadLetterRefused extends HeldUp {
  override readonly name = 'DeadLetterRefused';
}

/** No reference data was applied yet. */
export class NoReference extends Undecided {
  override readonly name = 'NoReference';
}

/**
 * What keeps a batch undecided: Postgres, the topics that are published to, the registry, a limit, reference data that is missing or cannot
 * be read, or a defect of our own, which Postgres may be the one to notice.
 */
export function undecidedCause(
  error: unknown,
): 'store' | 'kafka' | 'registry' | 'limit' | 'reference' | 'worker' {
  if (error instanceof TopicPaused) return 'limit';
  if (error instanceof DeadLetterRefused) return 'kafka';
  if (error instanceof PayloadUnavailable) return 'registry';
  const isReference = [NoReference, UnreadableReference, NoSuchConnection].some(
    (type) => error instanceof type,
  );
  if (isReference) return 'reference';
  const isStore = [StoreError, StoreBehind, LostRace, StaleReference].some((type) => error instanceof type);
  return isStore && classify(error) !== 'data' ? 'store' : 'worker';
}

/** Whether it is undecided since the connection that it came by is not, or no longer, in the reference data: trying again does not help. */
export function isOfNoConnection(error: unknown): boolean {
  return error instanceof NoSuchConnection;
}

/** The offset from which on the store has lost what it had decided of the partition; null where that is not why the batch is undecided. */
export function lostFrom(error: unknown): number | null {
  return error instanceof StoreBehind ? error.decidedUpTo : null;
}

/** What stands in the way of one partition, of several that are decided together. */
export function isOfOnePartition(error: unknown): boolean {
  return error instanceof HeldUp || error instanceof StoreBehind;
}

/** Whether a smaller batch might have been decided: what did not come about in time, or was not taken. */
export function mayBeTooMuch(error: unknown): boolean {
  const cause = undecidedCause(error);
  return (cause === 'store' && lostFrom(error) === null) || cause === 'kafka';
}
