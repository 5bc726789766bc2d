/**
 * Step `find` of the deciding transaction. It locks the partitions of the batch, and finds the deliveries
 * that are decided already.
 */
import { ID_KEY, idFinder } from '../../domain/event/id-key';
import type { ReferenceVersion } from '../../domain/reference';
import {
  type Coordinates,
  deliveryKey,
  type FeedIds,
  FeedMap,
  type Item,
  type Known,
  type KnownEvent,
  unstoredKey,
} from '../../domain/verdict/decide';
import { outcomeOfCode } from '../../domain/verdict/reasons';
import type { TopicPartition } from '../../lib/topic-partition';
import { arrays } from '../../postgres/binary-format';
import { unreadable } from '../../postgres/errors';
import type { Session } from '../../postgres/transaction';
import { LOCK_PARTITIONS, LostRace } from '../failures';

/** A partition of one Kafka cluster: offsets of different clusters are unrelated. */
export interface ClusterPartition extends TopicPartition {
  /** The store's name of the cluster: see `readClusterName`. Absent: FIRST_CLUSTER. */
  readonly cluster?: string;
}

/** A partition with its number in the store. */
export interface NumberedPartition extends ClusterPartition {
  readonly no: number;
}

/** The name of a store's first cluster. Older versions write rows for it, too. */
export const FIRST_CLUSTER = '';

/** Version and time of the reference data in force, as one text; null where none was applied. */
const IN_FORCE =
  "(select version || ' ' || extract(epoch from applied_at) from promo_store.reference_versions order by version desc limit 1)";

const REFERENCE_IN_FORCE = { name: 'reference_in_force', text: `select ${IN_FORCE}` };

function readInForce(text: string | null | undefined): ReferenceVersion {
  const [version = '0', appliedAt = ''] = text?.split(' ') ?? [];
  return { version: Number(version), appliedAt };
}

/** The reference data in force; version 0 where none was applied. */
export async function referenceInForce(session: Session): Promise<ReferenceVersion> {
  const [row] = await session.query(REFERENCE_IN_FORCE);
  return readInForce(row?.[0]);
}

const PARTITION_NO = {
  name: 'partition_no',
  text: `with opened as (
  insert into promo_store.partitions (topic, partition, cluster_id)
  -- What is not inserted takes no number of the sequence.
  select $1, $2, $3 where not exists (select from promo_store.partitions where topic = $1 and partition = $2 and cluster_id = $3)
  on conflict do nothing returning partition_no
)
select partition_no from opened union all select partition_no from promo_store.partitions where topic = $1 and partition = $2 and cluster_id = $3`,
};

/** The store's number of a Kafka partition. @throws LostRace where another worker is adding the partition */
export async function partitionNoOf(
  session: Session,
  { topic, partition, cluster = FIRST_CLUSTER }: ClusterPartition,
): Promise<number> {
  const [row] = await session.query(PARTITION_NO, [topic, partition, cluster]);
  if (row === undefined) throw new LostRace('another worker took over the partition');
  return Number(row[0]);
}

/** Locks rows in ascending order, so that two workers that both hold these partitions do not deadlock. */
const LOCK_THESE_PARTITIONS = {
  name: LOCK_PARTITIONS,
  text: `select p.partition_no, p.topic, p.partition, p.cluster_id, p.next_offset, coalesce(p.decided_up_to, p.next_offset), ${IN_FORCE}
from promo_store.partitions p where p.partition_no = any($1) order by p.partition_no for update`,
};

/** The offsets in a partition's row. */
export interface PartitionOffsets {
  /** One past the highest offset ever decided. No record from here on was read before. */
  readonly nextOffset: number;
  /**
   * The current log is decided up to this offset. It is less than `nextOffset` where the topic was created
   * again.
   */
  readonly decidedUpTo: number;
}

/**
 * Locks the rows of partitions. Where two workers both believe that they own a partition, they decide one
 * after the other, and the second finds the decisions of the first. The same statement reads which reference
 * data is in force.
 *
 * @param partitions none for a batch without a partition
 * @returns the offsets of each partition, in the list's order; null where the store has lost the partition's
 *   number, or has assigned it to another one
 */
export async function lockPartitions(
  session: Session,
  partitions: readonly NumberedPartition[],
): Promise<{ locked: (PartitionOffsets | null)[]; inForce: ReferenceVersion }> {
  if (partitions.length === 0) return { locked: [], inForce: await referenceInForce(session) };
  const rows = await session.query(LOCK_THESE_PARTITIONS, [arrays.int4(partitions.map(({ no }) => no))]);
  const locked = partitions.map(({ no, topic, partition, cluster = FIRST_CLUSTER }) => {
    const row = rows.find((each) => Number(each[0]) === no);
    if (row?.[1] !== topic || Number(row[2]) !== partition || row[3] !== cluster) return null;
    return { nextOffset: Number(row[4]), decidedUpTo: Number(row[5]) };
  });
  return { locked, inForce: readInForce(rows[0]?.[6]) };
}

/** The events of one feed, with their keys as the store reads them. */
export interface EventKeys extends FeedIds {
  readonly keys: Buffer;
}

/** The events of a batch, feed by feed. */
export function eventKeysOf(items: readonly Item[]): readonly EventKeys[] {
  return [...idsByFeed(items)].map(([feedNo, ids]) => withKeys({ feedNo, ids }));
}

export function withKeys({ feedNo, ids }: FeedIds): EventKeys {
  return { feedNo, ids, keys: arrays.formatted(ids, ID_KEY) };
}

/** Finds the decided events of the batch. A decided event never changes, so it needs no lock. */
export async function findDecidedEvents(
  session: Session,
  batch: readonly EventKeys[],
): Promise<Known['events']> {
  const decided: Known['events'] = new FeedMap();
  await Promise.all(
    batch.map((events) => findEvents(session, events, (id, event) => decided.set(events.feedNo, id, event))),
  );
  return decided;
}

function idsByFeed(items: readonly Item[]): ReadonlyMap<number, readonly string[]> {
  const idsOf = new Map<number, string[]>();
  for (const item of items) {
    if (item.type !== 'keyed') continue;
    const ids = idsOf.get(item.feedNo);
    if (ids === undefined) idsOf.set(item.feedNo, [item.eventId]);
    else ids.push(item.eventId);
  }
  return idsOf;
}

const FOUND = `select event_key, outcome, content_hash, partition_no, source_offset, verdict_id from promo_store.event_keys where feed_no = $1`;

const FIND_EVENTS = {
  name: 'find_events',
  text: `${FOUND} and event_key = any($2)`,
  // The limit keeps the planner from turning the lookup into a join.
  before17: `select e.* from unnest($2::bytea[]) key cross join lateral (${FOUND} and event_key = key limit 1) e`,
};

/**
 * Passes the decided events of one feed to `found`. A decided key never changes, so it needs no lock. Where
 * another writer decides an event after this statement, `copyKeys` fails with a lost race.
 */
export async function findEvents(
  session: Session,
  { feedNo, ids, keys }: EventKeys,
  found: (eventId: string, event: KnownEvent) => void,
): Promise<void> {
  const rows = await session.query(FIND_EVENTS, [feedNo, keys]);
  const idOf = idFinder(ids);
  for (const [key, code, content, partitionNo, offset, verdictId] of rows) {
    const id = idOf(key ?? '');
    const outcome = outcomeOfCode(Number(code));
    if (id === undefined || outcome === undefined) throw unreadable(FIND_EVENTS.name, `outcome ${code}`);
    found(id, {
      outcome,
      content: BigInt(content ?? 0),
      source: partitionNo == null ? null : { partitionNo: Number(partitionNo), offset: Number(offset) },
      verdictId: Number(verdictId),
    });
  }
}

/** The items of one Kafka partition in a batch: consecutive records, in their order. */
export interface PartitionItems {
  readonly partition: NumberedPartition;
  /** Index of its first item in the batch. */
  readonly from: number;
  /** Index after its last item. */
  readonly to: number;
  /**
   * One past the last record of the partition that its worker has had answered. A store that has decided less
   * has lost records. Absent where this worker does not continue the partition: the decisions then do not
   * show how far the partition is decided.
   */
  readonly expectedUpTo?: number | undefined;
}

/** The items of a batch, and its partitions. */
export interface BatchItems {
  readonly items: readonly Item[];
  readonly parts: readonly PartitionItems[];
}

/** Finds redelivered items without keys of their own. Reads nothing where all records are new. */
export async function findRereadItems(
  session: Session,
  { items, parts }: BatchItems,
  locked: readonly PartitionOffsets[],
): Promise<Omit<Known, 'rounds' | 'events' | 'tags'>> {
  const found = await Promise.all(
    parts.flatMap((part, index) => {
      const { first, last } = sourcesOf(part, items);
      const wasRead =
        first !== undefined && last !== undefined && first.offset < (locked[index]?.nextOffset ?? 0);
      return wasRead ? [findRedelivered(session, first, last)] : [];
    }),
  );
  const [only] = found;
  if (only === undefined) return NOTHING_REDELIVERED;
  if (found.length === 1) return only;
  return {
    answeredAt: new Map(found.flatMap(({ answeredAt }) => [...answeredAt])),
    resends: new Map(found.flatMap(({ resends }) => [...resends])),
    unstored: new Set(found.flatMap(({ unstored }) => [...unstored])),
  };
}

const NOTHING_REDELIVERED = { resends: new Map<string, boolean>(), unstored: new Set<string>() };

export function sourcesOf(
  { from, to }: PartitionItems,
  items: readonly Item[],
): { first: Coordinates | undefined; last: Coordinates | undefined } {
  return { first: items[from]?.source ?? undefined, last: items[to - 1]?.source ?? undefined };
}

const RECEIVED = '(extract(epoch from received_at) * 1000000)::bigint';

const FIND_RESENDS = {
  name: 'find_resends',
  text: `select source_offset, feed_no, event_id, content_differs, ${RECEIVED} from promo_store.resends
where partition_no = $1 and source_offset between $2 and $3`,
};

const FIND_UNSTORED = {
  name: 'find_unstored',
  text: `select source_offset, value_hash, ${RECEIVED} from promo_store.unstored
where partition_no = $1 and source_offset between $2 and $3`,
};

/**
 * Finds the duplicates and unstored records of a range of offsets that were answered before, and when. They
 * exist only where the range was read before.
 */
export async function findRedelivered(
  session: Session,
  first: Coordinates,
  last: Coordinates,
): Promise<{ resends: Map<string, boolean>; unstored: Set<string>; answeredAt: Map<string, bigint> }> {
  const range = [first.partitionNo, first.offset, last.offset];
  const [resendRows, unstoredRows] = await Promise.all([
    session.query(FIND_RESENDS, range),
    session.query(FIND_UNSTORED, range),
  ]);
  const answeredAt = new Map<string, bigint>();
  const resends = new Map<string, boolean>();
  for (const [offset, feedNo, eventId, differs, micros] of resendRows) {
    const source = { partitionNo: first.partitionNo, offset: Number(offset) };
    const key = deliveryKey(Number(feedNo), eventId ?? '', source);
    resends.set(key, differs === 't');
    answeredAt.set(key, BigInt(micros ?? 0));
  }
  const unstored = new Set<string>();
  for (const [offset, valueHash, micros] of unstoredRows) {
    const source = { partitionNo: first.partitionNo, offset: Number(offset) };
    const key = unstoredKey(source, BigInt(valueHash ?? 0));
    unstored.add(key);
    answeredAt.set(key, BigInt(micros ?? 0));
  }
  return { resends, unstored, answeredAt };
}
