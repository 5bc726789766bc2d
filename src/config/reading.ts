/**
 * Reads settings: first one by one, then together where some of them depend on others. All faults are
 * collected.
 */
import { FILE_SUFFIX, openFile, type Problem, type Setting, type ValueOf } from './setting';

/** A value of the environment that cannot be used. */
export interface ConfigFault extends Problem {
  readonly setting: string;
}

export type Environment = Readonly<Record<string, string | undefined>>;
export type SettingTable = Readonly<Record<string, Setting<unknown>>>;

/** The settings of a table as the environment gives them, and the faults found so far. */
export interface SettingsReading<S> {
  readonly environment: Environment;
  readonly faults: ConfigFault[];
  /** Undefined where the setting is absent, or invalid. An invalid one has added a fault. */
  value<N extends keyof S & string>(name: N): ValueOf<S[N]> | undefined;
  /** Whether the variable is set, or for a secret its file variable, valid or not. */
  isGiven(name: keyof S & string): boolean;
  fault(name: keyof S & string, problem: string, remedy: string): void;
  /** Removes the faults of a setting whose value is not needed. */
  ignore(name: keyof S & string): void;
  /** Adds a fault for each of the settings that is missing. */
  need(names: readonly (keyof S & string)[], because: string): void;
  /** Adds a fault for each of the settings that is given, since it would be ignored. */
  refuse(names: readonly (keyof S & string)[], because: string, unless: string): void;
}

/** Settings that form one value together, such as the connection to Kafka. */
export interface Group<S, T> {
  readonly settings: S;
  /** Returns undefined only where it added faults. */
  readonly read: (environment: Environment, faults: ConfigFault[]) => T | undefined;
}

/**
 * @param combine adds a fault for settings that contradict each other; its result is used only where there is
 * no fault
 */
export function group<S extends SettingTable, T>(
  settings: S,
  combine: (reading: SettingsReading<S>) => T | undefined,
): Group<S, T> {
  return {
    settings,
    read: (environment, faults) => combine(makeSettingsReading(settings, environment, faults)),
  };
}

function makeSettingsReading<S extends SettingTable>(
  settings: S,
  environment: Environment,
  faults: ConfigFault[],
): SettingsReading<S> {
  const values = new Map(
    Object.keys(settings).map((name) => [name, readSetting(name, settings[name], environment, faults)]),
  );
  const isGiven = (name: string) =>
    isSet(environment[name]) || (settings[name]?.secret === true && isSet(environment[name + FILE_SUFFIX]));
  const fault = (setting: string, problem: string, remedy: string) => {
    faults.push({ setting, problem, remedy });
  };
  return {
    environment,
    faults,
    value: <N extends keyof S & string>(name: N) => values.get(name) as ValueOf<S[N]> | undefined,
    isGiven,
    fault,
    ignore(name) {
      const kept = faults.filter(({ setting }) => setting !== name);
      faults.splice(0, faults.length, ...kept);
    },
    need(names, because) {
      for (const name of names)
        if (!isGiven(name)) fault(name, `is not set, ${because}`, howToSet(name, settings[name]));
    },
    refuse(names, because, unless) {
      for (const name of names)
        if (isGiven(name)) fault(name, `is not used ${because}`, `Remove it, or ${unless}`);
    },
  };
}

/** Reads one setting. Returns undefined where it is absent or invalid; an invalid one adds a fault. */
export function readSetting(
  name: string,
  definition: Setting<unknown> | undefined,
  environment: Environment,
  faults: ConfigFault[],
): unknown {
  if (definition === undefined) return undefined;
  const fileVariable = name + FILE_SUFFIX;
  const [written, path] = [environment[name], definition.secret ? environment[fileVariable] : undefined];
  if (isSet(written) && isSet(path)) {
    faults.push({
      setting: name,
      problem: `is set, but ${fileVariable} is set as well`,
      remedy: 'Remove one of the two',
    });
    return undefined;
  }
  const opened = isSet(path) ? openFile(path) : undefined;
  if (opened !== undefined && 'problem' in opened) {
    faults.push({ setting: fileVariable, ...opened });
    return undefined;
  }
  const source = opened?.value() ?? (isSet(written) ? written : definition.fallback);
  if (source === undefined) {
    if (definition.required)
      faults.push({ setting: name, problem: 'is not set', remedy: howToSet(name, definition) });
    return undefined;
  }
  const parsed = definition.parse(source);
  if ('value' in parsed) return opened?.value ?? parsed.value;
  faults.push({ setting: opened === undefined ? name : fileVariable, ...parsed });
  return undefined;
}

/** An empty variable counts as absent. */
function isSet(value: string | undefined): value is string {
  return value !== undefined && value !== '';
}

function howToSet(name: string, definition: Setting<unknown> | undefined): string {
  const inFile = definition?.secret ? `, or ${name}${FILE_SUFFIX} to a file that holds it` : '';
  return `Set it, for example to ${definition?.example}${inFile}`;
}
