/**
 * Requests that wait for their turn to be decided. What waits of one connection when a slot frees is decided together: a transaction costs
 * nearly the same for one event as for a hundred, and most senders send one event a request.
 */
import { AsyncLocalStorage } from 'node:async_hooks';

/** So many events are decided together at most, but for a request that has more by itself. */
const EVENTS_TOGETHER = 1_000;

/** A request, as far as its turn depends on it. */
interface Sized {
  readonly events: readonly unknown[];
}

interface Waiting<R extends Sized, A> {
  readonly request: R;
  /** Runs something in the context of the request, so that a trace finds its own. */
  readonly inContext: (work: () => void) => void;
  readonly answered: (answer: A) => void;
  readonly failed: (error: unknown) => void;
  readonly timer: NodeJS.Timeout;
}

export interface SlotsOptions<R extends Sized, A> {
  /** Transactions at once. */
  readonly count: number;
  /** A request waits so long for a slot at most. */
  readonly withinMs: number;
  /** What it is answered then. */
  readonly busy: A;
  /** Decides requests of one connection. @returns an answer for each, in their order */
  readonly decide: (connectionId: string, requests: readonly R[]) => Promise<readonly A[]>;
}

/** @returns what decides a request of a connection, in its turn */
export function makeSlots<R extends Sized, A>({ count, withinMs, busy, decide }: SlotsOptions<R, A>) {
  /** By connection, in the order of their oldest request, but that one which has had its turn goes to the end. */
  const queues = new Map<string, Waiting<R, A>[]>();
  let free = count;

  function fill(): void {
    while (free > 0) {
      const [next] = queues;
      if (next === undefined) return;
      const [connectionId, queue] = next;
      queues.delete(connectionId);
      const batch = takeTogether(queue);
      if (queue.length > 0) queues.set(connectionId, queue);
      for (const { timer } of batch) clearTimeout(timer);
      free--;
      batch[0]?.inContext(() => void run(connectionId, batch));
    }
  }

  async function run(connectionId: string, batch: readonly Waiting<R, A>[]): Promise<void> {
    try {
      const answers = await decide(
        connectionId,
        batch.map(({ request }) => request),
      );
      batch.forEach(({ answered }, index) => {
        answered(answers[index] ?? busy);
      });
    } catch (error) {
      for (const { failed } of batch) failed(error);
    } finally {
      free++;
      fill();
    }
  }

  function leave(connectionId: string, waiting: Waiting<R, A>): void {
    const queue = queues.get(connectionId) ?? [];
    queue.splice(queue.indexOf(waiting), 1);
    if (queue.length === 0) queues.delete(connectionId);
    waiting.answered(busy);
  }

  return (connectionId: string, request: R): Promise<A> =>
    new Promise((answered, failed) => {
      const inContext = AsyncLocalStorage.snapshot();
      const timer = setTimeout(() => leave(connectionId, waiting), withinMs);
      const waiting: Waiting<R, A> = { request, inContext, answered, failed, timer };
      const queue = queues.get(connectionId);
      if (queue === undefined) queues.set(connectionId, [waiting]);
      else queue.push(waiting);
      fill();
    });
}

/** Takes the first, and those behind it that may go with it. */
function takeTogether<R extends Sized, A>(queue: Waiting<R, A>[]): Waiting<R, A>[] {
  let events = 0;
  let requests = 0;
  for (const { request } of queue) {
    events += request.events.length;
    if (requests > 0 && events > EVENTS_TOGETHER) break;
    requests++;
  }
  return queue.splice(0, requests);
}
