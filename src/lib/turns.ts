/** Turns, one after the other, in the order in which they were asked for. */
export class Turns {
  /** Resolves at the end of the last one. */
  private last: Promise<void> = Promise.resolve();

  /** @param longest resolves when a turn has lasted long enough, or as soon as it is ended; absent: only its holder ends it */
  constructor(private readonly longest?: (ended: AbortSignal) => Promise<void>) {}

  /** Waits for a turn. @returns what ends it */
  async take(): Promise<() => void> {
    const before = this.last;
    let end = (): void => undefined;
    this.last = new Promise((resolve) => {
      end = resolve;
    });
    await before;
    if (this.longest === undefined) return end;
    const ended = new AbortController();
    void this.longest(ended.signal).then(end);
    return () => ended.abort();
  }
}
