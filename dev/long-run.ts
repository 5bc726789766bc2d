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

/** @throws where the variable is set to no whole number: a test would run no case, and pass */
export function inRun({ usual, long, variable = '' }: Numbers): number {
  const given = process.env[variable] ?? '';
  if (given === '') return isLongRun ? long : usual;
  if (!/^\d{1,9}$/.test(given))
    throw new Error(`${variable} is ${JSON.stringify(given)}: set a whole number`);
  return Number(given);
}
