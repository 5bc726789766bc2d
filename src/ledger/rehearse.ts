/**
 * Rehearses a batch: the decisions that the store would make now, without storing anything (docs/rules.md,
 * W9, W10).
 *
 * The same functions find the decided events, read the rounds and decide. The transaction is read-only, so
 * Postgres itself refuses a write or a row's lock in it. It takes no number of a batch, and no lock that a
 * deciding transaction could wait for.
 */
import { isSameVersion, type ReferenceVersion } from '../domain/reference';
import { type Decision, decide, type Item } from '../domain/verdict/decide';
import { inTransaction, type Store } from '../postgres/transaction';
import { StaleReference } from './failures';
import { eventKeysOf, findDecidedEvents, referenceInForce } from './statements/find';
import { BatchRounds, nowMicros, PlayerKeys, readBatchRounds } from './statements/lock';

export interface RehearsedBatch {
  /** Of one request, in the order in which they would be decided. */
  readonly items: readonly Item[];
  /** The reference data that judged the items. */
  readonly reference: ReferenceVersion;
}

/** @throws StaleReference, StoreError */
export type RehearseBatch = (batch: RehearsedBatch) => Promise<readonly Decision[]>;

const READ_ONLY = { name: 'read_only', text: `select set_config('transaction_read_only', 'on', true)` };

export function makeRehearseBatch(store: Store): RehearseBatch {
  const keys = new PlayerKeys();
  return ({ items, reference }) =>
    inTransaction(store, async (session) => {
      // The rounds come before the events. An event that is decided in between is then a duplicate, as it is
      // for a request that comes now. In the other order it would be new to its own round.
      const [, inForce, rounds, events, micros] = await Promise.all([
        session.query(READ_ONLY),
        referenceInForce(session),
        readBatchRounds(session, new BatchRounds(items).all),
        findDecidedEvents(session, eventKeysOf(items)),
        nowMicros(session),
      ]);
      if (!isSameVersion(inForce, reference))
        throw new StaleReference(`version ${inForce.version} is in force`);
      const tags = await keys.tagsAt(session, micros, inForce.version);
      const known = {
        events,
        rounds,
        tags,
        resends: new Map<string, boolean>(),
        unstored: new Set<string>(),
      };
      return decide(items, known).decisions;
    });
}
