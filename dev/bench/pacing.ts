/**
 * The schedule of an open-loop producer. The rate alone decides which records are due when, never the speed
 * of an answer.
 */

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
