/** The type of a setting, and the types of values that several settings share. */
import { readFileSync } from 'node:fs';
import { isIP, isIPv6 } from 'node:net';

/** A fault of a value, and its remedy. */
export interface Problem {
  readonly problem: string;
  readonly remedy: string;
}

export type Parsed<T> = { readonly value: T } | Problem;

/** The values that a setting accepts, for other checks than this parser: the schema of the chart uses it. */
export type Accepts =
  | { readonly values: readonly string[] }
  | { readonly least: number; readonly most: number }
  /** The path of a file. */
  | { readonly file: true };

/**
 * Reads a value.
 * @returns the value or the fault. The fault of a secret does not repeat the secret.
 */
export interface Parse<T> {
  (text: string): Parsed<T>;
  readonly accepts?: Accepts;
}

export interface Setting<T> {
  readonly describe: string;
  /** The text that is parsed where the variable is absent. Undefined: there is no default; see `required`. */
  readonly fallback?: string;
  readonly required?: true;
  /** The value may also be in a file, which the variable NAME_FILE names; see `fileText`. */
  readonly secret?: true;
  readonly example: string;
  readonly parse: Parse<T>;
}

export type ValueOf<S> = S extends { readonly parse: (text: string) => Parsed<infer T> } ? T : never;

/** A function, so that printing a configuration prints no secret, and so that a file can be read again. */
export type Secret = () => string;

export const FILE_SUFFIX = '_FILE';

export function setting<T>(definition: Setting<T>): Setting<T> {
  return definition;
}

/** @param check returns the fault of the text, if any, in words that do not repeat the text */
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

const BASE64 = /^[A-Za-z0-9+/]+={0,2}$/;

/** Decodes a secret: a prefix, and bytes in base64. @returns undefined where it has another form or length */
export function secretBytes(
  text: string,
  prefix: string,
  [least, most]: readonly [number, number],
): Buffer | undefined {
  const base64 = text.slice(prefix.length);
  if (!text.startsWith(prefix) || !BASE64.test(base64)) return undefined;
  const bytes = Buffer.from(base64, 'base64');
  return bytes.length >= least && bytes.length <= most ? bytes : undefined;
}

const MAX_PORT = 65_535;

/** The port of a server; 0 for any free port. */
export const portNumber = integer(0, MAX_PORT);

/** Parses addresses and networks, comma-separated. */
export function networks(text: string): Parsed<readonly string[]> {
  const written = text.split(',').map((each) => each.trim());
  const wrong = written.find((each) => !isNetwork(each));
  if (wrong === undefined) return { value: written };
  return {
    problem: `"${wrong}" is neither an address nor a network`,
    remedy: 'Write addresses such as 192.0.2.7 and networks such as 10.0.0.0/8 or fd00::/8, comma-separated',
  };
}

function isNetwork(text: string): boolean {
  const [address = '', bits, ...more] = text.split('/');
  if (isIP(address) === 0 || more.length > 0) return false;
  return bits === undefined || (/^\d{1,3}$/.test(bits) && Number(bits) <= (isIPv6(address) ? 128 : 32));
}

/** The most faults of one setting that are named. */
const MOST_FAULTS = 5;

/** How the entries of a setting are read, such as the secrets of each connection. */
export interface Entries<T> {
  readonly remedy: string;
  /** The problem of an object without entries. */
  readonly none: string;
  /** @returns the value of an entry, or its problem. @param place the number of the entry, from 1 */
  readonly read: (id: string, value: unknown, place: number) => { readonly value: T } | string;
}

/** Reads a JSON object. The problem names the faults of all entries, and repeats no text of the setting. */
export function jsonEntries<T>(
  text: string,
  { remedy, none, read }: Entries<T>,
): Parsed<ReadonlyMap<string, T>> {
  const wrong = (problem: string) => ({ problem, remedy });
  let written: unknown;
  try {
    written = JSON.parse(text);
  } catch {
    return wrong('is not JSON');
  }
  if (typeof written !== 'object' || written === null || Array.isArray(written))
    return wrong('is not a JSON object');
  const values = new Map<string, T>();
  const problems: string[] = [];
  for (const [index, [id, value]] of Object.entries(written).entries()) {
    const entry = read(id, value, index + 1);
    if (typeof entry === 'string') problems.push(entry);
    else values.set(id, entry.value);
  }
  const more = problems.splice(MOST_FAULTS).length;
  if (more > 0) problems.push(`and ${more} more`);
  if (problems.length > 0) return wrong(problems.join('; '));
  return values.size === 0 ? wrong(none) : { value: values };
}

export function url(...protocols: string[]) {
  return (text: string): Parsed<string> => {
    const parsed = URL.canParse(text) ? new URL(text) : undefined;
    // The fault does not repeat the text, which may hold a password.
    if (parsed === undefined || !protocols.includes(parsed.protocol) || !text.includes('://')) {
      return { problem: 'is not an address', remedy: `Write ${protocols.join('// or ')}//host:port/...` };
    }
    return { value: text };
  };
}

/**
 * Like `url`, for addresses that go to fetch, which takes no address with a user.
 * @param instead the settings that name the user in its place
 */
export function urlWithoutUser(instead: string, ...protocols: string[]) {
  const parse = url(...protocols);
  return (text: string): Parsed<string> => {
    const parsed = parse(text);
    if ('problem' in parsed) return parsed;
    const { username, password } = new URL(text);
    if (username === '' && password === '') return parsed;
    return { problem: 'has a user or a password', remedy: `Remove it, and set ${instead}` };
  };
}

/**
 * The text of a file, read again at each call, since secrets and certificates are replaced while the process
 * runs. A file that is missing for a moment counts as unchanged, as while it is being replaced. A line break
 * at the end is not part of the text.
 *
 * @throws where the first read fails
 */
export function fileText(path: string): () => string {
  const read = () => readFileSync(path, 'utf8').replace(/\r?\n$/, '');
  let last = read();
  return () => {
    try {
      last = read();
    } catch {
      // The last text stays in use. Where it has become invalid, the server that receives it refuses it.
    }
    return last;
  };
}

/** Opens the file of a setting with `fileText`, or returns why the file cannot be used. */
export function openFile(path: string): Parsed<() => string> {
  try {
    const text = fileText(path);
    if (text() !== '') return { value: text };
    return { problem: `the file ${path} is empty`, remedy: 'Fill it, or set another file' };
  } catch (error) {
    const code =
      typeof error === 'object' && error !== null && 'code' in error ? error.code : 'unknown error';
    const remedy = 'Correct the path, or allow this process to read the file';
    return { problem: `the file ${path} cannot be read (${code})`, remedy };
  }
}
