/**
 * The directory of one throwaway intake, and the removal of directories that killed processes left behind.
 * Its name has the process id of its owner: promo-intake-try-PID-random.
 */
import { execFileSync } from 'node:child_process';
import { chownSync, existsSync, lstatSync, mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Logger } from 'pino';
import { messageOf } from '../lib/errors';

const PREFIX = 'promo-intake-try-';
const NAME = new RegExp(`^${PREFIX}(\\d+)-\\w+$`);
/** How long the end of a server that was left is waited for. */
const END_WITHIN_MS = 5_000;
const LOOK_EVERY_MS = 10;
/** A server that is killed may still write for a moment. */
const REMOVAL = { recursive: true, force: true, maxRetries: 10, retryDelay: 50 } as const;

export interface UserIds {
  readonly uid: number;
  readonly gid: number;
}

/** The directory of the data within the directory of an intake. */
export function dataIn(directory: string): string {
  return join(directory, 'data');
}

/** Makes an empty directory that only its owner can enter. @param owner absent: this process */
export function makeThrowawayDirectory(owner: UserIds | undefined): string {
  const directory = mkdtempSync(join(tmpdir(), `${PREFIX}${process.pid}-`));
  if (owner !== undefined) chownSync(directory, owner.uid, owner.gid);
  return directory;
}

export function removeDirectory(directory: string): void {
  rmSync(directory, REMOVAL);
}

/**
 * Ends the servers of intakes whose processes were killed, and removes their directories.
 *
 * @param owner the user that may own them beside the user of this process
 */
export function removeLeftovers(owner: UserIds | undefined, logger: Logger): void {
  const parent = tmpdir();
  for (const name of readdirSync(parent)) {
    const [, pid] = NAME.exec(name) ?? [];
    const directory = join(parent, name);
    if (pid === undefined || !isLeftBehind(directory, Number(pid), owner)) continue;
    try {
      endServer(directory);
      removeDirectory(directory);
    } catch (error) {
      logger.warn({ directory, error: messageOf(error) }, 'cannot remove the directory of an earlier try');
    }
  }
}

function isLeftBehind(directory: string, pid: number, owner: UserIds | undefined): boolean {
  const found = lstatSync(directory, { throwIfNoEntry: false });
  if (!found?.isDirectory()) return false;
  if (found.uid !== process.getuid?.() && found.uid !== owner?.uid) return false;
  // The first process of a container has the id of the one before it.
  return pid === process.pid || !isRunning(pid);
}

/** Ends a Postgres that has outlived its intake. Its number may belong to another process by now. */
function endServer(directory: string): void {
  const file = join(dataIn(directory), 'postmaster.pid');
  if (!existsSync(file)) return;
  const pid = Number(readFileSync(file, 'utf8').split('\n')[0]);
  if (!(pid > 1) || !isRunning(pid) || !commandOf(pid).includes(directory)) return;
  process.kill(pid, 'SIGQUIT');
  // Until it has ended, it may write into directories that are removed.
  const until = performance.now() + END_WITHIN_MS;
  const cell = new Int32Array(new SharedArrayBuffer(4));
  while (isRunning(pid) && performance.now() < until) Atomics.wait(cell, 0, 0, LOOK_EVERY_MS);
}

function isRunning(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return true;
  } catch (error) {
    return error instanceof Error && 'code' in error && error.code === 'EPERM';
  }
}

/** The command line of a process; empty where it cannot be read. */
function commandOf(pid: number): string {
  try {
    if (process.platform === 'linux') return readFileSync(`/proc/${pid}/cmdline`, 'utf8');
    return execFileSync('ps', ['-ww', '-o', 'command=', '-p', String(pid)], { encoding: 'utf8' });
  } catch {
    return '';
  }
}
