/**
 * Downloads the programs of the local servers once, by the registries' own clients (mvn, npm) with their own
 * configuration. They go into build/cache of the checkout. A directory there is complete or absent: it is
 * filled under another name and renamed at the end.
 */
import { copyFileSync, existsSync, mkdirSync, readdirSync, renameSync, rmSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { CommandError } from './child';
import { findOnPath, type Java } from './java';
import { identify, isAlive } from './process-table';
import type { Supervisor } from './supervisor';
import type { Environment, Log } from './types';

const DOWNLOAD_DEADLINE_MS = 15 * 60_000;

function findProjectRoot(): string {
  // This file runs from the sources (tests) and from the build directory (make stack).
  let directory = __dirname;
  while (!existsSync(join(directory, 'package.json'))) {
    if (dirname(directory) === directory) {
      throw new Error(`No package.json above ${__dirname}`);
    }
    directory = dirname(directory);
  }
  return directory;
}

export const projectRoot = findProjectRoot();
const cacheDirectory = join(projectRoot, 'build', 'cache');

/** The path of a download. */
export const cached = (name: string): string => join(cacheDirectory, name);
export const isCached = (name: string): boolean => existsSync(cached(name));

export interface Context {
  supervisor: Supervisor;
  environment: Environment;
  log: Log;
}

/** Removes directories that killed programs left half filled: name.partial-<pid>-<start time>. */
function removeAbandoned(): void {
  for (const entry of readdirSync(cacheDirectory)) {
    const [, pid, startTime] = /\.partial-(\d+)-(\w+)$/.exec(entry) ?? [];
    if (pid !== undefined && startTime !== undefined && !isAlive({ pid: Number(pid), startTime })) {
      rmSync(join(cacheDirectory, entry), { recursive: true, force: true });
    }
  }
}

/** The name under which this program fills an entry. */
const partialOf = (name: string): string =>
  `${cached(name)}.partial-${process.pid}-${identify(process.pid)?.startTime.replaceAll(/\W/g, '')}`;

/** Moves a complete file into the cache, which may be on another file system. */
export function moveToCache(file: string, name: string): void {
  const partial = partialOf(name);
  copyFileSync(file, partial);
  renameSync(partial, cached(name));
  rmSync(file);
}

async function download(
  context: Context,
  name: string,
  client: (target: string) => { file: string; args: string[]; environment: NodeJS.ProcessEnv },
  remedy: string,
): Promise<string> {
  if (isCached(name)) {
    return cached(name);
  }
  mkdirSync(cacheDirectory, { recursive: true });
  removeAbandoned();
  const partial = partialOf(name);
  const begin = Date.now();
  context.log(`fetching ${name} (once) …`);
  const { path } = context.supervisor.directory;
  try {
    const command = { name: `fetch of ${name}`, directory: path, logFile: join(path, `fetch-${name}.log`) };
    await context.supervisor.run(
      { ...command, ...client(partial), stopSignal: 'SIGTERM' },
      DOWNLOAD_DEADLINE_MS,
    );
    try {
      renameSync(partial, cached(name));
    } catch (error) {
      // Another program may have fetched the same in the meantime.
      if (!isCached(name)) {
        throw error;
      }
    }
  } catch (error) {
    if (error instanceof CommandError) {
      throw new Error(`${error.message}\nRemedy: ${remedy}`, { cause: error });
    }
    throw error;
  } finally {
    rmSync(partial, { recursive: true, force: true });
  }
  context.log(`fetched ${name} (${((Date.now() - begin) / 1000).toFixed(1)} s)`);
  return cached(name);
}

/** Runs one of the POMs of this directory; it writes into the directory that the property `output` names. */
export function fetchByMaven(
  context: Context,
  name: string,
  pom: string,
  properties: Readonly<Record<string, string>>,
  java: Java,
): Promise<string> {
  const { PATH } = context.environment;
  // Maven takes the default java unless JAVA_HOME says otherwise.
  const hasJava = context.environment.JAVA_HOME || findOnPath('java', context.environment);
  return download(
    context,
    name,
    (target) => ({
      file: findOnPath('mvn', { PATH }) ?? 'mvn',
      args: [
        '--quiet',
        '--batch-mode',
        '--file',
        join(projectRoot, 'dev', 'servers', pom, 'pom.xml'),
        'package',
        `-Doutput=${target}`,
        // Puts the stack's path on the command line: see serversInside.
        `-Dstack=${context.supervisor.directory.path}`,
        ...Object.entries(properties).map(([property, value]) => `-D${property}=${value}`),
      ],
      environment: { ...context.environment, ...(hasJava ? {} : { JAVA_HOME: java.home }) },
    }),
    'Maven needs a repository that carries this version (Maven Central, or the mirror in ~/.m2/settings.xml).',
  );
}

export function fetchByNpm(context: Context, name: string, packages: readonly string[]): Promise<string> {
  return download(
    context,
    name,
    (target) => ({
      file: findOnPath('npm', context.environment) ?? 'npm',
      args: [
        'install',
        '--prefix',
        target,
        '--no-save',
        '--no-package-lock',
        '--ignore-scripts',
        '--no-audit',
        '--no-fund',
        ...packages,
      ],
      environment: { ...context.environment },
    }),
    'npm needs a registry that carries this version.',
  );
}
