/**
 * Map.groupBy, which Node 20 lacks. Groups are in the order of their first elements, elements in the list's
 * order.
 */
export function groupBy<T, K>(list: readonly T[], keyOf: (element: T) => K): Map<K, T[]> {
  const groups = new Map<K, T[]>();
  for (const element of list) {
    const key = keyOf(element);
    const group = groups.get(key);
    if (group === undefined) groups.set(key, [element]);
    else group.push(element);
  }
  return groups;
}
