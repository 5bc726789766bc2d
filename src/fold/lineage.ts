/**
 * The lineage of a store, as `promo.lineage()` returns it. It has the system, the timeline, and the number of
 * arrivals from other cells. Where fsync is off, it has the start of the server, too.
 */

/** The meaning of a change of the lineage for results that were folded before. */
export type LineageChange =
  /** The same store. */
  | 'none'
  /**
   * Another server has the store: a replica was promoted, or a copy was restored. Cursor and results are rows
   * of the same copy as history, so they agree with it.
   */
  | 'another server'
  /** Rows with lower numbers than the cursor may have come, or rows may be lost: only a rebuild is exact. */
  | 'other rows';

interface Lineage {
  readonly arrivals: string | undefined;
  readonly unsafeStart: string | undefined;
}

const read = (lineage: string): Lineage => {
  const [, , arrivals, unsafeStart] = lineage.split('/');
  return { arrivals, unsafeStart };
};

export function compareLineages(folded: string, present: string): LineageChange {
  if (folded === present) return 'none';
  const [before, now] = [read(folded), read(present)];
  return before.arrivals === now.arrivals && before.unsafeStart === now.unsafeStart
    ? 'another server'
    : 'other rows';
}

/** Whether numbers of another store lie among those of this one. Then their order is not that of time. */
export const hasArrivals = (lineage: string): boolean => read(lineage).arrivals !== '0';
