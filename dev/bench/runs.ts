/** One run of the worker over waiting records, and the time and CPU of the run. */
import type { Client } from 'pg';
import type { Child } from '../servers/child';
import { until } from '../servers/deadline';
import { withClient } from './guest';
import { findPostmaster, postgresCpuSeconds, watchHost, watchProcess } from './measure';
import type { Published } from './publish';
import type { RunRecord } from './result';
import { checkpoint, type Settings, type Stage } from './stage';
import { rounded, sumOf } from './statistics';
import { readWorkerLog, type WorkerLog } from './worker-log';

/** A run below this rate is considered hung. */
const LEAST_EVENTS_PER_SECOND = 500;
const START_AND_END_MS = 90_000;
const SHARED_WITHIN_MS = 60_000;

export function deadlineFor(events: number): number {
  return START_AND_END_MS + (events / LEAST_EVENTS_PER_SECOND) * 1000;
}

export interface Run extends PostgresUse {
  readonly events: number;
  readonly seconds: number;
  /** CPU of the measured processes, from their start to their end. */
  readonly cpuSeconds: number;
  /** Peak of the largest process. */
  readonly peakRssMib: number;
  readonly bytes: number;
}

/** CPU and WAL of all of Postgres during the run, and the CPU that was missing to all. */
export interface PostgresUse {
  /** NaN if unknown. */
  readonly postgresCpuSeconds: number;
  readonly walBytes: number;
  /** CPU time that the host took from the machine, in percent; NaN if unknown. */
  readonly takenByHost: number;
}

/** The figures of a run under their printed names. */
export function recordOf(name: string, run: Run): RunRecord {
  const per100k = (value: number) => rounded((value / run.events) * 100_000);
  return {
    name,
    events: run.events,
    seconds: rounded(run.seconds),
    events_per_second: Math.round(rateOf(run)),
    worker_cpu_seconds_per_100k: per100k(run.cpuSeconds),
    postgres_cpu_seconds_per_100k: per100k(run.postgresCpuSeconds),
    rss_mib: Math.round(run.peakRssMib),
    bytes_per_event: Math.round(run.bytes / run.events),
    wal_bytes_per_event: Math.round(run.walBytes / run.events),
    host_took_percent: rounded(run.takenByHost),
  };
}

/** Rotates the list, so that another contender runs first in each round. */
export function inTurns<T>(list: readonly T[], round: number): readonly T[] {
  return round % 2 === 1 ? list : list.toReversed();
}

export function rateOf({ events, seconds }: Pick<Run, 'events' | 'seconds'>): number {
  return events / seconds;
}

export function cpuPer100k(run: Run): number {
  return ((run.cpuSeconds + run.postgresCpuSeconds) / run.events) * 100_000;
}

export interface Drain {
  readonly databaseUrl: string;
  readonly topic: string;
  readonly groupId: string;
  /** Records to decide; another number is an error. */
  readonly records: number;
  readonly settings?: Settings;
  /** Runs right before the run; a checkpoint by default. */
  readonly prepare?: (databaseUrl: string) => Promise<void>;
}

export interface DrainRun extends Run {
  readonly logs: readonly WorkerLog[];
}

/**
 * Runs a worker until the topic is drained. Its time runs from the assignment of its partitions to the last
 * answered commit.
 */
export function drain(stage: Stage, course: Drain): Promise<DrainRun> {
  return runDraining(stage, course, 1, async ([worker]) => {
    return () => readWorkerLog(worker?.output() ?? '').assignments[0]?.at ?? Number.NaN;
  });
}

/** Runs a worker over all published records, into a database of its own. */
export function drainAfresh(
  stage: Stage,
  { topic, records }: Pick<Published, 'topic' | 'records'>,
  settings: Settings = {},
): Promise<DrainRun> {
  return stage.withDatabase([topic], (databaseUrl) =>
    drain(stage, { databaseUrl, topic, records, groupId: stage.newGroup(), settings }),
  );
}

/**
 * Runs several workers of one group until the topic is drained. Their time begins when `release` makes the
 * records visible, after they have shared the partitions out.
 */
export function drainTogether(
  stage: Stage,
  course: Drain & { readonly partitions: number },
  count: number,
  release: () => Promise<void>,
): Promise<DrainRun> {
  return runDraining(stage, course, count, async (workers) => {
    await untilShared(workers, course.partitions);
    const began = Date.now();
    await release();
    return () => began;
  });
}

/** Waits until each worker has its part and all partitions are assigned: no further rebalance is due. */
async function untilShared(workers: readonly Child[], partitions: number): Promise<void> {
  const least = Math.floor(partitions / workers.length);
  await until('the workers have shared the partitions out', SHARED_WITHIN_MS, () => {
    const shares = workers.map((worker) => {
      if (worker.endedBy !== undefined) throw worker.failure(`ended (${worker.endedBy})`);
      return readWorkerLog(worker.output()).assignments.at(-1)?.partitions ?? 0;
    });
    return shares.every((share) => share >= least) && sumOf(shares, (share) => share) === partitions;
  });
}

async function runDraining(
  stage: Stage,
  course: Drain,
  count: number,
  begin: (workers: readonly Child[]) => Promise<() => number>,
): Promise<DrainRun> {
  await (course.prepare ?? checkpoint)(course.databaseUrl);
  return withClient(stage.serverUrl, async (client) => {
    const postgres = await watchPostgres(client);
    const env = {
      DATABASE_URL: course.databaseUrl,
      KAFKA_GROUP_ID: course.groupId,
      KAFKA_TOPICS: course.topic,
      ...course.settings,
    };
    const workers = Array.from({ length: count }, () => stage.startWorker(['--drain'], env));
    const [beganAt, ...uses] = await Promise.all([
      begin(workers),
      ...workers.map((worker) => useOf(worker, deadlineFor(course.records))),
    ]);
    const postgresUse = await postgres.stop();
    const logs = workers.map((worker) => readWorkerLog(worker.output()));
    return {
      ...spanOf(logs, course.records, beganAt()),
      cpuSeconds: sumOf(uses, ({ cpuSeconds }) => cpuSeconds),
      ...postgresUse,
      peakRssMib: Math.max(...uses.map(({ peakRssMib }) => peakRssMib)),
      bytes: await withDatabaseOf(stage, course.databaseUrl, storedBytes),
      logs,
    };
  });
}

/** Connects by the server's own address: the worker's address may lead over a slow line. */
function withDatabaseOf<T>(stage: Stage, databaseUrl: string, work: (client: Client) => Promise<T>) {
  const url = new URL(stage.serverUrl);
  url.pathname = new URL(databaseUrl).pathname;
  return withClient(url.href, work);
}

function spanOf(
  logs: readonly WorkerLog[],
  records: number,
  began: number,
): { events: number; seconds: number } {
  const batches = logs.flatMap((log) => log.batches);
  const decided = sumOf(batches, ({ events }) => events);
  // After a rebalance, interrupted records are read again, so the count may be higher.
  if (decided < records) throw new Error(`${decided} of ${records} records were decided`);
  const ended = Math.max(...batches.map(({ at }) => at));
  return { events: records, seconds: (ended - began) / 1000 };
}

/** Waits for the end of a process. */
export async function useOf(child: Child, deadlineMs: number) {
  const watch = watchProcess(child.pid ?? 0);
  try {
    await child.untilDone(deadlineMs);
  } finally {
    watch.stop();
  }
  return watch.stop();
}

/** Measures all of Postgres from now on. */
export async function watchPostgres(client: Client): Promise<{ stop(): Promise<PostgresUse> }> {
  const postmaster = await postmasterOf(client);
  const walBefore = await walWritten(client);
  const takenByHost = watchHost();
  const before = postgresCpuSeconds(postmaster);
  return {
    async stop() {
      const seconds = postgresCpuSeconds(postmaster) - before;
      const taken = takenByHost();
      return {
        postgresCpuSeconds: seconds,
        walBytes: (await walWritten(client)) - walBefore,
        takenByHost: taken,
      };
    },
  };
}

/** See findPostmaster. */
export async function postmasterOf(client: Client): Promise<number | undefined> {
  const { rows } = await client.query<{ pid: number }>('select pg_backend_pid() as pid');
  return findPostmaster(rows[0]?.pid ?? 0);
}

/** Bytes of WAL that the server has written since it was made. */
async function walWritten(client: Client): Promise<number> {
  const { rows } = await client.query<{ bytes: string }>(
    `select pg_wal_lsn_diff(pg_current_wal_insert_lsn(), '0/0') as bytes`,
  );
  return Number(rows[0]?.bytes);
}

/** Size of the product's tables and indexes. */
export async function storedBytes(client: Client): Promise<number> {
  const { rows } = await client.query<{ bytes: string }>(
    `select sum(pg_total_relation_size(c.oid)) as bytes from pg_class c join pg_namespace n on n.oid = c.relnamespace
     where n.nspname = 'promo_store' and c.relkind = 'r'`,
  );
  return Number(rows[0]?.bytes);
}
