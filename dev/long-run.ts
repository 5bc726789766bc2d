/**
 * How much of the same a test does. The run of every change repeats a case as often as its rule needs. The
 * long run (LONG=1) draws more seeds and kills more often. It tests no further rule.
 */
export const isLongRun = process.env.LONG === '1';

export interface Numbers {
  /** Of `make test`. */
  readonly usual: number;
  /** Of `make test-long`. */
  readonly long: number;
  /** A variable of the environment that gives any other number. */
  readonly variable?: string;
}

export function inRun({ usual, long, variable }: Numbers): number {
  const given = variable === undefined ? undefined : process.env[variable];
  return Number(given ?? (isLongRun ? long : usual));
}
