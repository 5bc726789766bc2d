/** The memory of a process over a long time, and whether it grows. */
import type { Child } from '../servers/child';
import { sleep } from '../servers/deadline';
import { residentMib } from './measure';
import type { Bench } from './mode';
import type { Goal, RunRecord } from './result';
import { median, rounded, sumOf } from './statistics';
import { figure, type Table } from './table';

const RSS_GOAL_MIB = 256;
/** The limit for "no growth": the last quarter of the time compared with the second. */
const GROWTH_GOAL = 1.1;
/** In less time a heap has not found its size yet: it grows with the largest batches that it has met. */
const JUDGED_FROM_MINUTES = 20;
const QUARTERS = [0, 1, 2, 3] as const;

export interface Sample {
  readonly minute: number;
  readonly rss: number;
}

/**
 * Reads the memory of a worker for BENCH_MINUTES, every BENCH_SAMPLE seconds.
 *
 * @throws if the worker ends meanwhile
 */
export async function sampleMemory(
  { extent, say }: Bench,
  worker: Child,
  startedAt: number,
): Promise<Sample[]> {
  const samples: Sample[] = [];
  const everyMs = extent.number('sample') * 1000;
  const end = startedAt + extent.number('minutes') * 60_000;
  for (let at = startedAt; at < end; at += everyMs) {
    await sleep(at - Date.now());
    const rss = residentMib(worker.pid ?? 0);
    if (Number.isNaN(rss)) throw worker.failure(`ended (${worker.endedBy})`);
    const minute = rounded((at - startedAt) / 60_000, 3);
    samples.push({ minute, rss });
    say(`minute ${figure(minute, 1)}: ${figure(rss, 1)} MiB`);
  }
  return samples;
}

const inQuarter = (samples: readonly Sample[], minutes: number, index: number) =>
  samples.filter(({ minute }) => Math.floor((minute / minutes) * 4) === index).map(({ rss }) => rss);

/** @param when the state of the worker, to follow "resident memory" */
export function residentGoal(id: string, samples: readonly Sample[], when = ''): Goal {
  const highest = Math.max(...samples.map(({ rss }) => rss));
  return {
    id,
    goal: `resident memory${when} <= ${RSS_GOAL_MIB} MiB`,
    measured: `${figure(highest, 1)} MiB at most`,
    met: highest <= RSS_GOAL_MIB,
  };
}

export function quarterTable(samples: readonly Sample[], minutes: number): Omit<Table, 'notes'> {
  return {
    columns: ['quarter', 'RSS MiB, median', 'highest'],
    rows: QUARTERS.map((index) => {
      const within = inQuarter(samples, minutes, index);
      return [String(index + 1), figure(median(within), 1), figure(Math.max(...within), 1)];
    }),
  };
}

export function growthGoal(id: string, samples: readonly Sample[], minutes: number): Goal {
  const growth = median(inQuarter(samples, minutes, 3)) / median(inQuarter(samples, minutes, 1));
  return {
    id,
    goal: `memory does not grow (last quarter <= ${GROWTH_GOAL} x the second)`,
    measured: `${figure(growth, 2)} x; from the second quarter on ${figure(slopeOf(samples.filter(({ minute }) => minute >= minutes / 4)), 1)} MiB an hour`,
    met: Number.isFinite(growth) && minutes >= JUDGED_FROM_MINUTES ? growth <= GROWTH_GOAL : null,
  };
}

/** Slope in MiB an hour: the straight line of least squares through the samples. */
export function slopeOf(samples: readonly Sample[]): number {
  const mean = (pick: (sample: Sample) => number) => sumOf(samples, pick) / samples.length;
  const [minute, rss] = [mean((sample) => sample.minute), mean((sample) => sample.rss)];
  const together = sumOf(samples, (sample) => (sample.minute - minute) * (sample.rss - rss));
  return (together / sumOf(samples, (sample) => (sample.minute - minute) ** 2)) * 60;
}

export function recordsOf(samples: readonly Sample[]): RunRecord[] {
  return samples.map(({ minute, rss }) => ({ minute, rss_mib: rss }));
}

export function memoryChart(title: string, samples: readonly Sample[]) {
  return {
    title,
    x: { label: 'minutes', scale: 'linear' as const },
    y: { label: 'MiB', scale: 'linear' as const },
    series: [{ name: 'worker', points: samples.map(({ minute, rss }) => [minute, rss] as const) }],
  };
}
