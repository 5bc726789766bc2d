/**
 * Processes as the operating system lists them: on Linux from /proc, elsewhere from ps. A pid alone does not
 * identify a process, since pids are reused: the pair of pid and start time does.
 */
import { spawnSync } from 'node:child_process';
import { existsSync, readdirSync, readFileSync, readlinkSync } from 'node:fs';
import { sep } from 'node:path';

export interface ProcessIdentity {
  pid: number;
  startTime: string;
}

interface Entry {
  pid: number;
  parent: number;
  startTime: string;
}

const hasProc = existsSync('/proc/self/stat');

/**
 * The namespace in which these pids are valid. A container has another one, and so does a program in a
 * namespace of its own that shares this machine's files.
 */
export function pidNamespace(): string {
  return hasProc ? readlinkSync('/proc/self/ns/pid') : '';
}

/** Undefined for a process that is gone or only a zombie. */
function readProcEntry(pid: number): Entry | undefined {
  let stat: string;
  try {
    stat = readFileSync(`/proc/${pid}/stat`, 'utf8');
  } catch {
    return undefined;
  }
  // "pid (name) state parent …": the name may itself hold blanks and brackets. The start time is field 22.
  const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ');
  const [state, parent] = fields;
  const startTime = fields[19];
  if (state === undefined || parent === undefined || startTime === undefined || 'ZX'.includes(state)) {
    return undefined;
  }
  return { pid, parent: Number(parent), startTime };
}

function readPs(): Entry[] {
  const { stdout } = spawnSync('ps', ['-A', '-o', 'pid=,ppid=,stat=,lstart='], {
    encoding: 'utf8',
    timeout: 60_000,
  });
  return (stdout ?? '').split('\n').flatMap((line) => {
    const match = /^\s*(\d+)\s+(\d+)\s+([A-Z])\S*\s+(.+?)\s*$/.exec(line);
    const [, pid, parent, state, startTime] = match ?? [];
    return pid === undefined || parent === undefined || startTime === undefined || state === 'Z'
      ? []
      : [{ pid: Number(pid), parent: Number(parent), startTime }];
  });
}

function allEntries(): Entry[] {
  if (!hasProc) {
    return readPs();
  }
  return readdirSync('/proc')
    .filter((name) => /^\d+$/.test(name))
    .flatMap((name) => readProcEntry(Number(name)) ?? []);
}

export function identify(pid: number): ProcessIdentity | undefined {
  const entry = hasProc ? readProcEntry(pid) : readPs().find((each) => each.pid === pid);
  return entry === undefined ? undefined : { pid, startTime: entry.startTime };
}

export function isAlive(identity: ProcessIdentity): boolean {
  return identify(identity.pid)?.startTime === identity.startTime;
}

/** Children, their children and so on, without the process itself. */
export function descendantsOf(pid: number): ProcessIdentity[] {
  const entries = allEntries();
  const found: ProcessIdentity[] = [];
  const parents = [pid];
  for (let parent = parents.shift(); parent !== undefined; parent = parents.shift()) {
    for (const entry of entries) {
      if (entry.parent === parent) {
        found.push({ pid: entry.pid, startTime: entry.startTime });
        parents.push(entry.pid);
      }
    }
  }
  return found;
}

/**
 * Servers that run in `directory` (Linux only). Their working directory is inside, and they lead a session.
 * Their command line names the directory, or is that of a Postgres backend. All three conditions together
 * exclude a user's shell or pager in that directory. This finds servers that a killed parent had no time to
 * write down.
 */
export function serversInside(directory: string): ProcessIdentity[] {
  if (!hasProc) {
    return [];
  }
  return allEntries().filter(({ pid }) => {
    try {
      const workingDirectory = readlinkSync(`/proc/${pid}/cwd`).replace(/ \(deleted\)$/, '');
      if (workingDirectory !== directory && !workingDirectory.startsWith(directory + sep)) {
        return false;
      }
      const stat = readFileSync(`/proc/${pid}/stat`, 'utf8');
      const session = stat.slice(stat.lastIndexOf(')') + 2).split(' ')[3];
      const commandLine = readFileSync(`/proc/${pid}/cmdline`, 'utf8');
      return (
        Number(session) === pid && (commandLine.includes(directory) || commandLine.startsWith('postgres:'))
      );
    } catch {
      // Gone in the meantime, or another user's.
      return false;
    }
  });
}

/** False if there is no such process (any more). */
export function sendSignal(pid: number, signal: NodeJS.Signals): boolean {
  try {
    process.kill(pid, signal);
    return true;
  } catch {
    return false;
  }
}
