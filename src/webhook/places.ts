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
  /** Others wait for the place, and its holder is slow. */
  readonly isEvicted: boolean;
  /** Called once the place is evicted. The holder then releases it soon, or does nothing while it cannot. */
  onEvicted: () => void;
  /** Further calls do nothing. */
  release(): void;
}

/** Why there was no place: the sender has its whole share, or there are too few places. */
export type NoPlace = 'share' | 'short';

interface HeldPlace extends Place {
  readonly sender: string;
  readonly since: number;
  isEvicted: boolean;
}

interface Waiter {
  readonly settle: (result: Place | NoPlace) => void;
}

export class Places {
  private readonly held = new Map<string, Set<HeldPlace>>();
  /** By sender, in the order of their turns. */
  private readonly queues = new Map<string, Waiter[]>();
  private taken = 0;
  private waiting = 0;
  private checks: Timer | undefined;

  constructor(private readonly options: PlacesOptions) {}

  /** Takes a place for a sender, and waits at most `withinMs` for it. */
  take(sender: string, withinMs: number): Promise<Place | NoPlace> {
    const { places, share, waitingShare, clock } = this.options;
    if (this.taken < places && this.heldBy(sender) < share) return Promise.resolve(this.hold(sender));
    if (this.queueOf(sender).length >= waitingShare) return Promise.resolve('share');
    if (this.waiting >= this.options.waiting && !this.shed(sender)) return Promise.resolve('short');
    return new Promise((resolve) => {
      const timer = clock.after(withinMs, () => {
        this.forget(sender, waiter);
        resolve(this.heldBy(sender) >= share ? 'share' : 'short');
      });
      const waiter: Waiter = {
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
    return this.held.get(sender)?.size ?? 0;
  }

  private queueOf(sender: string): readonly Waiter[] {
    return this.queues.get(sender) ?? [];
  }

  private hold(sender: string): Place {
    const place: HeldPlace = {
      sender,
      since: this.options.clock.now(),
      isEvicted: false,
      onEvicted: () => undefined,
      release: () => this.release(place),
    };
    const held = this.held.get(sender);
    if (held === undefined) this.held.set(sender, new Set([place]));
    else held.add(place);
    this.taken++;
    return place;
  }

  private release(place: HeldPlace): void {
    const held = this.held.get(place.sender);
    if (held === undefined || !held.delete(place)) return;
    if (held.size === 0) this.held.delete(place.sender);
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
      next.settle(this.hold(sender));
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
        const slowest = this.slowestOf(isOwn ? [sender] : this.held.keys(), before);
        if (slowest === null) break;
        slowest.isEvicted = true;
        slowest.onEvicted();
      }
    }
  }

  /** The place of the slowest holder, of the sender with the most slow ones. */
  private slowestOf(senders: Iterable<string>, before: number): HeldPlace | null {
    let most: readonly HeldPlace[] = [];
    for (const sender of senders) {
      const held = [...(this.held.get(sender) ?? [])];
      const slow = held.filter(({ isEvicted, since }) => !isEvicted && since < before);
      if (slow.length > most.length) most = slow;
    }
    return most[0] ?? null;
  }
}

// --- the end of a place

/** The time to read an answer while another request waits for the place. */
const READ_SOON_WITHIN_MS = 200;

export interface Departing {
  /** Resolves once the answer has left, or can no longer leave. */
  readonly sent: Promise<unknown>;
  /** Ends the network connection, since its peer does not read. */
  dropUnread(): void;
}

/**
 * Resolves once an answer is made and has left, or the work has failed. A request holds its place until then,
 * so that unread answers have a limit. Once the place is evicted, the sender has to read its answer soon.
 */
export async function untilLeft(
  clock: Clock,
  place: Place,
  departing: Departing,
  answer: Promise<unknown>,
): Promise<void> {
  let isAnswered = false;
  let limit: Timer | undefined;
  const limitUnread = () => {
    if (isAnswered && place.isEvicted)
      limit ??= clock.after(READ_SOON_WITHIN_MS, () => departing.dropUnread(), false);
  };
  place.onEvicted = limitUnread;
  await Promise.allSettled([answer]);
  isAnswered = true;
  limitUnread();
  await departing.sent;
  clock.cancel(limit);
}

/** Releases a place after this time, or once it is evicted. */
export function releaseLater(clock: Clock, place: Place, ms: number): void {
  if (place.isEvicted) {
    place.release();
    return;
  }
  const timer = clock.after(ms, () => place.release(), false);
  place.onEvicted = () => {
    clock.cancel(timer);
    place.release();
  };
}
