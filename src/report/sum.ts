export function sum(values: readonly number[]): number {
  return values.reduce((all, each) => all + each, 0);
}
