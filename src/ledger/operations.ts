/**
 * The store's side of operations: reads versions and counters, and runs manual operations. Each manual
 * operation is noted in the log of operations.
 */

import { StoreError } from '../postgres/errors';
import { withOwnConnection } from '../postgres/own-connection';
import { END_WITH_CLIENT, type StoreAccess } from '../postgres/pool';
import { BEGIN_SNAPSHOT } from '../postgres/snapshot';
import { BEGIN } from '../postgres/transaction';

/** The deadline of a short read. */
export const READ_TIMEOUT_MS = 10_000;
/**
 * The deadline of a check. It reads everything stored, including all keys: some 30 s for a million events.
 */
export const CHECK_TIMEOUT_MS = 3 * 3_600_000;
const ERASE_TIMEOUT_MS = 60_000;

export interface Requester {
  /** The person who requests the operation, for the log. */
  readonly requestedBy: string;
}

type Query = (text: string, values?: readonly unknown[]) => Promise<unknown[][]>;

export interface TransactionOptions {
  readonly timeoutMs: number;
  readonly requestedBy?: string;
  /** One read-only snapshot, for which a replica is enough. */
  readonly isSnapshot?: boolean;
}

/** Runs statements in a transaction, under their own deadline. @throws StoreError */
export function inStore<T>(
  database: string | StoreAccess,
  { timeoutMs, requestedBy = '', isSnapshot = false }: TransactionOptions,
  work: (query: Query) => Promise<T>,
): Promise<T> {
  const options = { applicationName: 'promo-intake-operations', timeoutMs };
  return withOwnConnection(database, options, async (client) => {
    const query: Query = async (text, values = []) => {
      try {
        const { rows } = await client.query<unknown[]>({ text, values: [...values], rowMode: 'array' });
        return rows;
      } catch (error) {
        throw new StoreError('operations', error);
      }
    };
    await query(`${isSnapshot ? BEGIN_SNAPSHOT : BEGIN.text}; ${END_WITH_CLIENT}`);
    await query(
      `select set_config('promo.requested_by', $1, true), set_config('statement_timeout', $2, true)`,
      [requestedBy, String(timeoutMs)],
    );
    const result = await work(query);
    await query('commit');
    return result;
  });
}

// --- reads

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
  /** The id of its Kafka cluster. Null or absent where no worker has reported it yet. */
  readonly cluster?: string | null;
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
  return clusterId == null
    ? balance
    : balance.filter(({ cluster = null }) => (cluster ?? clusterId) === clusterId);
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

// --- the log

/** Logs the beginning of an operation. @returns its number @throws StoreError */
export async function beginOperation(
  database: string | StoreAccess,
  { requestedBy }: Requester,
  operation: 'replay' | 'dead_letter_replay' | 'reference_rollback',
  request: Readonly<Record<string, unknown>>,
): Promise<number> {
  const [[number] = []] = await inStore(database, { timeoutMs: READ_TIMEOUT_MS, requestedBy }, (query) =>
    query('select promo.begin_operation($1, $2)', [operation, JSON.stringify(request)]),
  );
  return Number(number);
}

/** Logs the end of an operation with its outcome. @throws StoreError */
export async function endOperation(
  database: string | StoreAccess,
  operation: number,
  outcome: Readonly<Record<string, unknown>>,
): Promise<void> {
  await inStore(database, { timeoutMs: READ_TIMEOUT_MS }, (query) =>
    query('select promo.end_operation($1, $2)', [operation, JSON.stringify(outcome)]),
  );
}

// --- erasure

export interface Erased {
  /** The number of the erasure, which replaces the player. */
  readonly erasure: number;
  readonly verdicts: number;
  readonly rounds: number;
  readonly payloads: number;
  /** Open wallet calls that were stopped, and are unresolved. Absent where there are none. */
  readonly walletCalls?: number;
}

/**
 * Replaces a player everywhere, in transactions of `batch` verdicts each. After an interruption, run it again
 * with the same arguments: finished transactions remain.
 *
 * @param progress receives the totals so far
 * @throws StoreError
 */
export async function erasePlayer(
  database: string | StoreAccess,
  { requestedBy }: Requester,
  { operator, player, batch }: { operator: string; player: string; batch: number },
  progress: (erased: Erased) => void,
): Promise<Erased> {
  let sum: Erased = { erasure: 0, verdicts: 0, rounds: 0, payloads: 0 };
  for (;;) {
    const erasureNo = sum.erasure === 0 ? null : sum.erasure;
    const { erased, isDone } = await eraseSome(database, requestedBy, [operator, player, batch, erasureNo]);
    sum = {
      erasure: erased.erasure,
      verdicts: sum.verdicts + erased.verdicts,
      rounds: sum.rounds + erased.rounds,
      payloads: sum.payloads + erased.payloads,
      ...(erased.walletCalls !== undefined && { walletCalls: erased.walletCalls }),
    };
    progress(sum);
    if (isDone) return sum;
  }
}

const ERASE = `select erasure_no::text, verdicts::text, rounds::text, payloads::text, is_done
from promo.erase_player($1, $2, $3, $4)`;
/** All calls of the erasure so far. */
const ERASED_CALLS = `select outcome ->> 'wallet_calls' from promo.operations where operation_no = $1`;

async function eraseSome(
  database: string | StoreAccess,
  requestedBy: string,
  values: readonly unknown[],
): Promise<{ erased: Erased; isDone: boolean }> {
  return inStore(database, { timeoutMs: ERASE_TIMEOUT_MS, requestedBy }, async (query) => {
    const [row = []] = await query(ERASE, values);
    const [[calls = null] = []] = await query(ERASED_CALLS, [row[0]]);
    const [erasure = 0, verdicts = 0, rounds = 0, payloads = 0] = row.slice(0, 4).map(Number);
    const walletCalls = calls === null ? {} : { walletCalls: Number(calls) };
    return { erased: { erasure, verdicts, rounds, payloads, ...walletCalls }, isDone: row[4] === true };
  });
}
