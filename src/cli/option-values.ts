/** Values of options: read, or refused in the way of a wrong setting. */
import { hostname, userInfo } from 'node:os';
import { ConfigError } from '../config/config';
import { parseInstant } from '../domain/event/timestamp';
import type { Given } from './usage';

/** Values by the names of options. */
export type Options = Given['options'];

/** A whole number from `least` on; undefined where the option is absent. @throws ConfigError */
export function integerOf(options: Options, name: string, least = 0): number | undefined {
  const text = options.get(name);
  if (text === undefined) return undefined;
  const value = Number(text);
  if (/^\d+$/.test(text) && Number.isSafeInteger(value) && value >= least) return value;
  throw wrong(name, `"${text}" is not a whole number from ${least} on`, 'Write digits alone');
}

const WITHOUT_SECONDS = /^(.{10}T\d\d:\d\d)(?=Z|[+-])/;

/** Milliseconds since 1970; undefined where the option is absent. @throws ConfigError */
export function timeOf(options: Options, name: string): number | undefined {
  const text = options.get(name);
  if (text === undefined) return undefined;
  const micros = parseInstant(text.replace(WITHOUT_SECONDS, '$1:00'));
  if (micros !== undefined) return Number(micros / 1_000n);
  throw wrong(name, `"${text}" is not a time with its zone`, 'Write it like 2026-11-22T10:00:00Z');
}

/** A range as options name it, by offsets and by times; what is not given has no bound. */
export interface Bounds {
  readonly fromOffset: number | undefined;
  /** The last one. */
  readonly toOffset: number | undefined;
  readonly sinceMs: number | undefined;
  readonly untilMs: number | undefined;
}

/** @throws ConfigError */
export function boundsOf(options: Options): Bounds {
  const [[fromOffset, toOffset], [sinceMs, untilMs]] = both(
    () =>
      both(
        () => integerOf(options, 'from-offset'),
        () => integerOf(options, 'to-offset'),
      ),
    () =>
      both(
        () => timeOf(options, 'since'),
        () => timeOf(options, 'until'),
      ),
  );
  return { fromOffset, toOffset, sinceMs, untilMs };
}

/** Two things that are read. @throws ConfigError with all that is wrong with either */
export function both<A, B>(first: () => A, second: () => B): [A, B] {
  const [a, b] = [attempt(first), attempt(second)];
  if ('value' in a && 'value' in b) return [a.value, b.value];
  throw new ConfigError([a, b].flatMap((read) => ('faults' in read ? read.faults : [])));
}

function attempt<T>(read: () => T): { readonly value: T } | Pick<ConfigError, 'faults'> {
  try {
    return { value: read() };
  } catch (error) {
    if (error instanceof ConfigError) return { faults: error.faults };
    throw error;
  }
}

/** An option that makes no sense as it is. */
export function wrong(name: string, problem: string, remedy: string): ConfigError {
  return new ConfigError([{ setting: `--${name}`, problem, remedy }]);
}

/** Who asks for an operation, for its log: what is given by --by, else the user of this process and its machine. */
export function requestedBy(options: Options): string {
  return options.get('by') ?? `${userName()}@${hostname()}`;
}

function userName(): string {
  try {
    return userInfo().username;
  } catch {
    // In a container the user may have a number and no name.
    return `user ${process.getuid?.() ?? 'unknown'}`;
  }
}
