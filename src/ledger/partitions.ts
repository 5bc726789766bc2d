/**
 * Statements on the partitions: who is deciding a Kafka partition, how far it is, and the balance of what became of its records.
 */
import { arrays } from './binary';
import type { Session } from './connection';
import { LostRace, StoreBehind } from './failures';

/** A Kafka partition. */
export interface Source {
  readonly topic: string;
  readonly partition: number;
}

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
export async function partitionNoOf(session: Session, { topic, partition }: Source): Promise<number> {
  const [row] = await session.query(PARTITION_NO, [topic, partition]);
  if (row === undefined) throw new LostRace('another worker took up the partition');
  return Number(row[0]);
}

const NEXT_OFFSETS = {
  name: 'next_offsets',
  text: `select coalesce(p.next_offset, 0) from unnest($1::text[], $2::int[]) with ordinality w (topic, partition, place)
left join promo_store.partitions p using (topic, partition) order by w.place`,
};

/** How far Kafka partitions are decided, in the order of the list; 0 where nothing is. */
export async function nextOffsetsOf(session: Session, list: readonly Source[]): Promise<number[]> {
  const topics = arrays.text(list.map(({ topic }) => topic));
  const rows = await session.query(NEXT_OFFSETS, [
    topics,
    arrays.int4(list.map(({ partition }) => partition)),
  ]);
  return rows.map(([offset]) => Number(offset));
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
 * @throws StoreBehind where the store has lost the partition's number
 */
export async function lockPartition(
  session: Session,
  partitionNo: number | null,
): Promise<{ nextOffset: number; referenceVersion: number }> {
  const [row] =
    partitionNo === null
      ? await session.query(REFERENCE_VERSION)
      : await session.query(LOCK_PARTITION, [partitionNo]);
  if (row === undefined) throw new StoreBehind(0);
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

/** What a decided batch leaves in its partition's row. */
export interface Counted {
  readonly partitionNo: number;
  /** So far the partition is decided. */
  readonly nextOffset: number;
  readonly records: number;
  readonly counts: Counts;
}

export async function countPartition(
  session: Session,
  { partitionNo, nextOffset, records, counts }: Counted,
): Promise<void> {
  const { accepted, rejected, skipped, duplicates, redeliveries, deadLetters, withoutKey } = counts;
  await session.query(COUNT_PARTITION, [
    ...[partitionNo, nextOffset, records, accepted, rejected, skipped, duplicates, redeliveries],
    ...[deadLetters, withoutKey],
  ]);
}
