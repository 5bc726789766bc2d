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
const READ_TIMEOUT_MS = 10_000;
/**
 * The deadline of a check. It reads everything stored, including all keys: some 30 s for a million events.
 */
export const CHECK_TIMEOUT_MS = 3 * 3_600_000;
/** The deadline of a drop. Dropped rows are counted first. */
const DROP_TIMEOUT_MS = 30 * 60_000;
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

// --- retention

export interface OldTable {
  readonly name: string;
  readonly rowEstimate: number;
  readonly bytes: number;
}

/** The fold of a rebuild, and why it began. */
export interface Rebuild {
  readonly fold: string;
  readonly reason: string;
}

const rebuildsOf = (rows: readonly unknown[][]): Rebuild[] =>
  rows.map(([fold, reason]) => ({ fold: String(fold), reason: String(reason) }));

/** The rebuilds for which promo.drop_months_before drops nothing. */
const REBUILDS = `select 'promotions', rebuilt_because from promo.promotion_coverage where rebuilt_up_to >= 0
union all select 'rollups', rebuilt_because from promo.rollup_coverage where rebuilt_up_to >= 0`;

/**
 * The first day of the month `keepMonths` before this one, by the store's clock, the tables of all months
 * before it, and the rebuilds that are in the way.
 * @throws StoreError
 */
export async function planRetention(
  database: string | StoreAccess,
  keepMonths: number,
): Promise<{ firstKept: string; tables: OldTable[]; rebuilds: Rebuild[] }> {
  return inStore(database, { timeoutMs: READ_TIMEOUT_MS }, async (query) => {
    const [[first] = []] = await query(
      // Formatted explicitly: a role or a database may have its own DateStyle.
      `select to_char(date_trunc('month', now() at time zone 'utc') - make_interval(months => $1), 'YYYY-MM-DD')`,
      [keepMonths],
    );
    const firstKept = String(first);
    const rows = await query(
      'select name, row_estimate::text, bytes::text from promo.retention_plan($1::date)',
      [firstKept],
    );
    return {
      firstKept,
      tables: rows.map(([name, rowEstimate, bytes]) => ({
        name: String(name),
        rowEstimate: Number(rowEstimate),
        bytes: Number(bytes),
      })),
      rebuilds: rebuildsOf(await query(REBUILDS)),
    };
  });
}

/**
 * Drops the tables of all months before the date. A rebuild that has counted something is in the way: then
 * nothing is dropped, or each such rebuild begins again with the kept months.
 * @throws StoreError
 */
export async function dropMonthsBefore(
  database: string | StoreAccess,
  { requestedBy }: Requester,
  firstKept: string,
  restartsRebuilds = false,
): Promise<{ dropped: string[]; restarted: Rebuild[] }> {
  return inStore(database, { timeoutMs: DROP_TIMEOUT_MS, requestedBy }, async (query) => {
    const restarted = restartsRebuilds
      ? await query('select fold, reason from promo.restart_rebuilds()')
      : [];
    const dropped = await query('select promo.drop_months_before($1::date)', [firstKept]);
    return { dropped: dropped.map(([name]) => String(name)), restarted: rebuildsOf(restarted) };
  });
}

/** The number of pages in one transaction, which locks the rounds in them. */
const FORGET_PAGES = 500;

/**
 * Deletes the unkeyed hashes that lead to players, of events and rounds of dropped months. The next run
 * continues an interrupted one.
 *
 * @returns the numbers of events and rounds
 * @throws StoreError
 */
export async function forgetDroppedPlayers(
  database: string | StoreAccess,
): Promise<{ events: number; rounds: number }> {
  const sum = { events: 0, rounds: 0 };
  for (;;) {
    const [[events, rounds, isDone] = []] = await inStore(database, { timeoutMs: DROP_TIMEOUT_MS }, (query) =>
      query('select events::text, rounds::text, is_done from promo.forget_dropped_players($1)', [
        FORGET_PAGES,
      ]),
    );
    sum.events += Number(events);
    sum.rounds += Number(rounds);
    if (isDone === true) return sum;
  }
}

/**
 * Deletes the attributions of dropped months that credit no kept event.
 *
 * @returns their number
 * @throws StoreError
 */
export async function forgetDroppedAttributions(database: string | StoreAccess): Promise<number> {
  const [[forgotten] = []] = await inStore(database, { timeoutMs: DROP_TIMEOUT_MS }, (query) =>
    query('select promo.forget_dropped_attributions()::text'),
  );
  return Number(forgotten);
}

/** Pages of one transaction, for whose end the next slice of the pseudonyms waits. */
const PSEUDONYM_PAGES = 100;

/**
 * Deletes the pseudonyms of players without a kept event.
 *
 * @returns their number
 * @throws StoreError
 */
export async function forgetDroppedPseudonyms(database: string | StoreAccess): Promise<number> {
  let sum = 0;
  for (let page: unknown = '0'; page !== null; ) {
    const [row] = await inStore(database, { timeoutMs: DROP_TIMEOUT_MS }, (query) =>
      query('select next_page::text, forgotten::text from promo.forget_dropped_pseudonyms($1::bigint, $2)', [
        page,
        PSEUDONYM_PAGES,
      ]),
    );
    sum += Number(row?.[1]);
    page = row?.[0] ?? null;
  }
  return sum;
}

/** The number of calls in one transaction. */
const FORGET_CALLS = 10_000;

/**
 * Deletes wallet calls that were over before the date, and for the given months.
 *
 * @param leastMonths how long wallets keep their answers. Until then, a repeated call has to find its state
 * @returns their number
 * @throws StoreError
 */
export function forgetWalletCalls(
  database: string | StoreAccess,
  firstKept: string,
  leastMonths: number,
): Promise<number> {
  const text = `select promo.forget_wallet_calls(least($1::date at time zone 'utc', now() - make_interval(months => $2)), $3)::text`;
  return untilNone(database, DROP_TIMEOUT_MS, text, [firstKept, leastMonths, FORGET_CALLS]);
}

/** Runs a statement that returns how many rows it deleted, until there are none. @returns their number */
export async function untilNone(
  database: string | StoreAccess,
  timeoutMs: number,
  text: string,
  values: readonly unknown[],
): Promise<number> {
  for (let sum = 0; ; ) {
    const [[gone] = []] = await inStore(database, { timeoutMs }, (query) => query(text, values));
    if (Number(gone) === 0) return sum;
    sum += Number(gone);
  }
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
