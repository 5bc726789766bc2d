/** The causes that keep a batch undecided, and their consequences for the next try (docs/rules.md, U1-U4). */

import {
  classify,
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

/** A section that prevents its batch. */
export interface Blocked {
  /** The number of its envelopes in front of the first one that cannot be decided now. */
  readonly before: number;
  /** Why that one cannot be decided now. */
  readonly reason: Error;
}

/**
 * Some sections prevent their batch. Without them, the rest of the batch can be decided at once: nobody waits
 * for the trouble of another partition (U3).
 */
export class HeldUp extends Undecided {
  override readonly name = 'HeldUp';
  /** @param sections at least one, by its place in the batch */
  constructor(readonly sections: ReadonlyMap<number, Blocked>) {
    super('some sections of the batch cannot be decided now');
  }
}

/** The payload cannot be decoded now. */
export class PayloadUnavailable extends Undecided {
  override readonly name = 'PayloadUnavailable';
}

/**
 * Sections cannot be decided in one batch, and nothing shows which of them prevent that. Each of them is
 * decided alone.
 */
export class NotTogether extends Undecided {
  override readonly name = 'NotTogether';
}

/** The reference data has no such webhook connection, or no longer has it. */
export class NoSuchConnection extends Undecided {
  override readonly name = 'NoSuchConnection';
}

/**
 * The operator of a webhook connection is not active. None of its requests is decided, so that they use up no
 * event_id (W6). A retry helps once the operator is active again.
 */
export class OperatorSuspended extends Undecided {
  override readonly name = 'OperatorSuspended';
}

/** The dead-letter topic refuses some letters because of their content; it has stored the others. */
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

/** The dead-letter topic does not accept the letter of this envelope. */
export class DeadLetterRefused extends Undecided {
  override readonly name = 'DeadLetterRefused';
}

/** Kafka does not accept the commit of a rewound offset now. */
export class RewindNotCommitted extends Undecided {
  override readonly name = 'RewindNotCommitted';
}

/** The store has lost decisions that it had made on the Kafka cluster that the group read before. */
export class LostElsewhere extends StoreBehind {
  override readonly name = 'LostElsewhere';
}

export class NoReference extends Undecided {
  override readonly name = 'NoReference';
}

/**
 * Errors that newer reference data may resolve: by any data at all, the connection, or an operator that is
 * active again.
 */
export const MAY_BE_ADDED = [NoReference, NoSuchConnection, OperatorSuspended];

/**
 * The cause that keeps a batch undecided: Postgres, the topics that we publish to, the registry or a limit.
 * The cause `reference` is reference data that is missing or unreadable. The cause `worker` is a defect of
 * this process, even one that Postgres was the first to notice.
 */
export function undecidedCause(
  error: unknown,
): 'store' | 'kafka' | 'registry' | 'limit' | 'reference' | 'worker' {
  if (error instanceof TopicPaused) return 'limit';
  if (error instanceof DeadLetterRefused || error instanceof RewindNotCommitted) return 'kafka';
  if (error instanceof PayloadUnavailable) return 'registry';
  const isReference = [...MAY_BE_ADDED, LostReference, UnreadableReference].some(
    (type) => error instanceof type,
  );
  if (isReference) return 'reference';
  const isStore = [StoreError, StoreBehind, LostRace, StaleReference].some((type) => error instanceof type);
  return isStore && classify(error) !== 'data' ? 'store' : 'worker';
}

/**
 * The offset from which on the store has lost decisions of the partition. Null where the batch is undecided
 * for another reason.
 */
export function lostFrom(error: unknown): number | null {
  return error instanceof StoreBehind ? error.decidedUpTo : null;
}

/** Whether a smaller batch might have been decided: the store or Kafka was too slow or refused it. */
export function mayBeTooLarge(error: unknown): boolean {
  const cause = undecidedCause(error);
  return (cause === 'store' && lostFrom(error) === null) || cause === 'kafka';
}
