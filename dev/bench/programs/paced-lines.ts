/**
 * The schedule and the output of the paced producer: two lines on stdout, and a file with a line for each
 * tick and partition.
 */
import type { Sent } from '../latencies';

/** Milliseconds since 1970 of the first tick. */
export interface PacedStart {
  readonly startedAt: number;
}

export interface PacedEnd {
  readonly records: number;
  /** Delay between the time of records and their hand-over to the client. */
  readonly lateP50Ms: number;
  readonly lateP99Ms: number;
}

export function readStart(output: string): PacedStart | undefined {
  const line = lineWith('startedAt', output);
  return line === undefined ? undefined : { startedAt: numberIn(line, 'startedAt') };
}

/** @throws if the producer has not come to its end */
export function readEnd(output: string): PacedEnd {
  const line = lineWith('records', output);
  if (line === undefined) throw new Error('the paced producer did not say what it sent');
  return {
    records: numberIn(line, 'records'),
    lateP50Ms: numberIn(line, 'lateP50Ms'),
    lateP99Ms: numberIn(line, 'lateP99Ms'),
  };
}

function lineWith(name: string, output: string): object | undefined {
  const line = output.split('\n').find((text) => text.startsWith(`{"${name}":`) && text.endsWith('}'));
  if (line === undefined) return undefined;
  const value: unknown = JSON.parse(line);
  return typeof value === 'object' && value !== null ? value : undefined;
}

function numberIn(line: object, name: string): number {
  return Number(Reflect.get(line, name));
}

export function sentLine({ scheduledAt, partition, baseOffset, count }: Sent): string {
  return `${scheduledAt} ${partition} ${baseOffset} ${count}\n`;
}

export function readSends(text: string): Sent[] {
  return text
    .split('\n')
    .filter((line) => line !== '')
    .map((line) => {
      const [scheduledAt = 0, partition = 0, baseOffset = 0, count = 0] = line.split(' ').map(Number);
      return { scheduledAt, partition, baseOffset, count };
    });
}

// --- the schedule: the rate alone decides which records are due when, never the speed of an answer

export const TICK_MS = 5;

/** The number of records that are due in a tick. Any number of ticks together keep the rate. */
export function recordsDue(perSecond: number, tick: number): number {
  const until = (ticks: number) => Math.floor((perSecond * ticks * TICK_MS) / 1000 + ROUNDING);
  return until(tick + 1) - until(tick);
}

const ROUNDING = 1e-6;

/** When the tick is due, in the unit of `startedAt`: milliseconds. */
export function dueAt(startedAt: number, tick: number): number {
  return startedAt + tick * TICK_MS;
}

export function ticksIn(seconds: number): number {
  return Math.round((seconds * 1000) / TICK_MS);
}
