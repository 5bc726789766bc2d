/** The state of the store as `status` and `replay` read it: versions, counters of partitions, damages. */
import type { StoreAccess } from '../postgres/pool';
import { CHECK_TIMEOUT_MS, inStore, READ_TIMEOUT_MS } from './in-store';

export interface StoredVersions {
  /** Names of the applied migrations, in order. */
  readonly migrations: readonly string[];
  /** 0 where none was ever applied. */
  readonly referenceVersion: number;
  /** In UTC, such as 2026-11-22T10:00:00Z. */
  readonly referenceAppliedAt: string | null;
  /** Topics that its connections name. */
  readonly topics: readonly string[];
}

export interface PartitionBalance {
  /** The id of its Kafka cluster. Null where no worker has reported it yet. */
  readonly cluster: string | null;
  readonly topic: string;
  readonly partition: number;
  /** One past the last decided offset of the current log. */
  readonly decidedUpTo: number;
  readonly recordsRead: number;
  /**
   * The number of results of these records. It equals `recordsRead`, unless the counters are damaged (D3).
   */
  readonly became: number;
  readonly deadLetters: number;
  /** Seconds since its last batch was decided. */
  readonly idleSeconds: number;
}

const MIGRATIONS = `select coalesce(array_agg(name order by name), '{}') from promo.migrations`;
/** The time in UTC, in a fixed format, independent of the server's settings. */
const REFERENCE = `select version, to_char(applied_at at time zone 'utc', 'YYYY-MM-DD"T"HH24:MI:SS"Z"'), topics
from promo.reference_versions order by version desc limit 1`;

/** @throws StoreError */
export async function readVersions(database: string | StoreAccess): Promise<StoredVersions> {
  return inStore(database, { timeoutMs: READ_TIMEOUT_MS }, async (query) => {
    const [[names] = []] = await query(MIGRATIONS);
    const [[version, appliedAt, topics] = []] = await query(REFERENCE);
    return {
      migrations: texts(names),
      referenceVersion: Number(version ?? 0),
      referenceAppliedAt: appliedAt === undefined ? null : String(appliedAt),
      topics: texts(topics),
    };
  });
}

const BALANCE = `select topic, partition, decided_up_to::text, records_read::text,
  (verdicts + duplicate_deliveries + redeliveries + dead_letters + events_without_key)::text, dead_letters::text,
  greatest(extract(epoch from clock_timestamp() - updated_at), 0)::float8, kafka_cluster
from promo.partitions order by topic, partition`;

/** @param clusterId limits the result to this Kafka cluster; absent: all clusters @throws StoreError */
export async function readBalance(
  database: string | StoreAccess,
  clusterId?: string | null,
): Promise<readonly PartitionBalance[]> {
  const rows = await inStore(database, { timeoutMs: READ_TIMEOUT_MS }, (query) => query(BALANCE));
  const balance = rows.map(
    ([topic, partition, decidedUpTo, recordsRead, became, deadLetters, idleSeconds, cluster]) => ({
      topic: String(topic),
      partition: Number(partition),
      decidedUpTo: Number(decidedUpTo),
      recordsRead: Number(recordsRead),
      became: Number(became),
      deadLetters: Number(deadLetters),
      idleSeconds: Number(idleSeconds),
      cluster: cluster === null ? null : String(cluster),
    }),
  );
  return onCluster(balance, clusterId);
}

/** Offsets of different clusters cannot be compared. Without an id, all partitions are returned. */
export function onCluster(
  balance: readonly PartitionBalance[],
  clusterId: string | null | undefined,
): readonly PartitionBalance[] {
  return clusterId == null ? balance : balance.filter(({ cluster }) => (cluster ?? clusterId) === clusterId);
}

/** The number of damages that promo.check_invariants() finds. Reads everything stored. @throws StoreError */
export async function countDamages(database: string | StoreAccess): Promise<number> {
  const [[count] = []] = await inStore(database, { timeoutMs: CHECK_TIMEOUT_MS }, (query) =>
    query('select count(*)::int from promo.check_invariants()'),
  );
  return Number(count);
}

function texts(value: unknown): string[] {
  return Array.isArray(value) ? value.map(String) : [];
}
