/** What a program of the benchmark is told by its environment. */

export function told(name: string): string {
  const value = process.env[name];
  if (value === undefined) throw new Error(`${name} is not set`);
  return value;
}

export function toldNumber(name: string): number {
  const value = Number(told(name));
  if (!Number.isFinite(value)) throw new Error(`${name} is no number`);
  return value;
}
