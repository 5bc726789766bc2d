/**
 * Requests wait here for their turn to be decided, in batches. A transaction costs nearly the same for one
 * event as for a hundred, and most senders send one event a request.
 */
import { AsyncLocalStorage } from 'node:async_hooks';
import type { Clock, Timer } from '../lib/clock';

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
export interface BatchAnswers<A> {
  /** One answer for each request, in the order of the requests. */
  readonly answers: readonly A[];
  /** Whether all events of the batch were decided. */
  readonly isWhole: boolean;
}

/** The states of a request: see Batcher. */
type RequestState = 'waiting' | 'deciding' | 'answered' | 'refused';

interface Queued<R extends Sized, A> {
  readonly request: R;
  /** Runs work in the async context of the request, so that its spans belong to its trace. */
  readonly inContext: (work: () => void) => void;
  readonly resolve: (answer: A) => void;
  readonly reject: (error: unknown) => void;
  state: RequestState;
  /** Refuses the request once it has waited too long. */
  timer: Timer | undefined;
}

interface Connection<R extends Sized, A> {
  /** Its requests in state `waiting`, in the order of their arrival. */
  readonly waiting: Queued<R, A>[];
  /** The most events in the next batch. */
  batchLimit: number;
  /** Slots in use by the connection. */
  running: number;
  /** When the last request arrived, by the clock. */
  lastRequestAt: number;
}

export interface BatcherOptions<R extends Sized, A> {
  readonly clock: Clock;
  /** Slots: transactions that run at once. */
  readonly count: number;
  /** The answer to a request that got no slot in time. */
  readonly busy: A;
  /** The same, where its connection had its share of the slots beside other active connections. */
  readonly beyondShare: A;
  /** Decides a batch: requests of one connection. */
  readonly decide: (connectionId: string, requests: readonly R[]) => Promise<BatchAnswers<A>>;
}

/**
 * The states of a request:
 *
 *     waiting --- a slot is free, and its batch is taken ---> deciding --- its batch has ended ---> answered
 *        \------ no slot within the time ---> refused
 *
 * A request whose batch fails is `answered` too: with the error.
 *
 * The states of a connection, by its requests:
 *
 *     idle <----> waiting: requests wait, none of its batches runs
 *      ^             | a slot is free
 *      v             v
 *     deciding <-> backlogged: batches run, and further requests wait
 *
 * - `waiting` and `backlogged` connections take turns, one batch a turn, in the order of the set `turns`.
 * - No connection ever has all slots (docs/rules.md, W8): beyond its share it stays `backlogged`.
 * - After a failure a connection's requests are decided one by one, then in batches that double each time.
 *   Otherwise one request that cannot be decided, or a slow store, would keep the others from being decided.
 */
export class Batcher<R extends Sized, A> {
  /** By connection id. Only connections with a secret get here, so the map is bounded. */
  private readonly connections = new Map<string, Connection<R, A>>();
  /** Connections with waiting requests, in the order of their turns. */
  private readonly turns = new Set<string>();
  private free: number;

  constructor(private readonly options: BatcherOptions<R, A>) {
    this.free = options.count;
  }

  /** Slots in use, and requests that wait for one. */
  get load(): { readonly taken: number; readonly waiting: number } {
    let count = 0;
    for (const { waiting } of this.connections.values()) count += waiting.length;
    return { taken: this.options.count - this.free, waiting: count };
  }

  /** Decides a request in its turn, or answers `busy` or `beyondShare` after `withinMs`. */
  decide(connectionId: string, request: R, withinMs: number): Promise<A> {
    return new Promise((resolve, reject) => {
      const inContext = AsyncLocalStorage.snapshot();
      const queued: Queued<R, A> = {
        request,
        inContext,
        resolve,
        reject,
        state: 'waiting',
        timer: undefined,
      };
      const connection = this.connectionOf(connectionId);
      connection.lastRequestAt = this.options.clock.now();
      connection.waiting.push(queued);
      this.settle(connectionId, connection);
      this.startBatches();
      if (this.isWaiting(queued))
        queued.timer = this.options.clock.after(withinMs, () => this.refuse(connectionId, queued));
    });
  }

  /** Reads the state again: a batch may have been taken meanwhile. */
  private isWaiting({ state }: Queued<R, A>): boolean {
    return state === 'waiting';
  }

  private connectionOf(connectionId: string): Connection<R, A> {
    let connection = this.connections.get(connectionId);
    if (connection === undefined) {
      connection = { waiting: [], batchLimit: MAX_BATCH_EVENTS, running: 0, lastRequestAt: 0 };
      this.connections.set(connectionId, connection);
    }
    return connection;
  }

  /** Moves a connection in or out of the turns. */
  private settle(connectionId: string, connection: Connection<R, A>): void {
    if (connection.waiting.length > 0) this.turns.add(connectionId);
    else this.turns.delete(connectionId);
  }

  /** The number of active connections, at least 1. */
  private countActive(): number {
    const since = this.options.clock.now() - ACTIVE_FOR_MS;
    let active = 0;
    for (const { lastRequestAt, running } of this.connections.values())
      if (lastRequestAt > since || running > 0) active++;
    return Math.max(1, active);
  }

  /** The slots that each of the active connections may use at once. */
  private shareOf(active: number): number {
    const { count } = this.options;
    return Math.max(1, Math.min(count - LEFT_TO_OTHERS, Math.ceil(count / active)));
  }

  private startBatches(): void {
    if (this.turns.size === 0) return;
    const active = this.countActive();
    const share = this.shareOf(active);
    while (this.free > 0) {
      const connectionId = [...this.turns].find((each) => this.connectionOf(each).running < share);
      if (connectionId === undefined) return;
      const connection = this.connectionOf(connectionId);
      const batch = takeBatch(connection, active > 1 ? SMALLER_BESIDE_OTHERS : 1);
      for (const queued of batch) {
        queued.state = 'deciding';
        this.options.clock.cancel(queued.timer);
      }
      this.free--;
      connection.running++;
      // The connection moves behind the others, until its next turn.
      this.turns.delete(connectionId);
      this.settle(connectionId, connection);
      batch[0]?.inContext(() => void this.run(connectionId, connection, batch));
    }
  }

  private async run(
    connectionId: string,
    connection: Connection<R, A>,
    batch: readonly Queued<R, A>[],
  ): Promise<void> {
    try {
      const requests = batch.map(({ request }) => request);
      const { answers, isWhole } = await this.options.decide(connectionId, requests);
      connection.batchLimit = isWhole ? Math.min(MAX_BATCH_EVENTS, connection.batchLimit * 2) : 1;
      batch.forEach(({ resolve, reject }, index) => {
        const answer = answers[index];
        if (answer === undefined) reject(new Error('a request has no answer'));
        else resolve(answer);
      });
    } catch (error) {
      connection.batchLimit = 1;
      for (const { reject } of batch) reject(error);
    } finally {
      for (const queued of batch) queued.state = 'answered';
      this.free++;
      connection.running--;
      this.settle(connectionId, connection);
      this.startBatches();
    }
  }

  private refuse(connectionId: string, late: Queued<R, A>): void {
    // Another connection may be active no longer. Then this one has a larger share.
    this.startBatches();
    if (!this.isWaiting(late)) return;
    const connection = this.connectionOf(connectionId);
    const { waiting } = connection;
    waiting.splice(waiting.indexOf(late), 1);
    late.state = 'refused';
    this.settle(connectionId, connection);
    const { busy, beyondShare } = this.options;
    // A lone sender takes nothing from others: its batches wait for the store.
    late.resolve(this.free > 0 && this.countActive() > 1 ? beyondShare : busy);
  }
}

/**
 * Removes the next batch from the queue: the first request, and the next ones while the limits allow.
 *
 * @param smaller divides the limits
 */
function takeBatch<R extends Sized, A>(
  { waiting, batchLimit }: Connection<R, A>,
  smaller: number,
): Queued<R, A>[] {
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
