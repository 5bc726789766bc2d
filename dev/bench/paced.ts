/** A run under a paced load: a running worker, and the open-loop producer beside it. */
import { readFileSync } from 'node:fs';
import type { Child } from '../servers/child';
import { DeadlineError, until } from '../servers/deadline';
import { USUAL_SHAPE } from './feed';
import { withClient } from './guest';
import { latenciesOf, type Sent } from './latencies';
import { type ProcessUse, watchHost, watchProcess } from './measure';
import type { Bench } from './mode';
import { type PacedEnd, readEnd, readSends, readStart } from './programs/paced-lines';
import { PARTITIONS, type Settings, type Stage } from './stage';
import type { Weighted } from './statistics';
import { readWorkerLog, type WorkerLog } from './worker-log';

const START_DEADLINE_MS = 120_000;
const STOP_DEADLINE_MS = 30_000;
/** Time beyond the run: records that are still undecided by then mean that the worker does not keep up. */
const BEHIND_DEADLINE_MS = 120_000;

/**
 * A larger old space: otherwise buffers that were sent would cause eight collections of the whole heap a
 * second.
 */
const PRODUCER_NODE_OPTIONS = ['--initial-old-space-size=512'];

export interface PacedLoad {
  readonly topic: string;
  readonly databaseUrl: string;
  /** Records a second. */
  readonly rate: number;
  readonly seconds: number;
  /** The sends of one tick in this many are recorded; 1 if absent, 0 for none. */
  readonly recordEvery?: number;
  readonly settings?: Settings;
  /** The share of the usual feed if absent. */
  readonly resendShare?: number;
  /** Sends that may wait for Kafka; unlimited if absent, as an open loop has to be. */
  readonly maxInFlight?: number;
  /** Records that are in the topic besides the paced ones. */
  readonly otherRecords?: number;
  /** Runs once the worker has its partitions, before the load begins. */
  readonly before?: (worker: Child) => Promise<void>;
  /** Runs beside the load; the run waits for its end. */
  readonly meanwhile?: (worker: Child, startedAt: number) => Promise<void>;
  /** Runs once everything was sent, before the wait for undecided records. */
  readonly after?: () => Promise<void>;
}

export interface PacedRun extends PacedEnd {
  /** Time of the first tick, in milliseconds since 1970. */
  readonly startedAt: number;
  readonly sends: readonly Sent[];
  readonly log: WorkerLog;
  readonly worker: ProcessUse;
  /** CPU time that the host took from the machine during the load, in percent; NaN if unknown. */
  readonly takenByHost: number;
}

/** Runs until everything that was sent is decided. */
export async function runPaced({ stage }: Bench, load: PacedLoad): Promise<PacedRun> {
  const worker = stage.startWorker([], {
    DATABASE_URL: load.databaseUrl,
    KAFKA_GROUP_ID: stage.newGroup(),
    KAFKA_TOPICS: load.topic,
    ...load.settings,
  });
  const watch = watchProcess(worker.pid ?? 0);
  try {
    await worker.untilLogged(/"partitions assigned"/, START_DEADLINE_MS);
    await load.before?.(worker);
    const takenByHost = watchHost();
    const paced = { ...(await producePaced(stage, load, worker)), takenByHost: takenByHost() };
    await load.after?.();
    await untilDecided(load, paced.records + (load.otherRecords ?? 0), worker);
    const use = watch.stop();
    await stopWorker(worker);
    return { ...paced, log: readWorkerLog(worker.output()), worker: use };
  } catch (error) {
    // The failure quotes the end of the worker's log, since the log is removed together with the stage.
    if (!(error instanceof DeadlineError)) throw error;
    const ended = worker.endedBy === undefined ? '' : `; it had ended (${worker.endedBy})`;
    throw worker.failure(`${error.message}${ended}`);
  } finally {
    watch.stop();
  }
}

/** Latencies of the records that were due once the worker was warm. @param warmup in seconds */
export function latenciesAfter({ sends, log, startedAt }: PacedRun, warmup: number): Weighted[] {
  const from = startedAt + warmup * 1000;
  return latenciesOf(
    sends.filter(({ scheduledAt }) => scheduledAt >= from),
    log.batches,
  );
}

async function producePaced(stage: Stage, load: PacedLoad, worker: Child) {
  const sendsFile = stage.file('sends');
  const recordEvery = load.recordEvery ?? 1;
  const settings = {
    TOPIC: load.topic,
    PARTITIONS: String(PARTITIONS),
    RATE: String(load.rate),
    SECONDS: String(load.seconds),
    RECORD_EVERY: String(recordEvery),
    SENDS_FILE: sendsFile,
    MAX_IN_FLIGHT: String(load.maxInFlight ?? 0),
    RESEND_SHARE: String(load.resendShare ?? USUAL_SHAPE.resendShare),
  };
  const producer = stage.startProgram('paced-producer', settings, PRODUCER_NODE_OPTIONS);
  await producer.untilLogged(/"startedAt"/, START_DEADLINE_MS);
  const startedAt = readStart(producer.output())?.startedAt ?? Number.NaN;
  const ended = producer.untilDone(load.seconds * 1000 + BEHIND_DEADLINE_MS);
  await Promise.all([ended, load.meanwhile?.(worker, startedAt)]);
  const sends = recordEvery > 0 ? readSends(readFileSync(sendsFile, 'utf8')) : [];
  return { startedAt, sends, ...readEnd(producer.output()) };
}

/**
 * Waits until this many records of the topic are decided.
 *
 * @throws if the worker ends before
 */
export async function untilDecided(
  { databaseUrl, topic }: Pick<PacedLoad, 'databaseUrl' | 'topic'>,
  records: number,
  worker: Child,
): Promise<void> {
  await withClient(databaseUrl, (client) =>
    until(`${records} records are decided`, BEHIND_DEADLINE_MS, async () => {
      if (worker.endedBy !== undefined) throw worker.failure(`ended (${worker.endedBy})`);
      const { rows } = await client.query<{ decided: number }>(
        'select coalesce(sum(records_read), 0)::float8 as decided from promo_store.partitions where topic = $1',
        [topic],
      );
      return (rows[0]?.decided ?? 0) >= records;
    }),
  );
}

/** Stops the worker as a deployment does: it leaves the group in order. */
export async function stopWorker(worker: Child): Promise<void> {
  if (worker.pid !== undefined && worker.endedBy === undefined) process.kill(worker.pid, 'SIGTERM');
  await worker.untilDone(STOP_DEADLINE_MS);
}
