/** The classes of errors: they decide how a failed batch is retried (docs/rules.md, U4, V9). */
import { StoreError } from '../postgres/errors';

/**
 * No verdict now, for a reason that is not an error of the store. Nothing was stored, and the events must be
 * delivered again (U1).
 */
export class Undecided extends Error {
  override readonly name: string = 'Undecided';
}

/** Another writer meanwhile decided one of the batch's events, or opened one of its rounds. */
export class LostRace extends Error {
  override readonly name = 'LostRace';
}

/**
 * The store has lost decisions: it was restored, or a standby took over that had not received everything. The
 * lost records must be decided again before any record behind them.
 */
export class StoreBehind extends Undecided {
  override readonly name: string = 'StoreBehind';
  /** @param decidedUpTo the store still has the decisions of the partition before this offset */
  constructor(readonly decidedUpTo: number) {
    super(`the store has lost decided events from offset ${decidedUpTo} on`);
  }
}

/**
 * The store has lost decisions of some partitions of a batch. It names all of them at once: a restored store
 * is behind in many, and the rest of the batch is judged again once.
 */
export class PartsBehind extends Undecided {
  override readonly name = 'PartsBehind';
  /** @param parts by the place of the partition in its batch; at least one */
  constructor(readonly parts: ReadonlyMap<number, StoreBehind>) {
    super(`the store has lost decided events of ${parts.size} partitions of the batch`);
  }
}

/** This version cannot read the reference data in force: a newer version wrote it. No event is at fault. */
export class UnreadableReference extends Undecided {
  override readonly name = 'UnreadableReference';
}

/**
 * The store has lost the reference data that judged earlier batches. The older data in force would reject
 * events for good.
 */
export class LostReference extends Undecided {
  override readonly name = 'LostReference';
}

/** The reference data that judged the batch is no longer in force. */
export class StaleReference extends Error {
  override readonly name = 'StaleReference';
}

/**
 * The consequence of an error for its batch:
 * - again: decide the same events again immediately, since they collided with other writers;
 * - undecided: the store cannot decide any events now; wait and retry;
 * - data: an event in the batch causes the error; find the event.
 */
export type FailureClass = 'again' | 'undecided' | 'data';

/** The SQLSTATE of a wait for a lock that took too long. */
export const LOCK_TIMEOUT_STATE = '55P03';
/** The SQLSTATE of a transaction that was ended to resolve a deadlock. */
export const DEADLOCK_STATE = '40P01';

/**
 * The class of each SQLSTATE, or of its first two characters.
 * https://www.postgresql.org/docs/current/errcodes-appendix.html
 */
const CLASSES: Readonly<Record<string, FailureClass>> = {
  '40001': 'again', // serialization failure
  [DEADLOCK_STATE]: 'again',
  '21': 'data', // cardinality violation
  '22': 'data', // data exception
  '23': 'data', // integrity constraint violation
  '22P03': 'undecided', // incorrect binary data: a column has another type than this version knows
  '22P04': 'undecided', // bad COPY format: the same
  '22P05': 'undecided', // untranslatable character: the database's encoding lacks some characters
  '23505': 'undecided', // unique violation of a number from the store: a sequence is behind its rows
  '23502': 'undecided', // not null violation: a column that this version does not write
  '23514': 'undecided', // check violation: also "no partition found for row", which a new month's partition resolves
  '44': 'data', // check option violation
  '54': 'data', // program limit exceeded: a value too large for its row or index
  P0001: 'data', // raised by a trigger
};

/**
 * The statement in which a contended batch waits for its feeds (rounds.ts). A lock timeout there means a long
 * queue: the batch is retried immediately.
 */
export const LOCK_FEEDS = 'lock_feeds';

/** The statement in which a batch waits for earlier batches of its partitions (partitions.ts). */
export const LOCK_PARTITIONS = 'lock_partitions';

/**
 * Statements on the partitions' own rows. They contain no data of an event, so every failure is the store's,
 * such as exhausted transaction ids.
 */
const OF_PARTITIONS = new Set([LOCK_PARTITIONS, 'count_partitions']);

const KEY_CONSTRAINTS = new Set(['event_keys_pkey', 'rounds_pkey']);

/**
 * Classifies an error. An unlisted error of the store is undecided: waiting loses nothing, while a wrong
 * panic uses up an id. Any other error is a defect of our own, which some event of the batch triggers.
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
  const failureClass = CLASSES[sqlState] ?? CLASSES[sqlState.slice(0, 2)] ?? 'undecided';
  return failureClass === 'data' && OF_PARTITIONS.has(error.statement) ? 'undecided' : failureClass;
}

/**
 * Whether the store does not answer, or refuses every transaction for now. No other batch would be decided.
 * https://www.postgresql.org/docs/current/errcodes-appendix.html
 */
export function isStoreAway(error: unknown): boolean {
  if (!(error instanceof StoreError)) return false;
  const { sqlState } = error;
  return (
    sqlState === undefined ||
    sqlState === READ_ONLY_STATE ||
    AWAY_CLASSES.has(sqlState.slice(0, 2)) ||
    sqlState.startsWith('57P')
  );
}

/** The SQLSTATE of a write to a store that is read-only, such as a standby. */
const READ_ONLY_STATE = '25006';
/** Connection exceptions and insufficient resources, such as a full disk. */
const AWAY_CLASSES = new Set(['08', '53']);
