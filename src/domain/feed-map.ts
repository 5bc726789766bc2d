/** Ids of one feed. */
export interface FeedIds {
  readonly feedNo: number;
  readonly ids: readonly string[];
}

/** Values by feed and id: what an event or a round is known by (docs/rules.md, K1). */
export class FeedMap<V> {
  private readonly feeds = new Map<number, Map<string, V>>();

  get(feedNo: number, id: string): V | undefined {
    return this.feeds.get(feedNo)?.get(id);
  }

  has(feedNo: number, id: string): boolean {
    return this.feeds.get(feedNo)?.has(id) === true;
  }

  set(feedNo: number, id: string, value: V): void {
    const feed = this.feeds.get(feedNo);
    if (feed === undefined) this.feeds.set(feedNo, new Map([[id, value]]));
    else feed.set(id, value);
  }

  values(): V[] {
    return [...this.feeds.values()].flatMap((feed) => [...feed.values()]);
  }

  /** Each feed with its ids, both ascending: an order that all writers share. */
  inOrder(): FeedIds[] {
    return [...this.feeds]
      .sort(([a], [b]) => a - b)
      .map(([feedNo, values]) => ({ feedNo, ids: [...values.keys()].sort() }));
  }
}
