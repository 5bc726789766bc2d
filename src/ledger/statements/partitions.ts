/**
 * The Kafka partitions of a batch: their numbers and locks, their items that were read before, and their
 * counts and offsets after the batch.
 */

import type { ReferenceVersion } from '../../domain/reference';
import type { Coordinates, Decision, Item, Known } from '../../domain/verdict/decide';
import type { TopicPartition } from '../../lib/topic-partition';
import { arrays } from '../../postgres/binary-format';
import type { Session } from '../../postgres/transaction';
import { LOCK_PARTITIONS, LostRace, StoreBehind } from '../failures';
import { findRedelivered } from './events';

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
 * @returns the offsets of each partition, in the list's order
 * @throws StoreBehind where the store has lost a partition's number, or has assigned it to another one
 */
export async function lockPartitions(
  session: Session,
  partitions: readonly NumberedPartition[],
): Promise<{ locked: PartitionOffsets[]; inForce: ReferenceVersion }> {
  if (partitions.length === 0) return { locked: [], inForce: await referenceInForce(session) };
  const rows = await session.query(LOCK_THESE_PARTITIONS, [arrays.int4(partitions.map(({ no }) => no))]);
  const locked = partitions.map(({ no, topic, partition, cluster = FIRST_CLUSTER }) => {
    const row = rows.find((each) => Number(each[0]) === no);
    if (row?.[1] !== topic || Number(row[2]) !== partition || row[3] !== cluster) throw new StoreBehind(0);
    return { nextOffset: Number(row[4]), decidedUpTo: Number(row[5]) };
  });
  return { locked, inForce: readInForce(rows[0]?.[6]) };
}

/** The items of one Kafka partition in a batch: consecutive records, in their order. */
export interface LedgerPart {
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
interface Parts {
  readonly items: readonly Item[];
  readonly parts: readonly LedgerPart[];
}

/** Finds redelivered items without keys of their own. Reads nothing where all records are new. */
export async function findRereadItems(
  session: Session,
  { items, parts }: Parts,
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

function sourcesOf(
  { from, to }: LedgerPart,
  items: readonly Item[],
): { first: Coordinates | undefined; last: Coordinates | undefined } {
  return { first: items[from]?.source ?? undefined, last: items[to - 1]?.source ?? undefined };
}

/** The counts that a batch adds to its partition's row. */
interface Counts {
  accepted: number;
  rejected: number;
  skipped: number;
  duplicates: number;
  redeliveries: number;
  deadLetters: number;
  withoutKey: number;
}

/** The changes of a decided batch to a partition's row. The batch holds the row's lock. */
export interface Counted extends Counts {
  readonly partitionNo: number;
  /** The partition's offsets after the batch. */
  readonly after: PartitionOffsets;
  readonly records: number;
}

/** The batch's changes to the rows of its partitions. */
export function countedOf(
  { items, parts }: Parts,
  decisions: readonly Decision[],
  locked: readonly PartitionOffsets[],
): Counted[] {
  return parts.flatMap((part, index) => {
    const before = locked[index];
    if (before === undefined || part.from === part.to) return [];
    const ofPart = decisions.slice(part.from, part.to);
    return [
      {
        partitionNo: part.partition.no,
        after: offsetsAfter(part, items, ofPart, before),
        records: ofPart.length,
        ...countsOf(ofPart),
      },
    ];
  });
}

/**
 * A partition's offsets after the batch. `nextOffset` only grows. New decisions set `decidedUpTo` to the
 * part's end, even to a lower offset: the topic was then deleted and created again. A part that is only
 * answered again can only raise it. So can a replay, unless it leaves a gap in front.
 */
function offsetsAfter(
  part: LedgerPart,
  items: readonly Item[],
  decisions: readonly Decision[],
  locked: PartitionOffsets,
): PartitionOffsets {
  const { first, last } = sourcesOf(part, items);
  const end = (last?.offset ?? -1) + 1;
  const nextOffset = Math.max(locked.nextOffset, end);
  const isReplay = part.expectedUpTo === undefined;
  if (!isReplay && decisions.some(({ redelivered }) => !redelivered)) return { nextOffset, decidedUpTo: end };
  if (isReplay && (first?.offset ?? 0) > locked.decidedUpTo)
    return { nextOffset, decidedUpTo: locked.decidedUpTo };
  return { nextOffset, decidedUpTo: Math.max(locked.decidedUpTo, end) };
}

function countsOf(decisions: readonly Decision[]): Counts {
  const counts = {
    accepted: 0,
    rejected: 0,
    skipped: 0,
    duplicates: 0,
    redeliveries: 0,
    deadLetters: 0,
    withoutKey: 0,
  };
  for (const decision of decisions) {
    if (decision.redelivered) counts.redeliveries++;
    else if (decision.type === 'duplicate') counts.duplicates++;
    else if (decision.type === 'decided') counts[decision.outcome.verdict]++;
    else if (decision.deadLetter !== null) counts.deadLetters++;
    else counts.withoutKey++;
  }
  return counts;
}

/** The columns of a partition's row that a batch adds to, in the order of the statement's arrays. */
const COUNTED = [
  ['records_read', 'records'],
  ['accepted', 'accepted'],
  ['rejected', 'rejected'],
  ['skipped', 'skipped'],
  ['duplicates', 'duplicates'],
  ['redeliveries', 'redeliveries'],
  ['dead_letters', 'deadLetters'],
  ['without_key', 'withoutKey'],
] as const;

const COUNT_PARTITIONS = {
  name: 'count_partitions',
  text: `update promo_store.partitions p set next_offset = c.next_offset, decided_up_to = nullif(c.decided_up_to, c.next_offset),
  ${COUNTED.map(([column]) => `${column} = p.${column} + c.${column}`).join(', ')}, updated_at = now()
from unnest($1::int[], $2::bigint[], $3::bigint[], ${COUNTED.map((_, index) => `$${index + 4}::bigint[]`).join(', ')})
  c (partition_no, next_offset, decided_up_to, ${COUNTED.map(([column]) => column).join(', ')})
-- The first condition has the index asked for these rows alone, however many partitions there are.
where p.partition_no = any($1) and p.partition_no = c.partition_no`,
};

/** @param counted one element for each partition of the batch */
export async function countPartitions(session: Session, counted: readonly Counted[]): Promise<void> {
  if (counted.length === 0) return;
  const numbers = (of: (each: Counted) => number) => arrays.int8(counted.map(of));
  await session.query(COUNT_PARTITIONS, [
    arrays.int4(counted.map(({ partitionNo }) => partitionNo)),
    numbers(({ after }) => after.nextOffset),
    numbers(({ after }) => after.decidedUpTo),
    ...COUNTED.map(([, field]) => numbers((each) => each[field])),
  ]);
}
