/**
 * Statements on the partitions: who is deciding a Kafka partition, how far it is, and the balance of what became of its records.
 */
import type { Row, Session, Statement } from './connection';
import { LostRace } from './failures';
import { unreadable } from './keys';
import type { Write } from './writing';

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

/**
 * Locks the partition's row, so that two workers that both believe to own the partition decide one after the other, and the
 * second finds what the first decided. Reads, in the same statement, the version of the reference data in force.
 *
 * @param partitionNo null for a batch of no partition
 */
export function lockPartition(partitionNo: number | null): Statement {
  if (partitionNo === null) return REFERENCE_VERSION;
  return {
    name: 'lock_partition',
    text: `select p.next_offset, coalesce((select max(version) from promo_store.reference_versions), 0)
from promo_store.partitions p where p.partition_no = ${integer(partitionNo)} for update`,
  };
}

export function readLocked([row]: readonly Row[]): { nextOffset: number; referenceVersion: number } {
  if (row === undefined) throw unreadable('lock_partition', 'no such partition');
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

export function countPartition(
  partitionNo: number,
  nextOffset: number,
  records: number,
  counts: Counts,
): Write {
  const more = (column: string, count: number) => `${column} = ${column} + ${integer(count)}`;
  return {
    name: 'count_partition',
    text: `update promo_store.partitions set next_offset = greatest(next_offset, ${integer(nextOffset)}),
  ${more('records_read', records)}, ${more('accepted', counts.accepted)}, ${more('rejected', counts.rejected)},
  ${more('skipped', counts.skipped)}, ${more('duplicates', counts.duplicates)}, ${more('redeliveries', counts.redeliveries)},
  ${more('dead_letters', counts.deadLetters)}, ${more('without_key', counts.withoutKey)}, updated_at = now()
where partition_no = ${integer(partitionNo)}`,
  };
}

/** A number as it stands in a statement. @throws RangeError where it is no integer that is exact */
function integer(value: number): string {
  if (!Number.isSafeInteger(value)) throw new RangeError(`${value} is no integer`);
  return String(value);
}
