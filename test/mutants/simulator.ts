/**
 * The simulator as a mutant's killer: the layer runs this file in a copy of the project that holds the mutant. Each of `EXPECTED` is an
 * invariant that has to break in one of the first seeds, or, behind " at ", in one of the first that are about that await or that fault. Where nothing is
 * expected, no invariant may break in any of the seeds that `PLAYED` names in the same way.
 *
 * What a seed stands for changes with the simulator: so many are played, and none is named.
 */
import { Coverage, firstSeeds } from '../simulation/faults';
import { makePlan } from '../simulation/plan';
import { simulate } from '../simulation/simulation';

const { EXPECTED, PLAYED = EXPECTED ?? '' } = process.env;
const SEEDS = 200;

jest.setTimeout(120_000);

test('the simulator notices nothing', async () => {
  const [expected] = EXPECTED?.split(' at ') ?? [];
  for (const seed of new Set(PLAYED.split(', ').flatMap(seedsFor))) {
    const { problem } = await simulate(makePlan(seed), new Coverage());
    if (problem !== null && (expected === undefined || problem.startsWith(`${expected}:`)))
      throw new Error(`seed ${seed} breaks ${problem}`);
  }
});

function seedsFor(what: string): number[] {
  const [, about] = what.split(' at ');
  return firstSeeds(SEEDS, about ?? null);
}
