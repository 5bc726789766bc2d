/**
 * Python programs with pinned packages. pip installs them once, with its own configuration, into a directory
 * of build/cache. The name of the directory has the hash of the requirements: other pins are another
 * directory. Nothing is installed into the machine's own Python.
 */
import { type ExecFileException, execFile, spawnSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { existsSync, mkdirSync, readFileSync, renameSync, rmSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { cached } from './servers/download';
import { findOnPath } from './servers/java';
import type { Environment } from './servers/types';

/** The oldest version that the requirements are resolved for. */
const OLDEST_MINOR = 11;
const VERSION_DEADLINE_MS = 10_000;
const INSTALL_DEADLINE_MS = 300_000;
const MAX_OUTPUT_BYTES = 64 * 1024 * 1024;

/** In a directory of another name, hypothesis takes all packages for our own sources, and reads them. */
const SITE_PACKAGES = 'site-packages';

export interface Python {
  readonly executable: string;
  /** Such as `3.11`. */
  readonly version: string;
}

/** The Python of this machine, or why it is of no use. */
export function findPython(environment: Environment = process.env): Python | { readonly problem: string } {
  const remedy = `install Python 3.${OLDEST_MINOR} or newer with pip`;
  const executable = findOnPath('python3', environment);
  if (executable === undefined) return { problem: `python3 is missing: ${remedy}` };
  const program = 'import pip, sys; print("%d.%d" % sys.version_info[:2])';
  const { status, stdout } = spawnSync(executable, ['-c', program], {
    encoding: 'utf8',
    timeout: VERSION_DEADLINE_MS,
  });
  if (status !== 0) return { problem: `python3 has no pip: ${remedy}` };
  const version = stdout.trim();
  const [major = 0, minor = 0] = version.split('.').map(Number);
  if (major < 3 || (major === 3 && minor < OLDEST_MINOR))
    return { problem: `python3 is ${version}: ${remedy}` };
  return { executable, version };
}

/**
 * Installs the packages of a requirements file, each checked by its hash, unless they are there.
 *
 * @returns their directory, for PYTHONPATH
 * @throws with the end of pip's output
 */
export async function installPackages(python: Python, requirements: string): Promise<string> {
  const hash = createHash('sha256').update(readFileSync(requirements)).update(python.version).digest('hex');
  const directory = cached(`python-${hash.slice(0, 16)}`);
  const packages = join(directory, SITE_PACKAGES);
  if (existsSync(packages)) return packages;
  const partial = `${directory}.partial-${process.pid}`;
  mkdirSync(dirname(directory), { recursive: true });
  const options = ['--quiet', '--no-cache-dir', '--disable-pip-version-check'];
  const pinned = ['--no-deps', '--require-hashes', '--only-binary', ':all:', '--requirement', requirements];
  try {
    const install = ['-m', 'pip', 'install', ...options, '--target', join(partial, SITE_PACKAGES), ...pinned];
    const { code, output } = await run(python.executable, install, { timeoutMs: INSTALL_DEADLINE_MS });
    if (code !== 0) {
      const remedy = 'Remedy: pip needs an index that carries these versions; see pip config list.';
      throw new Error(`pip cannot install ${requirements}:\n${output.slice(-2_000)}\n${remedy}`);
    }
    try {
      renameSync(partial, directory);
    } catch (error) {
      // Another program may have installed the same in the meantime.
      if (!existsSync(packages)) throw error;
    }
  } finally {
    rmSync(partial, { recursive: true, force: true });
  }
  return packages;
}

export interface PythonRun {
  /** Directories of packages. */
  readonly packages: readonly string[];
  readonly directory: string;
  readonly environment: Readonly<Record<string, string>>;
  readonly timeoutMs: number;
}

export interface PythonEnd {
  /** Null where a signal or the time limit ended the program. */
  readonly code: number | null;
  /** Of both streams. */
  readonly output: string;
}

/** Runs Python to its end. The packages are compiled already, and their directory stays as it is. */
export function runPython(
  python: Python,
  args: readonly string[],
  { packages, directory, environment, timeoutMs }: PythonRun,
): Promise<PythonEnd> {
  return run(python.executable, args, {
    timeoutMs,
    directory,
    environment: {
      ...environment,
      PYTHONPATH: packages.join(':'),
      PYTHONDONTWRITEBYTECODE: '1',
      PYTHONUNBUFFERED: '1',
    },
  });
}

interface RunOptions {
  readonly timeoutMs: number;
  readonly directory?: string;
  readonly environment?: Readonly<Record<string, string>>;
}

function run(file: string, args: readonly string[], options: RunOptions): Promise<PythonEnd> {
  const { timeoutMs, directory, environment = {} } = options;
  const settings = {
    ...(directory === undefined ? {} : { cwd: directory }),
    env: { ...process.env, ...environment },
    timeout: timeoutMs,
    maxBuffer: MAX_OUTPUT_BYTES,
    encoding: 'utf8' as const,
  };
  return new Promise((resolve, reject) => {
    execFile(file, args, settings, (error, stdout, stderr) => {
      if (error !== null && isNotStarted(error)) reject(error);
      else resolve({ code: codeOf(error), output: `${stdout}${stderr}` });
    });
  });
}

/** An error code that is a text comes from the system, and not from the program. */
function isNotStarted({ code }: ExecFileException): boolean {
  return typeof code === 'string';
}

function codeOf(error: ExecFileException | null): number | null {
  if (error === null) return 0;
  return typeof error.code === 'number' ? error.code : null;
}
