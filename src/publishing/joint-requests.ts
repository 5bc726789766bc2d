/**
 * Sends the verdicts of several batches by one request. A topic of a request costs the broker as much as a
 * hundred messages, so few large requests are cheaper than many small ones.
 */
import { type Clock, systemClock, type Timer } from '../lib/clock';

/** Whether further verdicts come soon, so that a request to many topics may wait for them. */
export class VerdictSupply {
  private isComing = false;
  private onEnd = (): void => undefined;

  get isMoreComing(): boolean {
    return this.isComing;
  }

  /** @param isComing records wait, and a part of them is being decided */
  set(isComing: boolean): void {
    const hasEnded = this.isComing && !isComing;
    this.isComing = isComing;
    if (hasEnded) this.onEnd();
  }

  /** @param listener called each time that no more verdicts come soon */
  whenEnded(listener: () => void): void {
    this.onEnd = listener;
  }
}

type ByTopic<T> = ReadonlyMap<string, readonly T[]>;

/** Sends items to their topics by one request. @returns those that a topic did not take */
type SendAll<T> = (items: ByTopic<T>) => Promise<ByTopic<T>>;

/** A request that takes longer holds up no other one: its broker may never answer. */
const SLOW_MS = 500;
/** One request has no more items, unless they are of one batch. */
export const MOST_ITEMS = 16_000;
/** A request with this many items waits for no more. */
const ENOUGH_ITEMS = 8_000;
/** The longest wait for more items: the batch that has them may wait for a lock. */
const MOST_WAIT_MS = 500;

interface Batch<T> {
  readonly items: ByTopic<T>;
  readonly resolve: (unsent: ByTopic<T>) => void;
  readonly reject: (error: unknown) => void;
}

/**
 * @returns sends a batch together with those that came during the request before it, and resolves with what
 * no topic of the whole request took. While no request is under way, a batch is sent at once, unless more
 * come soon.
 *
 * @param supply knows whether more batches come soon
 */
export function makeJointRequests<T>(
  send: SendAll<T>,
  supply: VerdictSupply = new VerdictSupply(),
  clock: Pick<Clock, 'now' | 'after' | 'cancel'> = systemClock,
): SendAll<T> {
  const waiting: Batch<T>[] = [];
  let inFlight = 0;
  let beganAt = 0;
  /** Since when batches wait. */
  let since = 0;
  let timer: Timer | undefined;
  supply.whenEnded(beginIfDue);

  function beginIfDue(): void {
    clock.cancel(timer);
    timer = undefined;
    if (waiting.length === 0) return;
    const waitMs = dueAt() - clock.now();
    if (waitMs > 0) timer = clock.after(waitMs, beginIfDue);
    else void request(taken());
  }

  function dueAt(): number {
    if (inFlight > 0) return beganAt + SLOW_MS;
    return supply.isMoreComing && itemsOf(waiting) < ENOUGH_ITEMS ? since + MOST_WAIT_MS : since;
  }

  function taken(): Batch<T>[] {
    let items = 0;
    const beyond = waiting.findIndex((batch, index) => {
      items += itemsOf([batch]);
      return index > 0 && items > MOST_ITEMS;
    });
    return waiting.splice(0, beyond < 0 ? waiting.length : beyond);
  }

  async function request(batches: readonly Batch<T>[]): Promise<void> {
    beganAt = clock.now();
    inFlight++;
    try {
      const unsent = await send(joined(batches));
      for (const { resolve } of batches) resolve(unsent);
    } catch (error) {
      for (const { reject } of batches) reject(error);
    } finally {
      inFlight--;
      beginIfDue();
    }
  }

  return (items) =>
    new Promise((resolve, reject) => {
      if (waiting.length === 0) since = clock.now();
      waiting.push({ items, resolve, reject });
      beginIfDue();
    });
}

function itemsOf<T>(batches: readonly Batch<T>[]): number {
  let count = 0;
  for (const { items } of batches) for (const its of items.values()) count += its.length;
  return count;
}

function joined<T>(batches: readonly Batch<T>[]): ByTopic<T> {
  const all = new Map<string, readonly T[]>();
  for (const { items } of batches)
    for (const [topic, its] of items) {
      const before = all.get(topic);
      all.set(topic, before === undefined ? its : before.concat(its));
    }
  return all;
}
