/**
 * Looks decided events up, without any change: for reconciliation. Each look-up is one read-only transaction
 * of bounded statements.
 */

import { ID_KEY } from '../domain/event/id-key';
import { NO_TAGS, type PlayerTags } from '../domain/event/player-tag';
import type { FeedIds } from '../domain/verdict/decide';
import {
  DEAD_LETTER_REASONS,
  type DeadLetterReason,
  type Outcome,
  outcomeOfCode,
} from '../domain/verdict/reasons';
import { arrays } from '../postgres/binary-format';
import { unreadable } from '../postgres/errors';
import { inTransaction, type Session, type Store } from '../postgres/transaction';
import { PlayerKeys } from './statements/lock';

/** Ids of one statement: it ends within its deadline even where each id is read from a slow disk. */
const IDS_AT_ONCE = 1_000;

const READ_ONLY = { name: 'read_only', text: 'set transaction read only' };

/** A decided event, as the store has it. */
export interface DecidedEvent {
  readonly outcome: Outcome;
  /** See content-hash.ts. */
  readonly content: bigint;
}

export interface DecidedEvents {
  /** In the order of the wanted ids. Undefined where no event of the id is decided. */
  readonly events: readonly (DecidedEvent | undefined)[];
  /** The traces of records without an event of their own, by `placeKey`. */
  readonly records: ReadonlyMap<string, RecordTrace>;
  /** They compare the players of the events. */
  readonly tags: PlayerTags;
}

export interface Wanted {
  readonly feedNo: number;
  readonly eventIds: readonly string[];
  readonly places: readonly KafkaPlace[];
  /** The connections of the feed: a record of another one is not shown. */
  readonly connectionNos: readonly number[];
  /** Of the reference data in force: with other reference data, other keys may have arrived. */
  readonly referenceVersion: number;
}

/** @param nowMs milliseconds since 1970 */
export function makeLookUp(store: Store, nowMs: () => number) {
  const keys = new PlayerKeys();
  return ({ feedNo, eventIds, places, connectionNos, referenceVersion }: Wanted): Promise<DecidedEvents> =>
    inTransaction(store, async (session) => {
      const events: (DecidedEvent | undefined)[] = new Array(eventIds.length).fill(undefined);
      const records = new Map<string, RecordTrace>();
      // All statements are sent together, and so take one round trip.
      const [, tags] = await Promise.all([
        session.query(READ_ONLY),
        keys.tagsAt(session, BigInt(nowMs()) * 1000n, referenceVersion),
        ...slices(places).map((part) =>
          findRecords(session, { feedNo, connectionNos, places: part }, records),
        ),
        ...slices(eventIds).map((ids, index) =>
          findDecided(session, { feedNo, ids }, (no, event) => {
            events[index * IDS_AT_ONCE + no] = event;
          }),
        ),
      ]);
      return { events, records, tags: tags ?? NO_TAGS };
    });
}

function slices<T>(all: readonly T[]): T[][] {
  const parts: T[][] = [];
  for (let from = 0; from < all.length; from += IDS_AT_ONCE) parts.push(all.slice(from, from + IDS_AT_ONCE));
  return parts;
}

/** The limit keeps the planner from turning the look-up into a join, which would read the whole table. */
const FIND_DECIDED = {
  name: 'find_decided',
  text: `select w.no, e.outcome, e.content_hash from unnest($2::bytea[]) with ordinality w (event_key, no)
cross join lateral (select outcome, content_hash from promo_store.event_keys where feed_no = $1 and event_key = w.event_key limit 1) e`,
};

/** Passes each decided event of these ids to `found`, with the place of its id. */
async function findDecided(
  session: Session,
  { feedNo, ids }: FeedIds,
  found: (no: number, event: DecidedEvent) => void,
): Promise<void> {
  const rows = await session.query(FIND_DECIDED, [feedNo, arrays.formatted(ids, ID_KEY)]);
  for (const [no, code, content] of rows) {
    const outcome = outcomeOfCode(Number(code));
    if (outcome === undefined) throw unreadable(FIND_DECIDED.name, `outcome ${code}`);
    found(Number(no) - 1, { outcome, content: BigInt(content ?? 0) });
  }
}

/** The place of a record. */
export interface KafkaPlace {
  readonly topic: string;
  readonly partition: number;
  readonly offset: number;
}

export function placeKey({ topic, partition, offset }: KafkaPlace): string {
  return `${partition} ${offset} ${topic}`;
}

/** The trace of a record that has no verdict of its own. */
export type RecordTrace =
  | { readonly type: 'without_key' }
  | { readonly type: 'dead_letter'; readonly reason: DeadLetterReason; readonly isClaimed: boolean }
  /** A duplicate of this event. */
  | {
      readonly type: 'duplicate';
      readonly eventId: string;
      readonly first: Outcome;
      readonly differs: boolean;
    }
  /** No worker has decided the record yet. */
  | { readonly type: 'waiting' };

/**
 * Each limit keeps the planner from turning the look-up into a join, which would read whole tables. A record
 * waits only in the cluster that was read last: nobody reads a cluster that was left.
 */
const FIND_RECORDS = {
  name: 'find_records',
  text: `select w.no, p.is_last and w.source_offset >= coalesce(p.decided_up_to, p.next_offset, 0), u.found, u.dead_letter, u.connection_no, r.event_id,
  r.first_outcome, r.content_differs
from unnest($1::text[], $2::int[], $3::bigint[]) with ordinality w (topic, partition, source_offset, no)
cross join lateral (select partition_no, decided_up_to, next_offset, updated_at = max(updated_at) over () as is_last from promo_store.partitions
  where topic = w.topic and partition = w.partition limit 100) p
left join lateral (select true as found, dead_letter, connection_no from promo_store.unstored
  where partition_no = p.partition_no and source_offset = w.source_offset and (connection_no is null or connection_no = any($5)) limit 1) u on true
left join lateral (select event_id, first_outcome, content_differs from promo_store.resends
  where partition_no = p.partition_no and source_offset = w.source_offset and feed_no = $4 limit 1) r on true`,
};

/** Adds the traces of the records at these places, in any Kafka cluster that the store knows. */
async function findRecords(
  session: Session,
  { feedNo, connectionNos, places }: Pick<Wanted, 'feedNo' | 'connectionNos' | 'places'>,
  records: Map<string, RecordTrace>,
): Promise<void> {
  const rows = await session.query(FIND_RECORDS, [
    arrays.text(places.map(({ topic }) => topic)),
    arrays.int4(places.map(({ partition }) => partition)),
    arrays.int8(places.map(({ offset }) => offset)),
    feedNo,
    arrays.int4(connectionNos),
  ]);
  for (const [no, isWaiting, isUnstored, deadLetter, connectionNo, eventId, outcome, differs] of rows) {
    const place = places[Number(no) - 1];
    if (place === undefined) throw unreadable(FIND_RECORDS.name, `place ${no}`);
    const key = placeKey(place);
    if (eventId != null) {
      const first = outcomeOfCode(Number(outcome));
      if (first === undefined) throw unreadable(FIND_RECORDS.name, `outcome ${outcome}`);
      records.set(key, { type: 'duplicate', eventId, first, differs: differs === 't' });
    } else if (isUnstored != null && deadLetter == null) records.set(key, { type: 'without_key' });
    else if (isUnstored != null) {
      const reason = DEAD_LETTER_REASONS.find(({ code }) => code === Number(deadLetter))?.name;
      if (reason === undefined) throw unreadable(FIND_RECORDS.name, `dead letter ${deadLetter}`);
      records.set(key, { type: 'dead_letter', reason, isClaimed: connectionNo != null });
    } else if (isWaiting === 't' && !records.has(key)) records.set(key, { type: 'waiting' });
  }
}
