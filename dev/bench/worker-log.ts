/** The log of a worker: when it got partitions, which batches it decided, and which work it retried. */

/** The records of one partition in a batch. The log has a line for each partition of a batch. */
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

/** One transaction, with the records of its partitions. */
export interface Transaction {
  /** Milliseconds since 1970, after the commit was answered. */
  readonly at: number;
  /** Time from the start of the batch to its commit, with all tries. */
  readonly ms: number;
  readonly parts: readonly DecidedBatch[];
}

/** A batch that was started again, or a partition that was left undecided for a while. */
export interface Retry {
  readonly at: number;
  /** Where the batch has records of one partition. */
  readonly source: { readonly topic: string; readonly partition: number } | undefined;
  /** Partitions of the batch. */
  readonly partitions: number;
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
  const partition = Reflect.get(entry, 'partition');
  return {
    at,
    source:
      partition === undefined
        ? undefined
        : { topic: String(Reflect.get(entry, 'topic')), partition: Number(partition) },
    partitions: Number(Reflect.get(entry, 'partitions') ?? 1),
    waitMs: Number(Reflect.get(entry, 'waitMs') ?? 0),
    error: String(Reflect.get(entry, 'error')),
  };
}

/** The lines of one batch are written at once, so they differ by no more than this. */
const LINES_APART_MS = 2;

/** The transactions of decided batches, in the order of the log. */
export function transactionsOf({ batches }: Pick<WorkerLog, 'batches'>): Transaction[] {
  const transactions: { at: number; ms: number; parts: DecidedBatch[] }[] = [];
  for (const batch of batches) {
    const last = transactions.at(-1);
    const isSame =
      last !== undefined &&
      last.ms === batch.ms &&
      batch.at - last.at <= LINES_APART_MS &&
      !last.parts.some(({ topic, partition }) => topic === batch.topic && partition === batch.partition);
    if (isSame) last.parts.push(batch);
    else transactions.push({ at: batch.at, ms: batch.ms, parts: [batch] });
  }
  return transactions;
}

/** Milliseconds in which batches were decided. Batches in flight side by side count each. */
export function decidingMs(log: WorkerLog): number {
  return transactionsOf(log).reduce((sum, { ms }) => sum + ms, 0);
}

/**
 * Milliseconds lost to retries: the waits of undecided partitions, and the work that each restarted batch had
 * done until then.
 */
export function lostToRetries(log: WorkerLog): number {
  let lost = log.undecided.reduce((sum, { waitMs }) => sum + waitMs, 0);
  const transactions = transactionsOf(log);
  const lostBy = new Map<Transaction, number>();
  for (const retry of log.again) {
    // A line about several partitions names none of them. Of batches that fit, the longest loss counts.
    const [of] = transactions
      .filter((transaction) => isRetryOf(retry, transaction))
      .sort((a, b) => begunAt(a) - begunAt(b));
    if (of !== undefined) lostBy.set(of, Math.max(lostBy.get(of) ?? 0, retry.at - begunAt(of)));
    // A batch that was never decided as a whole has no line: count one of mean length.
    else if (retry.source === undefined) lost += decidingMs(log) / Math.max(1, transactions.length);
  }
  for (const ms of lostBy.values()) lost += ms;
  return lost;
}

function begunAt({ at, ms }: Transaction): number {
  return at - ms;
}

function isRetryOf({ at, source, partitions }: Retry, transaction: Transaction): boolean {
  if (at < begunAt(transaction) || at > transaction.at) return false;
  const { parts } = transaction;
  if (source === undefined) return parts.length === partitions;
  return parts.some(({ topic, partition }) => topic === source.topic && partition === source.partition);
}
