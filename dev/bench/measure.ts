/** CPU and memory of processes, read from /proc. */
import { readdirSync, readFileSync } from 'node:fs';

/** Linux reports times in ticks of this many a second (sysconf(_SC_CLK_TCK), 100 on every platform Node runs on). */
const TICKS_PER_SECOND = 100;

interface ProcessStat {
  readonly parent: number;
  /** CPU of the process itself. */
  readonly seconds: number;
  /** CPU of its children that have ended. */
  readonly endedChildrenSeconds: number;
}

function readStat(pid: number): ProcessStat | undefined {
  try {
    const text = readFileSync(`/proc/${pid}/stat`, 'utf8');
    const fields = text
      .slice(text.lastIndexOf(')') + 2)
      .split(' ')
      .map(Number);
    const [, parent = 0] = fields;
    const seconds = ((fields[11] ?? 0) + (fields[12] ?? 0)) / TICKS_PER_SECOND;
    return {
      parent,
      seconds,
      endedChildrenSeconds: ((fields[13] ?? 0) + (fields[14] ?? 0)) / TICKS_PER_SECOND,
    };
  } catch {
    return undefined; // it has ended meanwhile
  }
}

/** CPU seconds of a Postgres server and all its processes, ended ones included, by the pid of any of its backends. */
export function postgresCpuSeconds(backendPid: number): number {
  const postmaster = readStat(backendPid)?.parent;
  if (postmaster === undefined) return Number.NaN;
  let seconds = 0;
  for (const name of readdirSync('/proc')) {
    const pid = Number(name);
    if (!Number.isInteger(pid)) continue;
    const stat = readStat(pid);
    if (stat === undefined) continue;
    if (pid === postmaster) seconds += stat.seconds + stat.endedChildrenSeconds;
    else if (stat.parent === postmaster) seconds += stat.seconds;
  }
  return seconds;
}

export interface ProcessUse {
  readonly cpuSeconds: number;
  readonly peakRssMib: number;
}

/** Watches a process until it ends; the last reading stands. */
export function watchProcess(pid: number, everyMs = 100): { stop(): ProcessUse } {
  let use: ProcessUse = { cpuSeconds: 0, peakRssMib: 0 };
  const read = () => {
    const stat = readStat(pid);
    if (stat === undefined) return;
    use = { cpuSeconds: stat.seconds, peakRssMib: Math.max(use.peakRssMib, peakRssMib(pid)) };
  };
  read();
  const timer = setInterval(read, everyMs);
  return {
    stop() {
      clearInterval(timer);
      return use;
    },
  };
}

function peakRssMib(pid: number): number {
  try {
    const kib = /VmHWM:\s+(\d+) kB/.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))?.[1];
    return Math.round(Number(kib ?? 0) / 1024);
  } catch {
    return 0;
  }
}

export function median(values: readonly number[]): number {
  const sorted = [...values].sort((a, b) => a - b);
  const middle = Math.floor(sorted.length / 2);
  const upper = sorted[middle] ?? Number.NaN;
  return sorted.length % 2 === 1 ? upper : (upper + (sorted[middle - 1] ?? Number.NaN)) / 2;
}
