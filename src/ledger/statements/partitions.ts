/**
 * Statements on partitions: the lock of a Kafka partition, its decided offset, and the counts of its records.
 */

import type { ReferenceVersion } from '../../domain/reference';
import type { Decision } from '../../domain/verdict/decide';
import type { TopicPartition } from '../../lib/topic-partition';
import { arrays } from '../../postgres/binary-format';
import type { Session } from '../../postgres/transaction';
import { LOCK_PARTITIONS, LostRace, StoreBehind } from '../failures';

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

const CLAIM_CLUSTER = { name: 'claim_cluster', text: 'select promo_store.claim_cluster($1)' };

/**
 * The store's name of a Kafka cluster: FIRST_CLUSTER for the store's first cluster, else its id. Where the
 * store has no cluster yet, this one becomes the first.
 *
 * @param id null where the brokers report none: all clusters then count as one
 */
export async function readClusterName(session: Session, id: string | null): Promise<string> {
  if (id === null) return FIRST_CLUSTER;
  const [row] = await session.query(CLAIM_CLUSTER, [id]);
  return row?.[0] === id ? FIRST_CLUSTER : id;
}

const ENSURE_MONTHS = { name: 'ensure_months', text: 'select promo_store.ensure_months()' };

export async function createMissingMonths(session: Session): Promise<void> {
  await session.query(ENSURE_MONTHS);
}

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

const DECIDED_UP_TO = {
  name: 'decided_up_to',
  text: `select coalesce(p.decided_up_to, p.next_offset, 0) from unnest($1::text[], $2::int[], $3::text[]) with ordinality w (topic, partition, cluster_id, place)
left join promo_store.partitions p using (topic, partition, cluster_id) order by w.place`,
};

/** The offsets up to which partitions are decided, in the list's order; 0 where none is. */
export async function selectDecidedUpTo(
  session: Session,
  list: readonly ClusterPartition[],
): Promise<number[]> {
  const topics = arrays.text(list.map(({ topic }) => topic));
  const rows = await session.query(DECIDED_UP_TO, [
    topics,
    arrays.int4(list.map(({ partition }) => partition)),
    arrays.text(list.map(({ cluster = FIRST_CLUSTER }) => cluster)),
  ]);
  return rows.map(([offset]) => Number(offset));
}

const FIRST_OFFSET = {
  name: 'begin_at',
  text: 'update promo_store.partitions set begins_at = $2 where partition_no = $1',
};

/**
 * Records the first offset that is read of a partition of this cluster. The records before it were decided on
 * another cluster.
 * @throws LostRace
 */
export async function updateFirstOffset(
  session: Session,
  partition: ClusterPartition,
  offset: number,
): Promise<void> {
  await session.query(FIRST_OFFSET, [await partitionNoOf(session, partition), offset]);
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

/** The counts that a batch adds to its partition's row. */
export interface Counts {
  accepted: number;
  rejected: number;
  skipped: number;
  duplicates: number;
  redeliveries: number;
  deadLetters: number;
  withoutKey: number;
}

export function countsOf(decisions: readonly Decision[]): Counts {
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

/** The changes of a decided batch to a partition's row. The batch holds the row's lock. */
export interface Counted extends Counts {
  readonly partitionNo: number;
  /** The partition's offsets after the batch. */
  readonly after: PartitionOffsets;
  readonly records: number;
}

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
