/** A timer of `Clock.after`. A clock of tests may number its timers. */
export type Timer = NodeJS.Timeout | number;

/** The clock of the loops of a worker and of the requests of a webhook. Tests bring their own. */
export interface Clock {
  /** Milliseconds of a clock that only goes forward. */
  now(): number;
  /** Resolves after `ms`, or as soon as the signal is aborted. */
  sleep(ms: number, signal: AbortSignal): Promise<void>;
  /**
   * Calls `run` after `ms`, unless the timer is cancelled. It costs less than `sleep`: one timer, no promise.
   *
   * @param keepsProcess false: the process may end meanwhile, if nothing else keeps it
   */
  after(ms: number, run: () => void, keepsProcess?: boolean): Timer;
  cancel(timer: Timer | undefined): void;
}

export const systemClock: Clock = {
  now: () => performance.now(),
  after(ms, run, keepsProcess = true) {
    const timer = setTimeout(run, ms);
    return keepsProcess ? timer : timer.unref();
  },
  cancel: (timer) => clearTimeout(timer),
  sleep: (ms, signal) =>
    new Promise((resolve) => {
      if (signal.aborted) {
        resolve();
        return;
      }
      const done = () => {
        clearTimeout(timer);
        signal.removeEventListener('abort', done);
        resolve();
      };
      const timer = setTimeout(done, ms);
      signal.addEventListener('abort', done);
    }),
};

/** The signal for waits that nothing cuts short. */
export const NEVER = new AbortController().signal;

/** The result of a promise that did not settle in time. */
export const LATE = Symbol('late');

/**
 * Waits for a promise, but no longer than `ms`. After that, the work continues, and its failure is ignored.
 *
 * @param keepsProcess false: the process may end meanwhile, if nothing else keeps it
 */
export function inTime<T>(
  clock: Pick<Clock, 'after' | 'cancel'>,
  work: Promise<T>,
  ms: number,
  keepsProcess = true,
): Promise<T | typeof LATE> {
  return new Promise((resolve, reject) => {
    const timer = clock.after(ms, () => resolve(LATE), keepsProcess);
    work.then(resolve, reject).finally(() => clock.cancel(timer));
  });
}

/**
 * Seconds since a time in ms since 1970. 0 for a time in the future: clocks differ, and a record may have a
 * later time.
 */
export function secondsSince(timeMs: number): number {
  return Math.max(0, Date.now() - timeMs) / 1000;
}

/** A sender's clock may be ahead of ours by this much. */
const MAX_AHEAD_MS = 5_000;

/**
 * The age of a record in seconds, from its time in ms since 1970. Null where this cannot be its time: some
 * senders write other units, or none.
 */
export function ageOf(timestampMs: number): number | null {
  return timestampMs > 0 && timestampMs < Date.now() + MAX_AHEAD_MS ? secondsSince(timestampMs) : null;
}
