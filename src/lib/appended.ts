/**
 * A list with one more item, and no room for others. An array that grows by `push` or by a spread has room
 * for 17 items. The lists of promotions mostly have one, and tens of thousands of them are in memory.
 */
export const appended = <T>(list: readonly T[], item: T): T[] =>
  list.length === 0 ? [item] : list.concat([item]);
