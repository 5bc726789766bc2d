/**
 * The directory with everything of one set of servers: data, logs, and a list of the processes. With the
 * list, the next program can find and remove the leftovers of a killed one.
 */
import { spawnSync } from 'node:child_process';
import {
  chmodSync,
  existsSync,
  lstatSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  realpathSync,
  renameSync,
  rmSync,
  statfsSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { basename, join } from 'node:path';
import { until } from './deadline';
import {
  identify,
  isAlive,
  type ProcessIdentity,
  pidNamespace,
  sendSignal,
  serversInside,
} from './process-table';
import type { Log } from './types';

const PREFIX = 'promo-intake-stack-';
const LIST = 'processes.json';
/** A directory without a list is being made right now, unless it is older than this. */
const LISTLESS_AFTER_MS = 60_000;
/** The file system of Linux that is in memory. */
const MEMORY = '/dev/shm';
/** The data of a whole run of the tests is a quarter of it. */
const MEMORY_NEEDED = 8 * 2 ** 30;

/**
 * Where data may live that no crash has to leave: in memory, where there is enough. Tests make and remove
 * thousands of files a second, and some file systems of disks need most of the time of a test for them.
 */
function fastDirectory(): string {
  try {
    const mount = / \/dev\/shm tmpfs (\S+)/.exec(readFileSync('/proc/self/mounts', 'utf8'))?.[1]?.split(',');
    const { bavail, bsize } = statfsSync(MEMORY);
    const isEnough = bavail * bsize >= MEMORY_NEEDED && process.availableMemory() >= MEMORY_NEEDED;
    // The programs of the servers may be copied into the directory.
    return isEnough && mount?.includes('rw') && !mount.includes('noexec') ? MEMORY : tmpdir();
  } catch {
    return tmpdir();
  }
}

interface ProcessList {
  /**
   * The pid namespace of these processes (pidNamespace): from another one nobody can see whether they live.
   */
  namespace: string;
  parent: ProcessIdentity;
  children: ProcessIdentity[];
  /** Whether there are containers; they carry the directory's name as a label. */
  containers: boolean;
}

export class StackDirectory {
  readonly path: string;
  private readonly list: ProcessList;

  /** @param isLasting for data that a crash of the machine may not destroy */
  constructor(isLasting: boolean) {
    const parent = identify(process.pid);
    if (parent === undefined) {
      throw new Error('The start time of this process cannot be read: neither /proc nor ps is there');
    }
    this.path = realpathSync(mkdtempSync(join(isLasting ? tmpdir() : fastDirectory(), PREFIX)));
    // Postgres refuses to run as root, and its own user has to reach its directory.
    chmodSync(this.path, 0o711);
    this.list = { namespace: pidNamespace(), parent, children: [], containers: false };
    this.save();
  }

  get name(): string {
    return basename(this.path);
  }

  /** Blocking on purpose: nothing may come between a process's start and its entry here. */
  addChild(pid: number): void {
    const child = identify(pid);
    if (child !== undefined) {
      this.list.children.push(child);
      this.save();
    }
  }

  get hasContainers(): boolean {
    return this.list.containers;
  }

  noteContainers(): void {
    this.list.containers = true;
    this.save();
  }

  remove(): void {
    removeDirectory(this.path);
  }

  private save(): void {
    const file = join(this.path, LIST);
    writeFileSync(`${file}.new`, JSON.stringify(this.list), { mode: 0o600 });
    renameSync(`${file}.new`, file);
  }
}

function isIdentity(value: unknown): value is ProcessIdentity {
  return (
    typeof value === 'object' &&
    value !== null &&
    'pid' in value &&
    'startTime' in value &&
    Number.isInteger(value.pid) &&
    typeof value.startTime === 'string'
  );
}

function readList(directory: string): ProcessList | undefined {
  try {
    const value: unknown = JSON.parse(readFileSync(join(directory, LIST), 'utf8'));
    if (typeof value === 'object' && value !== null && 'parent' in value && isIdentity(value.parent)) {
      const children: unknown[] = 'children' in value && Array.isArray(value.children) ? value.children : [];
      const containers = 'containers' in value && value.containers === true;
      const namespace = 'namespace' in value ? String(value.namespace) : pidNamespace();
      return { namespace, parent: value.parent, children: children.filter(isIdentity), containers };
    }
  } catch {
    // Not there (yet), or not a list.
  }
  return undefined;
}

/**
 * A killed Postgres leaves a System V shared memory segment behind; its number is on the seventh line of
 * postmaster.pid. Only its next start on the same data would remove the segment, and there is no next start.
 */
function releaseSharedMemory(directory: string): void {
  try {
    const lines = readFileSync(join(directory, 'postgres', 'data', 'postmaster.pid'), 'utf8').split('\n');
    const segment = /^\s*\d+\s+(\d+)\s*$/.exec(lines[6] ?? '')?.[1];
    if (segment !== undefined) {
      spawnSync('ipcrm', ['-m', segment], { stdio: 'ignore', timeout: 5_000 });
    }
  } catch {
    // No Postgres, or one that was stopped cleanly.
  }
}

function removeDirectory(directory: string): void {
  releaseSharedMemory(directory);
  rmSync(directory, { recursive: true, force: true, maxRetries: 10, retryDelay: 50 });
}

function stackDirectories(): string[] {
  return [realpathSync(tmpdir()), MEMORY]
    .filter((base) => existsSync(base))
    .flatMap((base) => readdirSync(base).map((name) => join(base, name)))
    .filter((path) => basename(path).startsWith(PREFIX));
}

/**
 * Ends every process and removes every directory whose program is gone.
 *
 * @param removeContainers gets a stack's name
 */
export async function reapLeftovers(
  log: Log,
  removeContainers: (stack: string) => Promise<void>,
): Promise<void> {
  for (const directory of stackDirectories()) {
    const name = basename(directory);
    const stat = lstatSync(directory, { throwIfNoEntry: false });
    // Only a directory of this user is trusted: its list names the processes to kill.
    if (stat === undefined || !stat.isDirectory() || stat.uid !== process.getuid?.()) {
      continue;
    }
    const list = readList(directory);
    const isLeftover =
      list === undefined
        ? Date.now() - stat.mtimeMs > LISTLESS_AFTER_MS
        : list.namespace === pidNamespace() && !isAlive(list.parent);
    if (!isLeftover) {
      continue;
    }
    const found = [...(list?.children ?? []), ...serversInside(directory)].filter(isAlive);
    for (const { pid } of found) {
      sendSignal(pid, 'SIGKILL');
    }
    try {
      await until(`end of the processes left in ${directory}`, 30_000, () => {
        // Postgres backends outlive their server by a moment.
        for (const { pid } of serversInside(directory)) {
          sendSignal(pid, 'SIGKILL');
        }
        return ![...found, ...serversInside(directory)].some(isAlive);
      });
      const removed = [`${found.length} processes`];
      if (list?.containers === true) {
        await removeContainers(name);
        removed.push('its containers');
      }
      removeDirectory(directory);
      log(`removed what a killed program left: ${removed.join(', ')}, ${directory}`);
    } catch (error) {
      // Another program may be removing the same directory; a leftover never keeps a new start from working.
      log(`not removed: ${directory}: ${error instanceof Error ? error.message : String(error)}`);
    }
  }
}
