/** What keeps a batch undecided, and what that means for its next try (docs/rules.md, U1-U4). */

import {
  classify,
  isHeldByPartition,
  LostRace,
  LostReference,
  StaleReference,
  StoreBehind,
  Undecided,
  UnreadableReference,
} from '../ledger/failures';
import { StoreError } from '../postgres/errors';
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

/** The operator of a webhook connection is not active: nothing of its requests is decided, so that they use up no event_id (W6). */
export class OperatorSuspended extends Undecided {
  override readonly name = 'OperatorSuspended';
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

export class NoReference extends Undecided {
  override readonly name = 'NoReference';
}

/** What newer reference data may have: some, the connection, an operator that is active again. */
export const MAY_BE_ADDED = [NoReference, NoSuchConnection, OperatorSuspended];

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
  const isReference = [...MAY_BE_ADDED, LostReference, UnreadableReference].some(
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

/** Whether its operator is suspended. Trying again helps only once the service's side has activated the operator. */
export function isOfSuspendedOperator(error: unknown): boolean {
  return error instanceof OperatorSuspended;
}

/** The offset from which on the store has lost what it had decided of the partition; null where that is not why the batch is undecided. */
export function lostFrom(error: unknown): number | null {
  return error instanceof StoreBehind ? error.decidedUpTo : null;
}

/** Whether a batch that was begun before the one in front of it was answered might have been decided behind it: that one is not there yet, or kept it waiting. */
export function mayBeTooEarly(error: unknown): boolean {
  return error instanceof StoreBehind || isHeldByPartition(error);
}

/** Whether a smaller batch might have been decided: what did not come about in time, or was not taken. */
export function mayBeTooMuch(error: unknown): boolean {
  const cause = undecidedCause(error);
  return (cause === 'store' && lostFrom(error) === null) || cause === 'kafka';
}
