/**
 * The core of reconciliation, which the command and the webhook share: the standings of entries of one
 * connection. It reads the feed of that connection, and nothing else.
 */
import { NO_TAGS } from '../domain/event/player-tag';
import type { Connection, Reference } from '../domain/reference';
import { type DecidedEvent, type DecidedEvents, makeLookUp, placeKey } from '../ledger/lookups';
import type { Store } from '../postgres/transaction';
import type { ReconcileEntry } from './entry';
import { type Standing, standingOf, type Trace } from './standing';

/** The most entries of one look-up. */
export const MAX_ENTRIES_AT_ONCE = 8_000;

/** The part of the store that a sender may see. */
export interface Scope {
  readonly connection: Connection;
  readonly referenceVersion: number;
  /** The connections of the same feed. */
  readonly connectionNos: readonly number[];
  /** Whether the topic of the connection belongs to its feed alone: then its dead letters do, too. */
  readonly ownsTopic: boolean;
}

/** @returns undefined where the reference data has no such connection */
export function scopeOf(
  { connections, topics, version }: Reference,
  connectionId: string,
): Scope | undefined {
  const connection = connections.get(connectionId);
  if (connection === undefined) return undefined;
  const { feedNo, topic } = connection;
  const bound = topic === undefined ? [] : (topics.get(topic) ?? []);
  return {
    connection,
    referenceVersion: version,
    connectionNos: [...connections.values()].filter((each) => each.feedNo === feedNo).map(({ no }) => no),
    ownsTopic: bound.every((each) => each.feedNo === feedNo),
  };
}

export interface Reconciler {
  /** @returns a standing for each entry. @throws StoreError */
  reconcile(scope: Scope, entries: readonly ReconcileEntry[]): Promise<Standing[]>;
}

/** @param nowMs milliseconds since 1970 */
export function makeReconciler(store: Store, nowMs: () => number): Reconciler {
  const lookUp = makeLookUp(store, nowMs);
  return {
    async reconcile(scope, entries) {
      if (entries.length > MAX_ENTRIES_AT_ONCE) throw new RangeError('too many entries for one look-up');
      const { connection, connectionNos, referenceVersion } = scope;
      const eventIds = entries.flatMap(({ eventId }) => eventId ?? []);
      const places = entries.flatMap(({ place }) => place ?? []);
      if (eventIds.length + places.length === 0)
        return entries.map((entry) => standingOf(entry, ABSENT, NO_TAGS));
      const wanted = { feedNo: connection.feedNo, eventIds, places, connectionNos, referenceVersion };
      const found = await lookUp(wanted);
      let ids = 0;
      return entries.map((entry) => {
        const event = entry.eventId === null ? undefined : found.events[ids++];
        const trace = event === undefined ? recordTrace(entry, found.records, scope) : decidedTrace(event);
        return standingOf(entry, trace, found.tags);
      });
    },
  };
}

const ABSENT: Trace = { type: 'absent' };

function decidedTrace(event: DecidedEvent): Trace {
  return { type: 'decided', ...event };
}

/** The trace at the place of an entry whose id is missing or unknown. */
function recordTrace(
  { eventId, place }: ReconcileEntry,
  records: DecidedEvents['records'],
  { connection, ownsTopic }: Scope,
): Trace {
  const record = place === null ? undefined : records.get(placeKey(place));
  if (record === undefined || place === null) return ABSENT;
  const isOfTopic = place.topic === connection.topic;
  switch (record.type) {
    case 'duplicate':
      // The record of an unknown id cannot be a duplicate, so the place is another record's.
      return eventId === null ? record : ABSENT;
    case 'dead_letter':
      return record.isClaimed || (ownsTopic && isOfTopic) ? record : ABSENT;
    case 'waiting':
      return isOfTopic ? record : ABSENT;
    case 'without_key':
      return record;
  }
}
