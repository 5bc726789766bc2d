/**
 * The core of reconciliation, which the command and the webhook share: the standings of entries of one
 * connection. It reads the feed of that connection, and nothing else.
 */
import { NO_TAGS } from '../domain/event/player-tag';
import type { Connection } from '../domain/reference';
import { makeLookUp } from '../ledger/lookups';
import type { Store } from '../postgres/transaction';
import type { Asked } from './asked';
import { type Standing, standingOf, type Trace } from './standing';

/** The most entries of one look-up. */
export const MAX_ENTRIES_AT_ONCE = 8_000;

export interface Reconciler {
  /** @returns a standing for each entry. @throws StoreError */
  reconcile(
    scope: { readonly connection: Connection; readonly referenceVersion: number },
    entries: readonly Asked[],
  ): Promise<Standing[]>;
}

/** @param nowMs milliseconds since 1970 */
export function makeReconciler(store: Store, nowMs: () => number): Reconciler {
  const lookUp = makeLookUp(store, nowMs);
  return {
    async reconcile({ connection, referenceVersion }, entries) {
      if (entries.length > MAX_ENTRIES_AT_ONCE) throw new RangeError('too many entries for one look-up');
      const eventIds = entries.flatMap(({ eventId }) => eventId ?? []);
      if (eventIds.length === 0) return entries.map((entry) => standingOf(entry, ABSENT, NO_TAGS));
      const { events, tags } = await lookUp({ feedNo: connection.feedNo, eventIds, referenceVersion });
      return entries.map((entry) => {
        const event = entry.eventId === null ? undefined : events.get(entry.eventId);
        return standingOf(entry, event === undefined ? ABSENT : { type: 'decided', ...event }, tags);
      });
    },
  };
}

const ABSENT: Trace = { type: 'absent' };
