/** Medians and percentiles. */

export function median(values: readonly number[]): number {
  const sorted = [...values].sort((a, b) => a - b);
  const middle = Math.floor(sorted.length / 2);
  const upper = sorted[middle] ?? Number.NaN;
  return sorted.length % 2 === 1 ? upper : (upper + (sorted[middle - 1] ?? Number.NaN)) / 2;
}

/** A value and its number of occurrences. */
export interface Weighted {
  readonly value: number;
  readonly count: number;
}

/**
 * The smallest value that at least the share of all values does not exceed. This is the nearest-rank method,
 * which needs no interpolation.
 *
 * @param shares from 0 to 1
 * @returns one value for each share; NaN without values
 */
export function percentiles(values: readonly Weighted[], shares: readonly number[]): number[] {
  const sorted = [...values].sort((a, b) => a.value - b.value);
  const total = sorted.reduce((sum, { count }) => sum + count, 0);
  return shares.map((share) => {
    const rank = Math.max(1, Math.ceil(share * total - ROUNDING));
    let seen = 0;
    for (const { value, count } of sorted) {
      seen += count;
      if (seen >= rank) return value;
    }
    return Number.NaN;
  });
}

/** In floating point, 0.999 times a thousand is a little more than 999. */
const ROUNDING = 1e-6;

export function sumOf<T>(list: readonly T[], pick: (element: T) => number): number {
  return list.reduce((sum, element) => sum + pick(element), 0);
}

/** Rounds to at most this many decimals. */
export function rounded(value: number, decimals = 2): number {
  return Number(value.toFixed(decimals));
}
