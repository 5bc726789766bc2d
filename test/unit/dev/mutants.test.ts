/** The places of all mutants, without a run of their tests: a change of sources shows here at once. */
import { mutate, readMutants, readSources } from '../../../dev/mutants';
import { projectRoot as ROOT } from '../../../dev/servers/download';

const sources = readSources(ROOT);

test.each(readMutants(ROOT).map((mutant) => [mutant.name, mutant] as const))(
  'the lines that %s replaces are in one file',
  (_, mutant) => {
    expect(mutate(mutant, sources).size).toBeGreaterThan(0);
  },
);
