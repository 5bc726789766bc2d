/** Tests of what a machine may lack. */

/** Why what a test needs is not there. */
export interface Problem {
  readonly problem: string;
}

const isProblem = (needed: object): needed is Problem => 'problem' in needed;
const isThere = <Needed extends object>(needed: Needed): needed is Exclude<Needed, Problem> =>
  !isProblem(needed);

/** `test` with what it needs, where that is there; else one that is skipped and says why. */
export function testWhere<Needed extends object>(
  needed: Needed,
): (name: string, work: (needed: Exclude<Needed, Problem>) => Promise<void>, deadlineMs?: number) => void {
  return (name, work, deadlineMs) => {
    if (isThere(needed)) test(name, () => work(needed), deadlineMs);
    else if (isProblem(needed)) test.skip(`${name} (skipped: ${needed.problem})`, () => {});
  };
}
