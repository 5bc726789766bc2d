/** Ids of one feed. */
export interface FeedIds {
  readonly feedNo: number;
  readonly ids: readonly string[];
}

/**
 * Compares ids in the order that all writers share: by the feed's number, then by UTF-16. Never returns 0,
 * since no id is listed twice.
 */
export function compareIds(feedNo: number, id: string, otherFeedNo: number, otherId: string): number {
  if (feedNo !== otherFeedNo) return feedNo - otherFeedNo;
  return id < otherId ? -1 : 1;
}

/** Values by feed and id, the key of an event or a round (docs/rules.md, K1). */
export class FeedMap<V> {
  private readonly feeds = new Map<number, Map<string, V>>();
  /** The feed of the last call. The next call nearly always names the same feed. */
  private lastNo = Number.NaN;
  private last: Map<string, V> | undefined;

  get(feedNo: number, id: string): V | undefined {
    return this.feed(feedNo)?.get(id);
  }

  has(feedNo: number, id: string): boolean {
    return this.feed(feedNo)?.has(id) === true;
  }

  set(feedNo: number, id: string, value: V): void {
    let feed = this.feed(feedNo);
    if (feed === undefined) {
      feed = new Map();
      this.feeds.set(feedNo, feed);
      this.last = feed;
    }
    feed.set(id, value);
  }

  private feed(feedNo: number): Map<string, V> | undefined {
    if (feedNo !== this.lastNo) {
      this.lastNo = feedNo;
      this.last = this.feeds.get(feedNo);
    }
    return this.last;
  }

  isEmpty(): boolean {
    return this.feeds.size === 0;
  }

  values(): V[] {
    return [...this.feeds.values()].flatMap((feed) => [...feed.values()]);
  }

  forEach(visit: (feedNo: number, id: string, value: V) => void): void {
    for (const [feedNo, values] of this.feeds) {
      values.forEach((value, id) => {
        visit(feedNo, id, value);
      });
    }
  }

  /** The feeds in ascending order, each with its ids in ascending order, as `compareIds` orders them. */
  inOrder(): FeedIds[] {
    return [...this.feeds]
      .sort(([a], [b]) => a - b)
      .map(([feedNo, values]) => ({ feedNo, ids: [...values.keys()].sort() }));
  }
}
