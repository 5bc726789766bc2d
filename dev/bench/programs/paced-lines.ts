/**
 * The output of the paced producer: two lines on stdout, and a file with a line for each tick and partition.
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
