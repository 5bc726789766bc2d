/** Time as the loops see it, so that tests can bring their own. */
export interface Clock {
  /** Milliseconds of a clock that only goes forward. */
  now(): number;
  /** Resolves after `ms`, or as soon as the signal is aborted. */
  sleep(ms: number, signal: AbortSignal): Promise<void>;
}

export const systemClock: Clock = {
  now: () => performance.now(),
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

/** For waits that nothing cuts short. */
export const NEVER = new AbortController().signal;

/** Stands for what did not come in time. */
export const LATE = Symbol('late');

/**
 * Waits for something, but no longer than this. It goes on where it is given up, and may fail then: nobody is told.
 *
 * @param keepsProcess false: the process may end meanwhile, if nothing else keeps it
 */
export function inTime<T>(work: Promise<T>, ms: number, keepsProcess = true): Promise<T | typeof LATE> {
  return new Promise((resolve, reject) => {
    const timer = setTimeout(() => resolve(LATE), ms);
    if (!keepsProcess) timer.unref();
    work.then(resolve, reject).finally(() => clearTimeout(timer));
  });
}

/** Seconds since a time in ms since 1970; 0 for one that is still to come: clocks differ, and a record may come from the future. */
export function secondsSince(timeMs: number): number {
  return Math.max(0, Date.now() - timeMs) / 1000;
}

/** The clock of a sender may be so much ahead of ours. */
const MAX_AHEAD_MS = 5_000;

/** Seconds since a record was made, by its time in ms since 1970; null where that cannot be its time: some senders write other units, or none. */
export function ageOf(timestampMs: number): number | null {
  return timestampMs > 0 && timestampMs < Date.now() + MAX_AHEAD_MS ? secondsSince(timestampMs) : null;
}
