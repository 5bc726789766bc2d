/** At most `free` turns at once; the others wait in the order in which they came. */
export class Turns {
  private readonly waiting: (() => void)[] = [];

  constructor(private free: number) {}

  async begin(): Promise<void> {
    if (this.free > 0) this.free--;
    else await new Promise<void>((resolve) => this.waiting.push(resolve));
  }

  end(): void {
    const next = this.waiting.shift();
    if (next === undefined) this.free++;
    else next();
  }

  /** Does something in a turn of its own. */
  async take<T>(work: () => Promise<T>): Promise<T> {
    await this.begin();
    try {
      return await work();
    } finally {
      this.end();
    }
  }

  /** Leaves the turn to others while something else is waited for. */
  async without<T>(promise: Promise<T>): Promise<T> {
    this.end();
    try {
      return await promise;
    } finally {
      await this.begin();
    }
  }
}
