/**
 * Requests wait here for their turn to be decided. When a slot frees, the waiting requests of one connection
 * are decided in one batch. A transaction costs nearly the same for one event as for a hundred, and most
 * senders send one event a request.
 *
 * After a failure the connection's requests are decided one by one, then in batches that double each time.
 * Otherwise one request that cannot be decided, or a slow store, would keep the others from being decided.
 *
 * Connections take turns, and no connection ever has all slots (docs/rules.md, W8).
 */
import { AsyncLocalStorage } from 'node:async_hooks';

/** The most events in a batch. A single request may have more, and is then a batch of its own. */
const MAX_BATCH_EVENTS = 1_000;
/** The most bytes in a batch: as many as in a batch from Kafka. */
const MAX_BATCH_BYTES = 4 * 1024 ** 2;
/** The most JSON values in a batch: parsing them blocks all other requests. */
const MAX_BATCH_VALUES = 20_000;
/** Slots that a connection leaves to the others, if there is more than one slot. */
const LEFT_TO_OTHERS = 1;
/** A connection is active for this time after a request. Active connections share the slots equally. */
const ACTIVE_FOR_MS = 1_000;
/**
 * Batches are smaller by this factor while several connections are active: preparing a batch delays all
 * others.
 */
const SMALLER_BESIDE_OTHERS = 10;

/** The sizes of a request. */
interface Sized {
  readonly events: readonly unknown[];
  readonly bytes: number;
  readonly values: number;
}

/** The answers to the requests of a batch. */
export interface BatchResult<A> {
  /** One answer for each request, in the order of the requests. */
  readonly answers: readonly A[];
  /** Whether all events of the batch were decided. */
  readonly isWhole: boolean;
}

interface Waiting<R extends Sized, A> {
  readonly request: R;
  /** Runs work in the async context of the request, so that its spans belong to its trace. */
  readonly inContext: (work: () => void) => void;
  readonly resolve: (answer: A) => void;
  readonly reject: (error: unknown) => void;
  readonly timer: NodeJS.Timeout;
}

interface Queue<R extends Sized, A> {
  readonly waiting: Waiting<R, A>[];
  /** The most events in the next batch. */
  batchLimit: number;
  /** Slots in use by the connection. */
  running: number;
  /** When the last request arrived, by performance.now(). */
  lastRequestAt: number;
}

export interface BatcherOptions<R extends Sized, A> {
  /** Slots: transactions that run at once. */
  readonly count: number;
  /**
   * The answers to a request that got no slot in time: all slots were taken, or its connection had its share.
   */
  readonly busy: A;
  readonly beyondShare: A;
  /** Decides a batch: requests of one connection. */
  readonly decide: (connectionId: string, requests: readonly R[]) => Promise<BatchResult<A>>;
}

/**
 * @returns a function that decides a request in its turn, or answers `busy` or `beyondShare` after `withinMs`
 */
export function makeBatcher<R extends Sized, A>({ count, busy, beyondShare, decide }: BatcherOptions<R, A>) {
  /** By connection id. Only connections with a secret get here, so the map is bounded. */
  const queues = new Map<string, Queue<R, A>>();
  /** Connections with waiting requests, in the order of their turns. */
  const turns = new Set<string>();
  let free = count;

  function queueOf(connectionId: string): Queue<R, A> {
    let queue = queues.get(connectionId);
    if (queue === undefined) {
      queue = { waiting: [], batchLimit: MAX_BATCH_EVENTS, running: 0, lastRequestAt: 0 };
      queues.set(connectionId, queue);
    }
    return queue;
  }

  /** The number of active connections, at least 1. */
  function countActive(): number {
    const since = performance.now() - ACTIVE_FOR_MS;
    let active = 0;
    for (const { lastRequestAt, running } of queues.values())
      if (lastRequestAt > since || running > 0) active++;
    return Math.max(1, active);
  }

  /** The slots that each of the active connections may use at once. */
  function shareOf(active: number): number {
    return Math.max(1, Math.min(count - LEFT_TO_OTHERS, Math.ceil(count / active)));
  }

  function startBatches(): void {
    if (turns.size === 0) return;
    const active = countActive();
    const share = shareOf(active);
    while (free > 0) {
      const connectionId = [...turns].find((each) => queueOf(each).running < share);
      if (connectionId === undefined) return;
      const queue = queueOf(connectionId);
      const batch = takeBatch(queue, active > 1 ? SMALLER_BESIDE_OTHERS : 1);
      turns.delete(connectionId);
      if (queue.waiting.length > 0) turns.add(connectionId);
      for (const { timer } of batch) clearTimeout(timer);
      free--;
      queue.running++;
      batch[0]?.inContext(() => void run(connectionId, queue, batch));
    }
  }

  async function run(
    connectionId: string,
    queue: Queue<R, A>,
    batch: readonly Waiting<R, A>[],
  ): Promise<void> {
    try {
      const requests = batch.map(({ request }) => request);
      const { answers, isWhole } = await decide(connectionId, requests);
      queue.batchLimit = isWhole ? Math.min(MAX_BATCH_EVENTS, queue.batchLimit * 2) : 1;
      batch.forEach(({ resolve, reject }, index) => {
        const answer = answers[index];
        if (answer === undefined) reject(new Error('a request has no answer'));
        else resolve(answer);
      });
    } catch (error) {
      queue.batchLimit = 1;
      for (const { reject } of batch) reject(error);
    } finally {
      free++;
      queue.running--;
      startBatches();
    }
  }

  function expire(connectionId: string, late: Waiting<R, A>): void {
    const { waiting, running } = queueOf(connectionId);
    waiting.splice(waiting.indexOf(late), 1);
    if (waiting.length === 0) turns.delete(connectionId);
    late.resolve(free > 0 && running >= shareOf(countActive()) ? beyondShare : busy);
  }

  return (connectionId: string, request: R, withinMs: number): Promise<A> =>
    new Promise((resolve, reject) => {
      const inContext = AsyncLocalStorage.snapshot();
      const timer = setTimeout(() => expire(connectionId, waiting), withinMs);
      const waiting: Waiting<R, A> = { request, inContext, resolve, reject, timer };
      const queue = queueOf(connectionId);
      queue.lastRequestAt = performance.now();
      queue.waiting.push(waiting);
      turns.add(connectionId);
      startBatches();
    });
}

/**
 * Removes the next batch from the queue: the first request, and the next ones while the limits allow.
 *
 * @param smaller divides the limits
 */
function takeBatch<R extends Sized, A>(
  { waiting, batchLimit }: Queue<R, A>,
  smaller: number,
): Waiting<R, A>[] {
  const most = {
    events: Math.min(batchLimit, MAX_BATCH_EVENTS / smaller),
    bytes: MAX_BATCH_BYTES / smaller,
    values: MAX_BATCH_VALUES / smaller,
  };
  let [events, bytes, values, requests] = [0, 0, 0, 0];
  for (const { request } of waiting) {
    events += request.events.length;
    bytes += request.bytes;
    values += request.values;
    const isTooMuch = events > most.events || bytes > most.bytes || values > most.values;
    if (requests > 0 && isTooMuch) break;
    requests++;
  }
  return waiting.splice(0, requests);
}
