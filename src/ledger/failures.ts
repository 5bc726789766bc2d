/**
 * What an error means for the batch that met it (docs/rules.md, U4, V9).
 */
import { StoreError } from '../postgres/errors';

/** No verdict now, for a reason that is not an error of the store: nothing was stored, the events are to be offered again (U1). */
export class Undecided extends Error {
  override readonly name: string = 'Undecided';
}

/** Another writer decided one of the batch's events, or opened one of its rounds, meanwhile. */
export class LostRace extends Error {
  override readonly name = 'LostRace';
}

/**
 * The store knows less than it has answered for: it was restored, or a standby took over that had not received everything. What it has lost has to
 * be decided again, before anything behind it.
 */
export class StoreBehind extends Undecided {
  override readonly name = 'StoreBehind';
  /** @param decidedUpTo the offset before which it still knows the partition to be decided */
  constructor(readonly decidedUpTo: number) {
    super(`the store has lost what it had decided from offset ${decidedUpTo} on`);
  }
}

/** The reference data in force is not what this version can read: a newer one wrote it. No event is at fault. */
export class UnreadableReference extends Undecided {
  override readonly name = 'UnreadableReference';
}

/** The store has lost the reference data that judged what came before: by what was in force before it, events would be rejected for good. */
export class LostReference extends Undecided {
  override readonly name = 'LostReference';
}

/** The reference data that judged the batch is no longer in force. */
export class StaleReference extends Error {
  override readonly name = 'StaleReference';
}

/**
 * - again: decide the same events again at once, they met other writers;
 * - undecided: the store cannot decide now, whatever the events are; wait and retry;
 * - data: it is something in the batch; find the event.
 */
export type FailureClass = 'again' | 'undecided' | 'data';

/** The SQLSTATE of a wait for a lock that took too long. */
export const LOCK_TIMEOUT_STATE = '55P03';
/** The SQLSTATE of a transaction that was ended since it and another one waited for each other's locks. */
export const DEADLOCK_STATE = '40P01';

/** SQLSTATE, or its first two characters, and what it means. https://www.postgresql.org/docs/current/errcodes-appendix.html */
const CLASSES: Readonly<Record<string, FailureClass>> = {
  '40001': 'again', // serialization failure
  [DEADLOCK_STATE]: 'again',
  '21': 'data', // cardinality violation
  '22': 'data', // data exception
  '23': 'data', // integrity constraint violation
  '22P03': 'undecided', // incorrect binary data: a column has another type than this version knows
  '22P04': 'undecided', // bad COPY format: the same
  '22P05': 'undecided', // untranslatable character: the database's encoding has not all characters
  '23505': 'undecided', // unique violation of what the store has numbered itself: its sequences are behind its rows
  '23502': 'undecided', // not null violation: a column that this version does not write
  '23514': 'undecided', // check violation: also "no partition found for row", which a new month's partition mends
  '44': 'data', // check option violation
  '54': 'data', // program limit exceeded: a value too large for its row or index
  P0001: 'data', // raised by a trigger
};

/** The statement with which a contended batch waits for its feeds (rounds.ts). A lock timeout there means a long queue: the batch is tried again. */
export const LOCK_FEEDS = 'lock_feeds';

/** The statement with which a batch waits for the one of its partition that has not ended (partitions.ts). */
export const LOCK_PARTITION = 'lock_partition';

/** Statements on the partition's own row, which hold nothing of an event: whatever fails there is the store's, such as transaction ids that run out. */
const OF_PARTITION = new Set([LOCK_PARTITION, 'count_partition']);

const KEY_CONSTRAINTS = new Set(['event_keys_pkey', 'rounds_pkey']);

/**
 * Anything the store says that is not listed is undecided: waiting loses nothing, a wrong panic uses up an id.
 * What is no error of the store is a defect of our own, met by some event of the batch.
 */
export function classify(error: unknown): FailureClass {
  if (error instanceof LostRace) return 'again';
  if (error instanceof Undecided || error instanceof StaleReference) return 'undecided';
  if (!(error instanceof StoreError)) return 'data';
  const { sqlState } = error;
  if (sqlState === undefined) return 'undecided';
  if (sqlState === LOCK_TIMEOUT_STATE && error.statement === LOCK_FEEDS) return 'again';
  if (sqlState === '23505' && error.constraint !== undefined && KEY_CONSTRAINTS.has(error.constraint))
    return 'again';
  const means = CLASSES[sqlState] ?? CLASSES[sqlState.slice(0, 2)] ?? 'undecided';
  return means === 'data' && OF_PARTITION.has(error.statement) ? 'undecided' : means;
}

/** Whether another batch of the same partition was at it for longer than this one may wait. */
export function isHeldByPartition(error: unknown): boolean {
  return (
    error instanceof StoreError && error.statement === LOCK_PARTITION && error.sqlState === LOCK_TIMEOUT_STATE
  );
}
