/** Finds the Java installations of this machine. */
import { spawnSync } from 'node:child_process';
import { accessSync, constants, readdirSync, readFileSync, realpathSync } from 'node:fs';
import { delimiter, dirname, join } from 'node:path';
import type { Environment } from './types';

export interface Java {
  home: string;
  executable: string;
  /** The feature release: 17, 21, … */
  version: number;
}

const DEFAULT_DIRECTORIES = ['/usr/lib/jvm', '/opt/java', '/Library/Java/JavaVirtualMachines'];

export function findOnPath(name: string, environment: Environment): string | undefined {
  for (const directory of (environment.PATH ?? '').split(delimiter)) {
    const file = join(directory, name);
    try {
      accessSync(file, constants.X_OK);
      return file;
    } catch {
      // Not in this directory.
    }
  }
  return undefined;
}

function featureRelease(version: string | undefined): number | undefined {
  const number = Number(/^(?:1\.)?(\d+)/.exec(version ?? '')?.[1]);
  return Number.isNaN(number) ? undefined : number;
}

function inspect(home: string): Java | undefined {
  const executable = join(home, 'bin', 'java');
  try {
    accessSync(executable, constants.X_OK);
  } catch {
    return undefined;
  }
  let version: number | undefined;
  try {
    version = featureRelease(
      /^JAVA_VERSION="([^"]+)"/m.exec(readFileSync(join(home, 'release'), 'utf8'))?.[1],
    );
  } catch {
    // Some distributions omit that file. Then java itself reports its version, which takes longer.
  }
  if (version === undefined) {
    const { stderr } = spawnSync(executable, ['-version'], { encoding: 'utf8', timeout: 60_000 });
    version = featureRelease(/version "([^"]+)"/.exec(stderr ?? '')?.[1]);
  }
  return version === undefined ? undefined : { home, executable, version };
}

function list(directory: string): string[] {
  try {
    return readdirSync(directory).map((name) => join(directory, name));
  } catch {
    return [];
  }
}

/** In the order of preference: JAVA_HOME, the default java, then the others, oldest first. */
export function findJavas(environment: Environment): Java[] {
  const preferred: string[] = [];
  if (environment.JAVA_HOME) {
    preferred.push(environment.JAVA_HOME);
  }
  const onPath = findOnPath('java', environment);
  if (onPath !== undefined) {
    preferred.push(dirname(dirname(realpathSync(onPath))));
  }
  const directories = environment.STACK_JAVA_DIRECTORIES?.split(delimiter) ?? DEFAULT_DIRECTORIES;
  const beside = preferred.map((home) => dirname(home));
  const others = [...directories, ...beside]
    .flatMap(list)
    .flatMap((home) => [home, join(home, 'Contents', 'Home')]);

  const seen = new Set<string>();
  const inspectNew = (home: string): Java[] => {
    let real: string;
    try {
      real = realpathSync(home);
    } catch {
      return [];
    }
    if (seen.has(real)) {
      return [];
    }
    seen.add(real);
    const java = inspect(real);
    return java === undefined ? [] : [java];
  };
  return [
    ...preferred.flatMap(inspectNew),
    ...others.flatMap(inspectNew).sort((one, other) => one.version - other.version),
  ];
}

export function chooseJava(javas: readonly Java[], atLeast: number): Java | undefined {
  return javas.find(({ version }) => version >= atLeast);
}

export function describeJavas(javas: readonly Java[]): string {
  return javas.length === 0
    ? 'none was found'
    : `found only ${javas.map(({ version, home }) => `${version} (${home})`).join(', ')}`;
}
