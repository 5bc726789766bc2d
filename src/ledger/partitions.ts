/**
 * Statements on the partitions: who is deciding a Kafka partition, how far it is, and the balance of what became of its records.
 */
import type { Session } from './connection';
import { LostRace } from './failures';
import { unreadable } from './keys';

const ENSURE_MONTHS = { name: 'ensure_months', text: 'select promo_store.ensure_months()' };

export async function ensureMonths(session: Session): Promise<void> {
  await session.query(ENSURE_MONTHS);
}

const REFERENCE_VERSION = {
  name: 'reference_version',
  text: 'select 0, coalesce(max(version), 0) from promo_store.reference_versions',
};

const PARTITION_NO = {
  name: 'partition_no',
  text: `with opened as (
  insert into promo_store.partitions (topic, partition) values ($1, $2) on conflict do nothing returning partition_no
)
select partition_no from opened union all select partition_no from promo_store.partitions where topic = $1 and partition = $2`,
};

/** The number that stands for a Kafka partition. @throws LostRace where another worker takes up the partition at this moment */
export async function partitionNoOf(session: Session, topic: string, partition: number): Promise<number> {
  const [row] = await session.query(PARTITION_NO, [topic, partition]);
  if (row === undefined) throw new LostRace('another worker took up the partition');
  return Number(row[0]);
}

const NEXT_OFFSET = {
  name: 'next_offset',
  text: 'select next_offset from promo_store.partitions where topic = $1 and partition = $2',
};

/** How far a Kafka partition is decided; null where nothing of it is. */
export async function nextOffsetOf(
  session: Session,
  topic: string,
  partition: number,
): Promise<number | null> {
  const [row] = await session.query(NEXT_OFFSET, [topic, partition]);
  return Number(row?.[0] ?? 0) || null;
}

const LOCK_PARTITION = {
  name: 'lock_partition',
  text: `select p.next_offset, coalesce((select max(version) from promo_store.reference_versions), 0)
from promo_store.partitions p where p.partition_no = $1 for update`,
};

/**
 * Locks the partition's row, so that two workers that both believe to own the partition decide one after the other, and the
 * second finds what the first decided. Reads, in the same statement, the version of the reference data in force.
 *
 * @param partitionNo null for a batch of no partition
 */
export async function lockPartition(
  session: Session,
  partitionNo: number | null,
): Promise<{ nextOffset: number; referenceVersion: number }> {
  const [row] =
    partitionNo === null
      ? await session.query(REFERENCE_VERSION)
      : await session.query(LOCK_PARTITION, [partitionNo]);
  if (row === undefined) throw unreadable(LOCK_PARTITION.name, 'no such partition');
  return { nextOffset: Number(row[0]), referenceVersion: Number(row[1]) };
}

/** What a batch adds to its partition's row. */
export interface Counts {
  accepted: number;
  rejected: number;
  skipped: number;
  duplicates: number;
  redeliveries: number;
  deadLetters: number;
  withoutKey: number;
}

const COUNT_PARTITION = {
  name: 'count_partition',
  text: `update promo_store.partitions set next_offset = greatest(next_offset, $2), records_read = records_read + $3, accepted = accepted + $4,
  rejected = rejected + $5, skipped = skipped + $6, duplicates = duplicates + $7, redeliveries = redeliveries + $8,
  dead_letters = dead_letters + $9, without_key = without_key + $10, updated_at = now()
where partition_no = $1`,
};

export async function countPartition(
  session: Session,
  partitionNo: number,
  nextOffset: number,
  records: number,
  counts: Counts,
): Promise<void> {
  const { accepted, rejected, skipped, duplicates, redeliveries, deadLetters, withoutKey } = counts;
  await session.query(COUNT_PARTITION, [
    ...[partitionNo, nextOffset, records, accepted, rejected, skipped, duplicates, redeliveries],
    ...[deadLetters, withoutKey],
  ]);
}
