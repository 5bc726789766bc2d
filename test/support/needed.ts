/** Tests that need software which a machine may lack. */

/** Why the required software is missing. */
export interface Problem {
  readonly problem: string;
}

const isProblem = (needed: object): needed is Problem => 'problem' in needed;
const isThere = <Needed extends object>(needed: Needed): needed is Exclude<Needed, Problem> =>
  !isProblem(needed);

/** `test` with the required software where it is present; otherwise a skipped test that says why. */
export function testWhere<Needed extends object>(
  needed: Needed,
): (name: string, work: (needed: Exclude<Needed, Problem>) => Promise<void>, deadlineMs?: number) => void {
  return (name, work, deadlineMs) => {
    if (isThere(needed)) test(name, () => work(needed), deadlineMs);
    else if (isProblem(needed)) test.skip(`${name} (skipped: ${needed.problem})`, () => {});
  };
}
