/** Limits the events that become panics: a bad deployment must not use up ids (docs/rules.md, V9). */

/** Beyond this rate, an event that fails alone stays undecided. */
export const MAX_PANICS_PER_MINUTE = 10;

export interface PanicLimit {
  /**
   * Takes a place before the panic is stored: other partitions may be about to store theirs.
   *
   * @returns a function that returns the place if no panic was stored; null if no place is left
   */
  take(): (() => void) | null;
}

/** @param now milliseconds of a clock that is never set */
export function makePanicLimit(now: () => number): PanicLimit {
  /** Each place is an object of its own, so that it can be returned in any order. */
  let taken: readonly { readonly at: number }[] = [];
  return {
    take() {
      const place = { at: now() };
      taken = taken.filter(({ at }) => at >= place.at - 60_000);
      if (taken.length >= MAX_PANICS_PER_MINUTE) return null;
      taken = [...taken, place];
      return () => {
        taken = taken.filter((other) => other !== place);
      };
    },
  };
}
