/** Random numbers that can be repeated: the seed determines all of them. */

export interface Random {
  /** A whole number from 0 to `count - 1`. */
  below(count: number): number;
  /** A whole number from `least` to `most`. */
  between(least: number, most: number): number;
  chance(probability: number): boolean;
  pick<T>(list: readonly T[]): T;
  /** Lower-case hexadecimal digits. */
  hex(digits: number): string;
  shuffled<T>(list: readonly T[]): T[];
}

/** The generator mulberry32: 32 bits of state, which is plenty for a feed. */
export function makeRandom(seed: number): Random {
  let state = seed >>> 0;

  function fraction(): number {
    state = (state + 0x6d2b79f5) >>> 0;
    let mixed = Math.imul(state ^ (state >>> 15), state | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  }

  const below = (count: number) => Math.floor(fraction() * count);
  return {
    below,
    between: (least, most) => least + below(most - least + 1),
    chance: (probability) => fraction() < probability,
    pick: (list) => elementOf(list, below(list.length)),
    hex: (digits) => Array.from({ length: digits }, () => below(16).toString(16)).join(''),
    shuffled: (list) =>
      list
        .map((element) => ({ element, rank: fraction() }))
        .sort((a, b) => a.rank - b.rank)
        .map(({ element }) => element),
  };
}

/** Picks by weight. The weights are summed once, since a feed picks millions of times. */
export function makeWeighted<T>(
  list: readonly T[],
  weightOf: (element: T, index: number) => number,
): (random: Random) => T {
  const sums: number[] = [];
  let total = 0;
  for (const [index, element] of list.entries()) {
    total += weightOf(element, index);
    sums.push(total);
  }
  const steps = 2 ** 31;
  return (random) => {
    const wanted = (random.below(steps) / steps) * total;
    let low = 0;
    let high = sums.length - 1;
    while (low < high) {
      const middle = (low + high) >> 1;
      if ((sums[middle] ?? total) > wanted) high = middle;
      else low = middle + 1;
    }
    return elementOf(list, low);
  };
}

function elementOf<T>(list: readonly T[], index: number): T {
  const element = list[index];
  if (element === undefined) throw new RangeError(`a list of ${list.length} has no element ${index}`);
  return element;
}
