/** Programs in namespaces of network, mounts and processes of their own: whatever they start is gone with them, and the machine's network is as it was. */
import { type ChildProcess, spawn } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { endOf } from './run';

const EXIT_CODES = { SIGHUP: 129, SIGINT: 130, SIGTERM: 143 } as const;
const NAMESPACES = ['--net', '--mount', '--pid', '--fork', '--kill-child', '--mount-proc'];

export interface Inside {
  /** Of Node's. It is run as `program inside DIRECTORY ...`, with what `prepare` returned. */
  readonly program: string;
  /** Begins the name of a temporary directory, which is there as long as the program. */
  readonly directoryPrefix: string;
  /** Done before, with the network of this machine. */
  readonly prepare: (directory: string) => Promise<readonly string[]>;
  /** Done after it, whatever came of it, before the directory is removed. */
  readonly cleanUp?: (directory: string) => Promise<void>;
  readonly log: (line: string) => void;
}

/** @returns the exit code of the program, or of the signal that ended it @throws what `prepare` throws */
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
    // The kernel ends what is inside with its first process, and that with this one.
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
