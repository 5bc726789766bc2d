/**
 * A number of places that senders share. No sender takes more than its share of them, senders that wait take turns, and
 * a holder that is slow goes for one that waits.
 */

/** A holder may keep its place so long, whoever waits for it. */
const KEPT_FOR_MS = 100;
const LOOK_EVERY_MS = 50;

export interface PlacesOptions {
  readonly places: number;
  /** Places of one sender. */
  readonly share: number;
  /** Requests that wait for a place, and those of one sender. */
  readonly waiting: number;
  readonly waitingShare: number;
}

export interface Place {
  /** May be called more than once. */
  release(): void;
}

/** Why there was no place: the sender has all of its share, or there are too few places. */
export type NoPlace = 'share' | 'short';

interface Holder {
  readonly sender: string;
  readonly since: number;
  /** Tells it to let go; null where it cannot. */
  readonly giveUp: (() => void) | null;
  isAsked: boolean;
}

interface Waiter {
  readonly giveUp: (() => void) | null;
  readonly settle: (result: Place | NoPlace) => void;
}

export class Places {
  private readonly holders = new Map<string, Set<Holder>>();
  /** In the order of their turns. */
  private readonly queues = new Map<string, Waiter[]>();
  private taken = 0;
  private waiting = 0;
  private looking: NodeJS.Timeout | undefined;

  constructor(private readonly options: PlacesOptions) {}

  /**
   * Takes a place of a sender, and waits for it no longer than so many milliseconds.
   *
   * @param giveUp told once the holder is slow and others wait; the holder then releases its place as soon as it can
   */
  take(sender: string, withinMs: number, giveUp: (() => void) | null = null): Promise<Place | NoPlace> {
    const { places, share, waitingShare } = this.options;
    if (this.taken < places && this.heldBy(sender) < share) return Promise.resolve(this.hold(sender, giveUp));
    if (this.queueOf(sender).length >= waitingShare) return Promise.resolve('share');
    if (this.waiting >= this.options.waiting && !this.shed(sender)) return Promise.resolve('short');
    return new Promise((resolve) => {
      const timer = setTimeout(() => {
        this.forget(sender, waiter);
        resolve(this.heldBy(sender) >= share ? 'share' : 'short');
      }, withinMs);
      const waiter: Waiter = {
        giveUp,
        settle(result) {
          clearTimeout(timer);
          resolve(result);
        },
      };
      const queue = this.queues.get(sender);
      if (queue === undefined) this.queues.set(sender, [waiter]);
      else queue.push(waiter);
      this.waiting++;
      this.looking ??= setInterval(() => this.askSlowOnes(), LOOK_EVERY_MS);
    });
  }

  private heldBy(sender: string): number {
    return this.holders.get(sender)?.size ?? 0;
  }

  private queueOf(sender: string): readonly Waiter[] {
    return this.queues.get(sender) ?? [];
  }

  private hold(sender: string, giveUp: (() => void) | null): Place {
    const holder: Holder = { sender, since: performance.now(), giveUp, isAsked: false };
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
      // Behind the others, until its next turn.
      const rest = this.queues.get(sender);
      if (rest !== undefined) {
        this.queues.delete(sender);
        this.queues.set(sender, rest);
      }
      next.settle(this.hold(sender, next.giveUp));
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
    clearInterval(this.looking);
    this.looking = undefined;
  }

  /** Ends the wait of the sender with the most waiting requests, where it has more of them than this one. */
  private shed(sender: string): boolean {
    let longest: readonly [string, readonly Waiter[]] = [sender, this.queueOf(sender)];
    for (const entry of this.queues) if (entry[1].length > longest[1].length) longest = entry;
    const last = longest[1].at(-1);
    if (longest[0] === sender || last === undefined) return false;
    this.forget(longest[0], last);
    last.settle('share');
    return true;
  }

  /** Has slow holders let go, one for each that waits: of its own sender where the share is used up, else of the largest. */
  private askSlowOnes(): void {
    const before = performance.now() - KEPT_FOR_MS;
    for (const [sender, queue] of this.queues) {
      const isOwn = this.heldBy(sender) >= this.options.share;
      for (let count = 0; count < queue.length; count++) {
        const slowest = this.slowestOf(isOwn ? [sender] : this.holders.keys(), before);
        if (slowest === null) break;
        slowest.isAsked = true;
        slowest.giveUp?.();
      }
    }
  }

  /** The slowest holder of the sender with the most slow ones. */
  private slowestOf(senders: Iterable<string>, before: number): Holder | null {
    let most: readonly Holder[] = [];
    for (const sender of senders) {
      const held = [...(this.holders.get(sender) ?? [])];
      const slow = held.filter(({ giveUp, isAsked, since }) => giveUp !== null && !isAsked && since < before);
      if (slow.length > most.length) most = slow;
    }
    return most[0] ?? null;
  }
}
