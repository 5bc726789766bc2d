/**
 * Looks decided events up, without any change: for reconciliation. Each look-up is one read-only transaction
 * of bounded statements.
 */
import { NO_TAGS, type PlayerTags } from '../domain/event/player-tag';
import type { Outcome } from '../domain/verdict/reasons';
import { inTransaction, type Store } from '../postgres/transaction';
import { findEvents } from './statements/events';
import { PlayerKeys } from './statements/player-keys';

/** Ids of one statement: it ends within its deadline even where each id is read from a slow disk. */
const IDS_AT_ONCE = 1_000;

const READ_ONLY = { name: 'read_only', text: 'set transaction read only' };

/** A decided event, as the store has it. */
export interface DecidedEvent {
  readonly outcome: Outcome;
  /** See stored-content.ts. */
  readonly content: bigint;
}

export interface DecidedEvents {
  readonly events: ReadonlyMap<string, DecidedEvent>;
  /** They compare the players of the events. */
  readonly tags: PlayerTags;
}

export interface Wanted {
  readonly feedNo: number;
  readonly eventIds: readonly string[];
  /** Of the reference data in force: with other reference data, other keys may have arrived. */
  readonly referenceVersion: number;
}

/** @param nowMs milliseconds since 1970 */
export function makeLookUp(store: Store, nowMs: () => number) {
  const keys = new PlayerKeys();
  return ({ feedNo, eventIds, referenceVersion }: Wanted): Promise<DecidedEvents> =>
    inTransaction(store, async (session) => {
      const ids = [...new Set(eventIds)].sort();
      const events = new Map<string, DecidedEvent>();
      // All statements are sent together, and so take one round trip.
      const [, tags] = await Promise.all([
        session.query(READ_ONLY),
        keys.tagsAt(session, BigInt(nowMs()) * 1000n, referenceVersion),
        ...slices(ids).map((part) =>
          findEvents(session, { feedNo, ids: part }, (id, { outcome, content }) => {
            if (typeof content === 'bigint') events.set(id, { outcome, content });
          }),
        ),
      ]);
      return { events, tags: tags ?? NO_TAGS };
    });
}

function slices(ids: readonly string[]): string[][] {
  const parts: string[][] = [];
  for (let from = 0; from < ids.length; from += IDS_AT_ONCE) parts.push(ids.slice(from, from + IDS_AT_ONCE));
  return parts;
}
