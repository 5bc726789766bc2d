/** Reading settings: one by one, and then together where some of them only make sense with others. All faults are collected. */
import { FILE_SUFFIX, openFile, type Problem, type Setting, type ValueOf } from './setting';

/** A value of the environment that cannot be used. */
export interface ConfigFault extends Problem {
  readonly setting: string;
}

export type Environment = Readonly<Record<string, string | undefined>>;
export type SettingTable = Readonly<Record<string, Setting<unknown>>>;

/** The settings of a table as they are given, and the faults of all that was read so far. */
export interface Reading<S> {
  readonly environment: Environment;
  readonly faults: ConfigFault[];
  /** Undefined where it is absent, and where it is wrong: then a fault tells. */
  value<N extends keyof S & string>(name: N): ValueOf<S[N]> | undefined;
  /** Whether the variable is there, or for a secret its file, right or wrong. */
  isGiven(name: keyof S & string): boolean;
  fault(name: keyof S & string, problem: string, remedy: string): void;
  /** Whatever is wrong with it does not matter here: nobody asks for its value. */
  ignore(name: keyof S & string): void;
  /** Faults for those of the settings that are missing. */
  need(names: readonly (keyof S & string)[], because: string): void;
  /** Faults for those of the settings that are given: they would be ignored. */
  refuse(names: readonly (keyof S & string)[], because: string, unless: string): void;
}

/** Settings that make one value together, such as how to connect to Kafka. */
export interface Group<S, T> {
  readonly settings: S;
  /** Undefined only where there are faults. */
  readonly read: (environment: Environment, faults: ConfigFault[]) => T | undefined;
}

/** @param combine reports what does not go together; what it returns is not used once there is any fault */
export function group<S extends SettingTable, T>(
  settings: S,
  combine: (reading: Reading<S>) => T | undefined,
): Group<S, T> {
  return { settings, read: (environment, faults) => combine(makeReading(settings, environment, faults)) };
}

function makeReading<S extends SettingTable>(
  settings: S,
  environment: Environment,
  faults: ConfigFault[],
): Reading<S> {
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

/** The value of one setting; undefined where it is absent, or wrong, which is then a fault. */
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
      problem: `is set, and ${fileVariable} as well`,
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

/** A variable that is empty counts as absent. */
function isSet(value: string | undefined): value is string {
  return value !== undefined && value !== '';
}

function howToSet(name: string, definition: Setting<unknown> | undefined): string {
  const inFile = definition?.secret ? `, or ${name}${FILE_SUFFIX} to a file that holds it` : '';
  return `Set it, for example to ${definition?.example}${inFile}`;
}
