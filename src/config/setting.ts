/** What a setting is, and the kinds of values that several settings have. */
import { readFileSync } from 'node:fs';

/** What is wrong with a value, and what to do about it. */
export interface Problem {
  readonly problem: string;
  readonly remedy: string;
}

export type Parsed<T> = { readonly value: T } | Problem;

/** What a value may be, for those who check it before it comes here, as the schema of the chart does. */
export type Accepts =
  | { readonly values: readonly string[] }
  | { readonly least: number; readonly most: number }
  /** The path of a file. */
  | { readonly file: true };

/** Reads a value. @returns the value, or what is wrong with the text. A problem with a secret does not repeat it. */
export interface Parse<T> {
  (text: string): Parsed<T>;
  readonly accepts?: Accepts;
}

export interface Setting<T> {
  readonly describe: string;
  /** What is used where the variable is absent, as it would be written. Undefined: see `required`. */
  readonly fallback?: string;
  readonly required?: true;
  /** The value may also stand in a file, which the variable NAME_FILE names; see `secretFrom`. */
  readonly secret?: true;
  readonly example: string;
  readonly parse: Parse<T>;
}

export type ValueOf<S> = S extends { readonly parse: (text: string) => Parsed<infer T> } ? T : never;

/** A function, so that whatever prints a configuration prints none of it, and a file can be read anew. */
export type Secret = () => string;

export const FILE_SUFFIX = '_FILE';

export function setting<T>(definition: Setting<T>): Setting<T> {
  return definition;
}

/** @param check what is wrong with the text, if anything, in words that do not repeat it */
export function secret(
  definition: Omit<Setting<Secret>, 'secret' | 'parse'> & {
    readonly check?: (text: string) => Problem | undefined;
  },
): Setting<Secret> {
  const { check, ...rest } = definition;
  return { ...rest, secret: true, parse: (text) => check?.(text) ?? { value: () => text } };
}

export function text(text: string): { value: string } {
  return { value: text };
}

export function oneOf<T extends string>(values: readonly T[], what: string): Parse<T> {
  const parse = (text: string): Parsed<T> => {
    const value = values.find((each) => each === text);
    return value === undefined
      ? { problem: `"${text}" is not ${what}`, remedy: `Use one of ${values.join(', ')}` }
      : { value };
  };
  return Object.assign(parse, { accepts: { values } });
}

export function integer(least: number, most: number): Parse<number> {
  const parse = (text: string) => {
    const value = /^\d{1,9}$/.test(text) ? Number(text) : Number.NaN;
    if (value >= least && value <= most) return { value };
    return {
      problem: `"${text}" is not a whole number from ${least} to ${most}`,
      remedy: 'Correct the number',
    };
  };
  return Object.assign(parse, { accepts: { least, most } });
}

export function url(...protocols: string[]) {
  return (text: string): Parsed<string> => {
    const parsed = URL.canParse(text) ? new URL(text) : undefined;
    // The text itself is not repeated: it may hold a password.
    if (parsed === undefined || !protocols.includes(parsed.protocol) || !text.includes('://')) {
      return { problem: 'is not an address', remedy: `Write ${protocols.join('// or ')}//host:port/...` };
    }
    return { value: text };
  };
}

/** The same for what is asked by fetch, which takes no address with a user. @param instead the settings to name the user by */
export function urlWithoutUser(instead: string, ...protocols: string[]) {
  const parse = url(...protocols);
  return (text: string): Parsed<string> => {
    const parsed = parse(text);
    if ('problem' in parsed) return parsed;
    const { username, password } = new URL(text);
    if (username === '' && password === '') return parsed;
    return { problem: 'holds a user or a password', remedy: `Take it out, and set ${instead}` };
  };
}

/**
 * The text of a file, read anew at each call: secrets and certificates are replaced while we run. One that is missing for a moment, as
 * while it is replaced, counts as unchanged. A line break at its end is not part of it.
 *
 * @throws where it cannot be read now, the first time
 */
export function fileText(path: string): () => string {
  const read = () => readFileSync(path, 'utf8').replace(/\r?\n$/, '');
  let last = read();
  return () => {
    try {
      last = read();
    } catch {
      // Whoever is given what has become wrong meanwhile will say so.
    }
    return last;
  };
}

/** The file of a setting, as `fileText`, or why it cannot be used. */
export function openFile(path: string): Parsed<() => string> {
  try {
    const text = fileText(path);
    if (text() !== '') return { value: text };
    return { problem: `the file ${path} is empty`, remedy: 'Fill it, or name another one' };
  } catch (error) {
    const code =
      typeof error === 'object' && error !== null && 'code' in error ? error.code : 'unknown error';
    const remedy = 'Correct the path, or let this process read the file';
    return { problem: `the file ${path} cannot be read (${code})`, remedy };
  }
}
