/** CPU and memory of processes, read from /proc. */
import { readdirSync, readFileSync } from 'node:fs';

/**
 * Linux reports times in ticks of this many a second. It is sysconf(_SC_CLK_TCK), 100 on every platform Node
 * runs on.
 */
const TICKS_PER_SECOND = 100;

interface ProcessStat {
  readonly name: string;
  readonly parent: number;
  /** CPU of the process itself. */
  readonly seconds: number;
  /** CPU of its children that have ended. */
  readonly endedChildrenSeconds: number;
}

function readStat(pid: number): ProcessStat | undefined {
  const text = readProc(pid, 'stat');
  if (text === undefined) return undefined;
  const fields = text
    .slice(text.lastIndexOf(')') + 2)
    .split(' ')
    .map(Number);
  const cpu = (user: number) => ((fields[user] ?? 0) + (fields[user + 1] ?? 0)) / TICKS_PER_SECOND;
  return {
    name: text.slice(text.indexOf('(') + 1, text.lastIndexOf(')')),
    parent: fields[1] ?? 0,
    seconds: cpu(11),
    endedChildrenSeconds: cpu(13),
  };
}

function readProc(pid: number, file: string): string | undefined {
  try {
    return readFileSync(`/proc/${pid}/${file}`, 'utf8');
  } catch {
    return undefined; // the process has ended meanwhile, or belongs to another user
  }
}

function allPids(): number[] {
  try {
    return readdirSync('/proc')
      .filter((name) => /^\d+$/.test(name))
      .map(Number);
  } catch {
    return []; // no Linux
  }
}

/**
 * Finds the postmaster of a backend. `backendPid` is the pid that the server itself reports; inside a
 * container it differs from the pid here.
 *
 * @returns undefined if the server runs elsewhere, or cannot be distinguished from another one
 */
export function findPostmaster(backendPid: number): number | undefined {
  const backends = allPids().filter(
    (pid) => readStat(pid)?.name === 'postgres' && innermostPid(pid) === backendPid,
  );
  const [backend] = backends;
  return backend === undefined || backends.length > 1 ? undefined : readStat(backend)?.parent;
}

function innermostPid(pid: number): number {
  const pids = /^NSpid:(.*)$/m
    .exec(readProc(pid, 'status') ?? '')?.[1]
    ?.trim()
    .split(/\s+/);
  return Number(pids?.at(-1) ?? pid);
}

/** CPU seconds of a Postgres server and all its processes, ended ones included; NaN if unknown. */
export function postgresCpuSeconds(postmaster: number | undefined): number {
  if (postmaster === undefined) return Number.NaN;
  let seconds = 0;
  for (const pid of allPids()) {
    const stat = readStat(pid);
    if (stat === undefined) continue;
    if (pid === postmaster) seconds += stat.seconds + stat.endedChildrenSeconds;
    else if (stat.parent === postmaster) seconds += stat.seconds;
  }
  return seconds;
}

/** CPU seconds of a process so far; NaN if it has ended. */
export function processCpuSeconds(pid: number): number {
  return readStat(pid)?.seconds ?? Number.NaN;
}

/**
 * Finds the broker that this program started.
 *
 * @returns undefined if it runs elsewhere: in a container, or on an address of the environment
 */
export function findOwnBroker(): number | undefined {
  return allPids().find((pid) => {
    const stat = readStat(pid);
    return stat?.parent === process.pid && stat.name === 'java';
  });
}

export interface ProcessUse {
  readonly cpuSeconds: number;
  readonly peakRssMib: number;
}

/** Watches a process until it ends; the last reading counts. */
export function watchProcess(pid: number, everyMs = 50): { stop(): ProcessUse } {
  let use: ProcessUse = { cpuSeconds: 0, peakRssMib: 0 };
  const read = () => {
    const stat = readStat(pid);
    const peak = statusMib(pid, 'VmHWM');
    if (stat === undefined || peak === undefined) return;
    use = { cpuSeconds: stat.seconds, peakRssMib: peak };
  };
  read();
  const timer = setInterval(read, everyMs);
  return {
    stop() {
      read();
      clearInterval(timer);
      return use;
    },
  };
}

/**
 * Watches the share of CPU time that a virtual machine's host takes from this machine and gives to others.
 *
 * @returns a function that gives the share since then, in percent of all cores' time; NaN if the system does
 * not report it
 */
export function watchHost(): () => number {
  const before = hostTimes();
  return () => {
    const now = hostTimes();
    return (100 * (now.taken - before.taken)) / (now.all - before.all);
  };
}

/**
 * Times of all cores since the system began: user, nice, system, idle, iowait, irq, softirq, steal.
 * https://man7.org/linux/man-pages/man5/proc_stat.5.html
 */
function hostTimes(): { all: number; taken: number } {
  try {
    const [line = ''] = readFileSync('/proc/stat', 'utf8').split('\n', 1);
    const times = line.trim().split(/\s+/).slice(1, 9).map(Number);
    return { all: times.reduce((sum, time) => sum + time, 0), taken: times.at(7) ?? Number.NaN };
  } catch {
    return { all: Number.NaN, taken: Number.NaN }; // no Linux
  }
}

/** Resident memory at this moment; NaN if the process has ended. */
export function residentMib(pid: number): number {
  return statusMib(pid, 'VmRSS') ?? Number.NaN;
}

function statusMib(pid: number, field: 'VmHWM' | 'VmRSS'): number | undefined {
  const kib = new RegExp(`^${field}:\\s+(\\d+) kB`, 'm').exec(readProc(pid, 'status') ?? '')?.[1];
  return kib === undefined ? undefined : Math.round(Number(kib) / 102.4) / 10;
}
