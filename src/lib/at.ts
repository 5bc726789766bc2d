/** The element at an index. @throws Error where the list is shorter: a defect */
export function at<T>(list: readonly T[], index: number): T {
  const element = list[index];
  if (element === undefined) throw new Error(`a list of ${list.length} has no element ${index}`);
  return element;
}
