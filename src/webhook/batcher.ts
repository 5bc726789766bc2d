/**
 * Requests that wait for their turn to be decided. When a slot frees, the waiting requests of one connection are decided
 * together: a transaction costs nearly the same for one event as for a hundred, and most senders send one event a
 * request. After a failure they are decided one by one, then in batches that double again: one request that cannot be
 * decided, or a slow store, must not keep the others from being decided.
 *
 * Connections take turns, and one of them never has all slots (docs/rules.md, W8).
 */
import { AsyncLocalStorage } from 'node:async_hooks';

/** So many events are decided together at most, but for a request that has more by itself. */
const EVENTS_TOGETHER = 1_000;
/** And so many bytes, as of a batch of Kafka's. */
const BYTES_TOGETHER = 4 * 1024 ** 2;
/** And so many JSON values: parsing them blocks all other requests. */
const VALUES_TOGETHER = 20_000;
/** Slots that a connection leaves to the others, where there is more than one. */
const LEFT_TO_OTHERS = 1;
/** A connection is active for so long after a request. While several are, each has an equal share of the slots. */
const ACTIVE_FOR_MS = 1_000;
/** And then its batches are smaller by this factor: preparing one delays all others. */
const SMALLER_BESIDE_OTHERS = 10;

/** A request, as far as its turn depends on it. */
interface Sized {
  readonly events: readonly unknown[];
  readonly bytes: number;
  readonly values: number;
}

/** What became of requests that were decided together. */
export interface Together<A> {
  /** One for each, in their order. */
  readonly answers: readonly A[];
  /** Whether all of them could be decided. */
  readonly isWhole: boolean;
}

interface Waiting<R extends Sized, A> {
  readonly request: R;
  /** Runs something in the context of the request, so that a trace finds its own. */
  readonly inContext: (work: () => void) => void;
  readonly answered: (answer: A) => void;
  readonly failed: (error: unknown) => void;
  readonly timer: NodeJS.Timeout;
}

interface Queue<R extends Sized, A> {
  readonly waiting: Waiting<R, A>[];
  /** So many events go together now. */
  eventsTogether: number;
  /** Slots that it has. */
  running: number;
  /** When its last request came, by performance.now(). */
  askedAt: number;
}

export interface SlotsOptions<R extends Sized, A> {
  /** Transactions at once. */
  readonly count: number;
  /** The answer to a request that found no slot in time: all were taken, or its connection had its share of them. */
  readonly busy: A;
  readonly beyondShare: A;
  /** Decides requests of one connection. */
  readonly decide: (connectionId: string, requests: readonly R[]) => Promise<Together<A>>;
}

/** @returns what decides a request of a connection, in its turn, where that comes within so many milliseconds */
export function makeSlots<R extends Sized, A>({ count, busy, beyondShare, decide }: SlotsOptions<R, A>) {
  /** By connection; there are no more of them than have secrets. */
  const queues = new Map<string, Queue<R, A>>();
  /** Connections with requests that wait, in the order of their turns. */
  const turns = new Set<string>();
  let free = count;

  function queueOf(connectionId: string): Queue<R, A> {
    let queue = queues.get(connectionId);
    if (queue === undefined) {
      queue = { waiting: [], eventsTogether: EVENTS_TOGETHER, running: 0, askedAt: 0 };
      queues.set(connectionId, queue);
    }
    return queue;
  }

  /** Connections that are active, at least one. */
  function countActive(): number {
    const since = performance.now() - ACTIVE_FOR_MS;
    let active = 0;
    for (const { askedAt, running } of queues.values()) if (askedAt > since || running > 0) active++;
    return Math.max(1, active);
  }

  /** Slots that one of so many active connections may have. */
  function shareOf(active: number): number {
    return Math.max(1, Math.min(count - LEFT_TO_OTHERS, Math.ceil(count / active)));
  }

  function fill(): void {
    if (turns.size === 0) return;
    const active = countActive();
    const share = shareOf(active);
    while (free > 0) {
      const connectionId = [...turns].find((each) => queueOf(each).running < share);
      if (connectionId === undefined) return;
      const queue = queueOf(connectionId);
      const batch = takeTogether(queue, active > 1 ? SMALLER_BESIDE_OTHERS : 1);
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
      queue.eventsTogether = isWhole ? Math.min(EVENTS_TOGETHER, queue.eventsTogether * 2) : 1;
      batch.forEach(({ answered, failed }, index) => {
        const answer = answers[index];
        if (answer === undefined) failed(new Error('a request has no answer'));
        else answered(answer);
      });
    } catch (error) {
      queue.eventsTogether = 1;
      for (const { failed } of batch) failed(error);
    } finally {
      free++;
      queue.running--;
      fill();
    }
  }

  function leave(connectionId: string, late: Waiting<R, A>): void {
    const { waiting, running } = queueOf(connectionId);
    waiting.splice(waiting.indexOf(late), 1);
    if (waiting.length === 0) turns.delete(connectionId);
    late.answered(free > 0 && running >= shareOf(countActive()) ? beyondShare : busy);
  }

  return (connectionId: string, request: R, withinMs: number): Promise<A> =>
    new Promise((answered, failed) => {
      const inContext = AsyncLocalStorage.snapshot();
      const timer = setTimeout(() => leave(connectionId, waiting), withinMs);
      const waiting: Waiting<R, A> = { request, inContext, answered, failed, timer };
      const queue = queueOf(connectionId);
      queue.askedAt = performance.now();
      queue.waiting.push(waiting);
      turns.add(connectionId);
      fill();
    });
}

/** Takes the first, and those behind it that may go with it. @param smaller by this factor */
function takeTogether<R extends Sized, A>(
  { waiting, eventsTogether }: Queue<R, A>,
  smaller: number,
): Waiting<R, A>[] {
  const most = {
    events: Math.min(eventsTogether, EVENTS_TOGETHER / smaller),
    bytes: BYTES_TOGETHER / smaller,
    values: VALUES_TOGETHER / smaller,
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
