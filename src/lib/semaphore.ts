/** At most so many holders at once; the others wait in the order in which they came. */
export class Semaphore {
  private readonly waiting: (() => void)[] = [];

  constructor(private free: number) {}

  /** Whether there is a place that nobody waits for. */
  get hasFree(): boolean {
    return this.free > 0;
  }

  async acquire(): Promise<void> {
    if (this.free > 0) this.free--;
    else await new Promise<void>((resolve) => this.waiting.push(resolve));
  }

  /** @returns whether there was a place within so many milliseconds */
  acquireWithin(ms: number): Promise<boolean> {
    if (this.free > 0) {
      this.free--;
      return Promise.resolve(true);
    }
    return new Promise((resolve) => {
      const take = () => {
        clearTimeout(timer);
        resolve(true);
      };
      const timer = setTimeout(() => {
        this.waiting.splice(this.waiting.indexOf(take), 1);
        resolve(false);
      }, ms);
      this.waiting.push(take);
    });
  }

  release(): void {
    const next = this.waiting.shift();
    if (next === undefined) this.free++;
    else next();
  }

  /** Leaves the place to others while something else is waited for. */
  async releasedWhile<T>(promise: Promise<T>): Promise<T> {
    this.release();
    try {
      return await promise;
    } finally {
      await this.acquire();
    }
  }
}
