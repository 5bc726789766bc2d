/**
 * Requests that wait for their turn to be decided. What waits of one connection when a slot frees is decided together: a transaction costs
 * nearly the same for one event as for a hundred, and most senders send one event a request. Where that fails they go by themselves, and then in ever
 * larger company again: one that cannot be decided, or a store that is slow, is not to keep the others from it.
 */
import { AsyncLocalStorage } from 'node:async_hooks';

/** So many events are decided together at most, but for a request that has more by itself. */
const EVENTS_TOGETHER = 1_000;
/** And so many bytes, as of a batch of Kafka's. */
const BYTES_TOGETHER = 4 * 1024 ** 2;

/** A request, as far as its turn depends on it. */
interface Sized {
  readonly events: readonly unknown[];
  readonly bytes: number;
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
}

export interface SlotsOptions<R extends Sized, A> {
  /** Transactions at once. */
  readonly count: number;
  /** What it is answered then. */
  readonly busy: A;
  /** Decides requests of one connection. */
  readonly decide: (connectionId: string, requests: readonly R[]) => Promise<Together<A>>;
}

/** @returns what decides a request of a connection, in its turn, where that comes within so many milliseconds */
export function makeSlots<R extends Sized, A>({ count, busy, decide }: SlotsOptions<R, A>) {
  /** By connection; there are no more of them than have secrets. */
  const queues = new Map<string, Queue<R, A>>();
  /** Connections with requests that wait, in the order of their turns. */
  const turns = new Set<string>();
  let free = count;

  function queueOf(connectionId: string): Queue<R, A> {
    let queue = queues.get(connectionId);
    if (queue === undefined) {
      queue = { waiting: [], eventsTogether: EVENTS_TOGETHER };
      queues.set(connectionId, queue);
    }
    return queue;
  }

  function fill(): void {
    while (free > 0) {
      const [connectionId] = turns;
      if (connectionId === undefined) return;
      const queue = queueOf(connectionId);
      const batch = takeTogether(queue);
      turns.delete(connectionId);
      if (queue.waiting.length > 0) turns.add(connectionId);
      for (const { timer } of batch) clearTimeout(timer);
      free--;
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
      fill();
    }
  }

  function leave(connectionId: string, late: Waiting<R, A>): void {
    const { waiting } = queueOf(connectionId);
    waiting.splice(waiting.indexOf(late), 1);
    if (waiting.length === 0) turns.delete(connectionId);
    late.answered(busy);
  }

  return (connectionId: string, request: R, withinMs: number): Promise<A> =>
    new Promise((answered, failed) => {
      const inContext = AsyncLocalStorage.snapshot();
      const timer = setTimeout(() => leave(connectionId, waiting), withinMs);
      const waiting: Waiting<R, A> = { request, inContext, answered, failed, timer };
      queueOf(connectionId).waiting.push(waiting);
      turns.add(connectionId);
      fill();
    });
}

/** Takes the first, and those behind it that may go with it. */
function takeTogether<R extends Sized, A>({ waiting, eventsTogether }: Queue<R, A>): Waiting<R, A>[] {
  let [events, bytes, requests] = [0, 0, 0];
  for (const { request } of waiting) {
    events += request.events.length;
    bytes += request.bytes;
    if (requests > 0 && (events > eventsTogether || bytes > BYTES_TOGETHER)) break;
    requests++;
  }
  return waiting.splice(0, requests);
}
