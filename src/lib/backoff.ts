/** The wait of an undecided partition before its next retry (docs/rules.md, U2). */

const FIRST_WAIT_MS = 1_000;
const LONGEST_WAIT_MS = 30_000;

/**
 * The wait after a number of failures in a row: 1, 2, 4, 8, 16, 30, 30 ... seconds, without end.
 *
 * @param failures 1 or more
 */
export function backoffMs(failures: number): number {
  // 2^15 s exceeds the longest wait. A larger exponent would only risk an infinite number.
  return Math.min(LONGEST_WAIT_MS, FIRST_WAIT_MS * 2 ** Math.min(failures - 1, 15));
}
