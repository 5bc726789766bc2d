/** Reads the values of options. A wrong value is reported in the same form as a wrong setting. */
import { hostname, userInfo } from 'node:os';
import { ConfigError } from '../config/config';
import { parseInstant } from '../domain/event/timestamp';
import type { Given } from './usage';

/** Values by option name. */
export type Options = Given['options'];

/** A whole number, at least `least`; undefined if the option is absent. @throws ConfigError */
export function integerOf(options: Options, name: string, least = 0): number | undefined {
  const text = options.get(name);
  if (text === undefined) return undefined;
  const value = Number(text);
  if (/^\d+$/.test(text) && Number.isSafeInteger(value) && value >= least) return value;
  throw wrongOption(name, `"${text}" is not a whole number of at least ${least}`, 'Write digits only');
}

const UNITS_MS: ReadonlyMap<string, number> = new Map([
  ['s', 1_000],
  ['m', 60_000],
  ['h', 3_600_000],
  ['d', 86_400_000],
]);

/**
 * A time of the past, or a duration before now such as 10m. Milliseconds since 1970; undefined if the option
 * is absent.
 *
 * @throws ConfigError
 */
export function readPast(options: Options, name: string, nowMs = Date.now()): number | undefined {
  const text = options.get(name);
  if (text === undefined) return undefined;
  const [, count, unit = ''] = /^(\d{1,9})([a-z])$/.exec(text) ?? [];
  const unitMs = UNITS_MS.get(unit);
  if (unitMs !== undefined) return Math.max(0, nowMs - Number(count) * unitMs);
  const ms = parseTime(text);
  if (ms === undefined)
    throw wrongOption(
      name,
      `"${text}" is neither a time with a zone nor a duration`,
      `Write it like 2026-11-22T10:00:00Z, or like 10m. The units are ${[...UNITS_MS.keys()].join(', ')}`,
    );
  if (ms <= nowMs) return ms;
  throw wrongOption(name, `"${text}" is in the future`, `Name a past time, or leave --${name} out`);
}

const WITHOUT_SECONDS = /^(.{10}T\d\d:\d\d)(?=Z|[+-])/;

/** Milliseconds since 1970; undefined if the option is absent. @throws ConfigError */
export function readTime(options: Options, name: string): number | undefined {
  const text = options.get(name);
  if (text === undefined) return undefined;
  const ms = parseTime(text);
  if (ms !== undefined) return ms;
  throw wrongOption(name, `"${text}" is not a time with a zone`, 'Write it like 2026-11-22T10:00:00Z');
}

function parseTime(text: string): number | undefined {
  const micros = parseInstant(text.replace(WITHOUT_SECONDS, '$1:00'));
  return micros === undefined ? undefined : Number(micros / 1_000n);
}

/** A range of offsets and times that options name. An absent option sets no bound. */
export interface Bounds {
  readonly fromOffset: number | undefined;
  /** The last offset of the range. */
  readonly toOffset: number | undefined;
  readonly sinceMs: number | undefined;
  readonly untilMs: number | undefined;
}

/** @throws ConfigError */
export function boundsOf(options: Options): Bounds {
  const [[fromOffset, toOffset], [sinceMs, untilMs]] = readBoth(
    () =>
      readBoth(
        () => integerOf(options, 'from-offset'),
        () => integerOf(options, 'to-offset'),
      ),
    () =>
      readBoth(
        () => readTime(options, 'since'),
        () => readTime(options, 'until'),
      ),
  );
  return { fromOffset, toOffset, sinceMs, untilMs };
}

/** Reads two values. @throws ConfigError with the faults of both */
export function readBoth<A, B>(first: () => A, second: () => B): [A, B] {
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

/** The error for a wrong option. */
export function wrongOption(name: string, problem: string, remedy: string): ConfigError {
  return new ConfigError([{ setting: `--${name}`, problem, remedy }]);
}

/**
 * The requester of an operation, for its log: the value of --by, else the user and the machine of this
 * process.
 */
export function requestedBy(options: Options): string {
  return options.get('by') ?? `${userName()}@${hostname()}`;
}

function userName(): string {
  try {
    return userInfo().username;
  } catch {
    // In a container the user may have a number but no name.
    return `user ${process.getuid?.() ?? 'unknown'}`;
  }
}
