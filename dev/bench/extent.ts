/** The size of a run: numbers and words from the environment, each with the default of its mode. */

export type ExtentValue = number | readonly number[] | string;

/** Defaults by name; `events` is what BENCH_EVENTS changes. */
export type Defaults = Readonly<Record<string, ExtentValue>>;

const PREFIX = 'BENCH_';

export class ExtentError extends Error {
  override readonly name = 'ExtentError';
}

export class Extent {
  private readonly values: ReadonlyMap<string, ExtentValue>;

  /** @throws ExtentError for a value that is no number, and for a name that the mode does not have */
  constructor(defaults: Defaults, environment: Readonly<Record<string, string | undefined>>) {
    const known = new Map(Object.entries(defaults).map(([name, value]) => [variableOf(name), value]));
    for (const variable of Object.keys(environment)) {
      if (variable.startsWith(PREFIX) && !known.has(variable)) {
        const list = [...known.keys()].join(', ');
        throw new ExtentError(`${variable} is not used by this mode, whose variables are ${list}`);
      }
    }
    this.values = new Map(
      Object.entries(defaults).map(([name, value]) => [name, read(variableOf(name), value, environment)]),
    );
  }

  has(name: string): boolean {
    return this.values.has(name);
  }

  number(name: string): number {
    const value = this.values.get(name);
    if (typeof value !== 'number') throw new ExtentError(`this mode has no number ${name}`);
    return value;
  }

  numbers(name: string): readonly number[] {
    const value = this.values.get(name);
    if (typeof value !== 'object') throw new ExtentError(`this mode has no list ${name}`);
    return value;
  }

  word(name: string): string {
    const value = this.values.get(name);
    if (typeof value !== 'string') throw new ExtentError(`this mode has no word ${name}`);
    return value;
  }

  /** The extent as environment variables, as one would write them before the command. */
  describe(): string {
    return describeExtent(Object.fromEntries(this.values));
  }
}

export function describeExtent(values: Defaults): string {
  return Object.entries(values)
    .map(([name, value]) => `${variableOf(name)}=${value}`)
    .join(' ');
}

function variableOf(name: string): string {
  return PREFIX + name.toUpperCase();
}

function read(
  variable: string,
  fallback: ExtentValue,
  environment: Readonly<Record<string, string | undefined>>,
): ExtentValue {
  const text = environment[variable]?.trim();
  if (text === undefined || text === '') return fallback;
  if (typeof fallback === 'string') return text;
  if (typeof fallback === 'number') return toNumber(variable, text);
  return text.split(',').map((entry) => toNumber(variable, entry.trim()));
}

function toNumber(variable: string, text: string): number {
  const value = text === '' ? Number.NaN : Number(text);
  if (Number.isFinite(value) && value >= 0) return value;
  throw new ExtentError(`${variable}: "${text}" is not a number from 0 on`);
}
