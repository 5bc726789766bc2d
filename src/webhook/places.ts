/**
 * A fixed number of places that senders share. No sender takes more than its share. Waiting senders take
 * turns. A slow holder is evicted if another request waits for a place.
 */
import type { Clock, Timer } from '../lib/clock';

/** A holder keeps its place for at least this time, even if others wait. */
const KEPT_FOR_MS = 100;
const CHECK_EVERY_MS = 50;

export interface PlacesOptions {
  readonly clock: Clock;
  readonly places: number;
  /** The most places of one sender. */
  readonly share: number;
  /** The most requests that wait for a place: of all senders, and of one sender. */
  readonly waiting: number;
  readonly waitingShare: number;
}

export interface Place {
  /** Further calls do nothing. */
  release(): void;
}

/** Why there was no place: the sender has its whole share, or there are too few places. */
export type NoPlace = 'share' | 'short';

interface Holder {
  readonly sender: string;
  readonly since: number;
  /** Asks the holder to release its place soon; null if the holder cannot. */
  readonly evict: (() => void) | null;
  isEvicted: boolean;
}

interface Waiter {
  readonly evict: (() => void) | null;
  readonly settle: (result: Place | NoPlace) => void;
}

export class Places {
  private readonly holders = new Map<string, Set<Holder>>();
  /** By sender, in the order of their turns. */
  private readonly queues = new Map<string, Waiter[]>();
  private taken = 0;
  private waiting = 0;
  private checks: Timer | undefined;

  constructor(private readonly options: PlacesOptions) {}

  /**
   * Takes a place for a sender, and waits at most `withinMs` for it.
   *
   * @param evict called once the holder is slow and others wait: it must then release its place soon
   */
  take(sender: string, withinMs: number, evict: (() => void) | null = null): Promise<Place | NoPlace> {
    const { places, share, waitingShare, clock } = this.options;
    if (this.taken < places && this.heldBy(sender) < share) return Promise.resolve(this.hold(sender, evict));
    if (this.queueOf(sender).length >= waitingShare) return Promise.resolve('share');
    if (this.waiting >= this.options.waiting && !this.shed(sender)) return Promise.resolve('short');
    return new Promise((resolve) => {
      const timer = clock.after(withinMs, () => {
        this.forget(sender, waiter);
        resolve(this.heldBy(sender) >= share ? 'share' : 'short');
      });
      const waiter: Waiter = {
        evict,
        settle(result) {
          clock.cancel(timer);
          resolve(result);
        },
      };
      const queue = this.queues.get(sender);
      if (queue === undefined) this.queues.set(sender, [waiter]);
      else queue.push(waiter);
      this.waiting++;
      this.checks ??= clock.after(CHECK_EVERY_MS, () => this.check());
    });
  }

  /** Places in use, and requests that wait for one. */
  get load(): { readonly taken: number; readonly waiting: number } {
    return { taken: this.taken, waiting: this.waiting };
  }

  private heldBy(sender: string): number {
    return this.holders.get(sender)?.size ?? 0;
  }

  private queueOf(sender: string): readonly Waiter[] {
    return this.queues.get(sender) ?? [];
  }

  private hold(sender: string, evict: (() => void) | null): Place {
    const holder: Holder = { sender, since: this.options.clock.now(), evict, isEvicted: false };
    const held = this.holders.get(sender);
    if (held === undefined) this.holders.set(sender, new Set([holder]));
    else held.add(holder);
    this.taken++;
    return { release: () => this.release(holder) };
  }

  private release(holder: Holder): void {
    const held = this.holders.get(holder.sender);
    if (held === undefined || !held.delete(holder)) return;
    if (held.size === 0) this.holders.delete(holder.sender);
    this.taken--;
    for (const [sender, [next]] of this.queues) {
      if (next === undefined || this.heldBy(sender) >= this.options.share) continue;
      this.forget(sender, next);
      // The sender moves behind the others, until its next turn.
      const rest = this.queues.get(sender);
      if (rest !== undefined) {
        this.queues.delete(sender);
        this.queues.set(sender, rest);
      }
      next.settle(this.hold(sender, next.evict));
      return;
    }
  }

  private forget(sender: string, waiter: Waiter): void {
    const queue = this.queues.get(sender);
    const index = queue?.indexOf(waiter) ?? -1;
    if (queue === undefined || index < 0) return;
    queue.splice(index, 1);
    this.waiting--;
    if (queue.length === 0) this.queues.delete(sender);
    if (this.waiting > 0) return;
    this.options.clock.cancel(this.checks);
    this.checks = undefined;
  }

  /** Refuses the last waiting request of the sender with the most, unless this sender has as many. */
  private shed(sender: string): boolean {
    let longest: readonly [string, readonly Waiter[]] = [sender, this.queueOf(sender)];
    for (const entry of this.queues) if (entry[1].length > longest[1].length) longest = entry;
    const last = longest[1].at(-1);
    if (longest[0] === sender || last === undefined) return false;
    this.forget(longest[0], last);
    last.settle('share');
    return true;
  }

  /** Repeats while requests wait. */
  private check(): void {
    this.evictSlowHolders();
    this.checks = this.options.clock.after(CHECK_EVERY_MS, () => this.check());
  }

  /**
   * Evicts a slow holder for each waiting request. The holder is one of the same sender if its share is used
   * up, else one of the sender with the most slow holders.
   */
  private evictSlowHolders(): void {
    const before = this.options.clock.now() - KEPT_FOR_MS;
    for (const [sender, queue] of this.queues) {
      const isOwn = this.heldBy(sender) >= this.options.share;
      for (let count = 0; count < queue.length; count++) {
        const slowest = this.slowestOf(isOwn ? [sender] : this.holders.keys(), before);
        if (slowest === null) break;
        slowest.isEvicted = true;
        slowest.evict?.();
      }
    }
  }

  /** The slowest holder of the sender with the most slow ones. */
  private slowestOf(senders: Iterable<string>, before: number): Holder | null {
    let most: readonly Holder[] = [];
    for (const sender of senders) {
      const held = [...(this.holders.get(sender) ?? [])];
      const slow = held.filter(
        ({ evict, isEvicted, since }) => evict !== null && !isEvicted && since < before,
      );
      if (slow.length > most.length) most = slow;
    }
    return most[0] ?? null;
  }
}

// --- the departure of an answer

/** The time to read an answer while another request waits for the place. */
const READ_SOON_WITHIN_MS = 200;

export interface Departing {
  /** Resolves once the answer has left, or can no longer leave. */
  readonly sent: Promise<unknown>;
  /** Ends the network connection, since its peer does not read. */
  dropUnread(): void;
}

/**
 * The departure of an answer. A request holds its place until its answer has left, so that unread answers
 * have a limit. Once another request waits for the place, the sender has to read its answer soon.
 */
export class AnswerDeparture {
  /** Whether another request waits for the place. */
  isAwaited = false;
  private isAnswered = false;
  private limit: Timer | undefined;

  constructor(
    private readonly clock: Clock,
    private readonly incoming: Departing,
  ) {}

  /** Called once another request waits for the place: see Places. */
  readonly hurry = (): void => {
    this.isAwaited = true;
    this.limitUnread();
  };

  /** Resolves once the answer is made and has left, or the work has failed. */
  async ended(answer: Promise<unknown>): Promise<void> {
    await Promise.allSettled([answer]);
    this.isAnswered = true;
    this.limitUnread();
    await this.incoming.sent;
    this.clock.cancel(this.limit);
  }

  private limitUnread(): void {
    if (!this.isAnswered || !this.isAwaited) return;
    this.limit ??= this.clock.after(READ_SOON_WITHIN_MS, () => this.incoming.dropUnread(), false);
  }
}
