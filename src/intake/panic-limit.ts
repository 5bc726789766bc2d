/** How many events may become panics: a bad deploy must not use up ids (docs/rules.md, V9). */

/** Beyond this rate, what fails alone stays undecided. */
export const MAX_PANICS_PER_MINUTE = 10;

export interface PanicLimit {
  /**
   * Takes a place before the panic is one: other partitions may be about to store theirs.
   *
   * @returns what gives the place back, where it became none; null where there is none left
   */
  take(): (() => void) | null;
}

/** @param now milliseconds of a clock that is never set */
export function makePanicLimit(now: () => number): PanicLimit {
  /** Each place is an object of its own, so that it can be given back whatever came after it. */
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
