/**
 * Sends the verdicts of several batches by one request. A topic of a request costs the broker as much as a
 * hundred messages, so few large requests are cheaper than many small ones.
 */
import { type Clock, systemClock, type Timer } from '../lib/clock';

type ByTopic<T> = ReadonlyMap<string, readonly T[]>;

/** Sends items to their topics by one request. @returns those that a topic did not take */
type SendAll<T> = (items: ByTopic<T>) => Promise<ByTopic<T>>;

/** A request that takes longer holds up no other one: its broker may never answer. */
const SLOW_MS = 500;
/** One request has no more items, unless they are of one batch. */
export const MOST_ITEMS = 16_000;

interface Batch<T> {
  readonly items: ByTopic<T>;
  readonly resolve: (unsent: ByTopic<T>) => void;
  readonly reject: (error: unknown) => void;
}

/**
 * @returns sends a batch together with those that came during the request before it, and resolves with what
 * no topic of the whole request took. While no request is under way, a batch is sent at once.
 */
export function makeJointRequests<T>(
  send: SendAll<T>,
  clock: Pick<Clock, 'now' | 'after' | 'cancel'> = systemClock,
): SendAll<T> {
  const waiting: Batch<T>[] = [];
  let inFlight = 0;
  let beganAt = 0;
  let timer: Timer | undefined;

  function beginIfDue(): void {
    clock.cancel(timer);
    timer = undefined;
    if (waiting.length === 0) return;
    const waitMs = inFlight > 0 ? beganAt + SLOW_MS - clock.now() : 0;
    if (waitMs > 0) timer = clock.after(waitMs, beginIfDue);
    else void request(taken());
  }

  function taken(): Batch<T>[] {
    let items = 0;
    const beyond = waiting.findIndex((batch, index) => {
      for (const its of batch.items.values()) items += its.length;
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
      waiting.push({ items, resolve, reject });
      beginIfDue();
    });
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
