/** Grants turns one after the other, in the order of the calls. */
export class Turns {
  /** Resolves at the end of the latest turn. */
  private last: Promise<void> = Promise.resolve();

  /**
   * @param longest resolves when a turn has lasted long enough, or as soon as the turn ends. Where it is
   * absent, only the holder ends the turn.
   */
  constructor(private readonly longest?: (ended: AbortSignal) => Promise<void>) {}

  /** Waits for a turn. @returns the function that ends it */
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
