/**
 * The simulator as the killer of a mutant. The layer runs this file in a copy of the project with the mutant.
 * One of the first seeds has to break the invariant `EXPECTED`. A name with " at " also names an await or a
 * fault, and then only seeds about that place are played. The seeds in `PLAYED` noticed a mutant, and break
 * no invariant without one.
 *
 * A seed gives another run after each change of the simulator. So many seeds are played, and none is named.
 */
import { Coverage, firstSeeds } from '../simulation/faults';
import { makePlan } from '../simulation/plan';
import { simulate } from '../simulation/simulation';

const { EXPECTED, PLAYED } = process.env;
const SEEDS = 200;

jest.setTimeout(120_000);

test('the simulator notices nothing', async () => {
  const [expected, about = null] = EXPECTED?.split(' at ') ?? [];
  const seeds = PLAYED?.split(',').map(Number) ?? firstSeeds(SEEDS, about);
  for (const seed of seeds) {
    const { problem } = await simulate(makePlan(seed), new Coverage());
    if (problem !== null && (expected === undefined || problem.startsWith(`${expected}:`)))
      throw new Error(`seed ${seed} breaks ${problem}`);
  }
});
