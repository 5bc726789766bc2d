/** The log of a worker: when it got partitions, which batches it decided, and which work it retried. */

export interface DecidedBatch {
  /** Milliseconds since 1970, after the commit was answered. */
  readonly at: number;
  readonly topic: string;
  readonly partition: number;
  readonly events: number;
  /** The first offset that is not decided yet. */
  readonly nextOffset: number;
  /** Time from the start of the batch to its commit, with all tries. */
  readonly ms: number;
}

/** A batch that was started again, or left undecided for a while. */
export interface Retry {
  readonly at: number;
  readonly topic: string;
  readonly partition: number;
  /** How long the partition then waits. */
  readonly waitMs: number;
  readonly error: string;
}

/** Partitions that the group assigned to the worker, in place of those it had. */
export interface Assignment {
  readonly at: number;
  readonly partitions: number;
}

export interface WorkerLog {
  /** Time of the first line. */
  readonly startedAt: number;
  readonly assignments: readonly Assignment[];
  readonly batches: readonly DecidedBatch[];
  /** Lines with the message 'batch is decided again'. */
  readonly again: readonly Retry[];
  /** Lines with the message 'partition is undecided'. */
  readonly undecided: readonly Retry[];
}

export function readWorkerLog(text: string): WorkerLog {
  let startedAt = Number.NaN;
  const assignments: Assignment[] = [];
  const batches: DecidedBatch[] = [];
  const again: Retry[] = [];
  const undecided: Retry[] = [];
  for (const line of text.split('\n')) {
    // Other lines of the output are Node's own.
    if (!line.startsWith('{') || !line.endsWith('}')) continue;
    const entry: unknown = JSON.parse(line);
    if (typeof entry !== 'object' || entry === null) continue;
    const at = Date.parse(String(Reflect.get(entry, 'time')));
    if (Number.isNaN(startedAt)) startedAt = at;
    switch (Reflect.get(entry, 'msg')) {
      case 'partitions assigned':
        assignments.push({ at, partitions: lengthOf(Reflect.get(entry, 'partitions')) });
        break;
      case 'batch decided':
        batches.push(batchOf(entry, at));
        break;
      case 'batch is decided again':
        again.push(retryOf(entry, at));
        break;
      case 'partition is undecided':
        undecided.push(retryOf(entry, at));
    }
  }
  return { startedAt, assignments, batches, again, undecided };
}

function lengthOf(value: unknown): number {
  return Array.isArray(value) ? value.length : 0;
}

function batchOf(entry: object, at: number): DecidedBatch {
  const number = (name: string) => Number(Reflect.get(entry, name));
  return {
    at,
    topic: String(Reflect.get(entry, 'topic')),
    partition: number('partition'),
    events: number('events'),
    nextOffset: number('nextOffset'),
    ms: number('ms'),
  };
}

function retryOf(entry: object, at: number): Retry {
  return {
    at,
    topic: String(Reflect.get(entry, 'topic')),
    partition: Number(Reflect.get(entry, 'partition')),
    waitMs: Number(Reflect.get(entry, 'waitMs') ?? 0),
    error: String(Reflect.get(entry, 'error')),
  };
}

/**
 * Milliseconds lost to retries: the waits of undecided partitions, and the work that each restarted batch had
 * done until then.
 */
export function lostToRetries({ batches, again, undecided }: WorkerLog): number {
  let lost = undecided.reduce((sum, { waitMs }) => sum + waitMs, 0);
  const retriesOf = Map.groupBy(again, ({ topic, partition }) => `${topic}/${partition}`);
  for (const { topic, partition, at, ms } of batches) {
    const begunAt = at - ms;
    const retries = retriesOf.get(`${topic}/${partition}`) ?? [];
    const last = retries.findLast((retry) => retry.at >= begunAt && retry.at <= at);
    if (last !== undefined) lost += last.at - begunAt;
  }
  return lost;
}
