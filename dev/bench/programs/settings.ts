/** Settings of a program of the benchmark, from its environment. */

export function setting(name: string): string {
  const value = process.env[name];
  if (value === undefined) throw new Error(`${name} is not set`);
  return value;
}

export function numberSetting(name: string): number {
  const value = Number(setting(name));
  if (!Number.isFinite(value)) throw new Error(`${name} is no number`);
  return value;
}
