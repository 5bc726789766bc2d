/**
 * Programs in namespaces of network, mounts and processes of their own. All their child processes end with
 * them, and the machine's network stays unchanged.
 */
import { type ChildProcess, spawn } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { endOf } from './run';

const EXIT_CODES = { SIGHUP: 129, SIGINT: 130, SIGTERM: 143 } as const;
const NAMESPACES = ['--net', '--mount', '--pid', '--fork', '--kill-child', '--mount-proc'];

export interface Inside {
  /** A program for Node. It is run as `program inside DIRECTORY ...`, with the result of `prepare`. */
  readonly program: string;
  /** Prefix of a temporary directory's name. The directory exists as long as the program. */
  readonly directoryPrefix: string;
  /** Runs before the program, with the network of this machine. */
  readonly prepare: (directory: string) => Promise<readonly string[]>;
  /** Runs after the program, whatever its result, before the directory is removed. */
  readonly cleanUp?: (directory: string) => Promise<void>;
  readonly log: (line: string) => void;
}

/**
 * @returns the exit code of the program, or of the signal that ended it
 * @throws any error of `prepare`
 */
export async function runInside({
  program,
  directoryPrefix,
  prepare,
  cleanUp,
  log,
}: Inside): Promise<number> {
  const directory = mkdtempSync(join(tmpdir(), directoryPrefix));
  let child: ChildProcess | undefined;
  let signalled: keyof typeof EXIT_CODES | undefined;
  for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const)
    process.on(signal, () => {
      signalled = signal;
      log(`${signal}: removing what was made`);
      child?.kill('SIGKILL');
    });
  try {
    const args = await prepare(directory);
    if (signalled !== undefined) return EXIT_CODES[signalled];
    // The kernel ends all processes inside with their first process, and the first one together with this
    // one.
    child = spawn(
      'setpriv',
      [
        ...['--pdeathsig', 'KILL', '--', 'unshare', ...NAMESPACES],
        ...[process.execPath, program, 'inside', directory, ...args],
      ],
      { stdio: ['ignore', 'inherit', 'inherit'], detached: true },
    );
    const code = await endOf(child);
    return signalled === undefined ? (code ?? 1) : EXIT_CODES[signalled];
  } catch (error) {
    if (signalled !== undefined) return EXIT_CODES[signalled];
    throw error;
  } finally {
    await cleanUp?.(directory);
    rmSync(directory, { recursive: true, force: true, maxRetries: 20, retryDelay: 250 });
  }
}
