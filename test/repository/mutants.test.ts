/**
 * The places and the test files of all mutants, without a run of their tests. A change of sources, and a test
 * file with another name, show here at once.
 */
import {
  killerFile,
  mutate,
  readMutant,
  readMutants,
  readSources,
  SIMULATOR,
  testFiles,
} from '../../dev/mutants';
import { projectRoot as ROOT } from '../../dev/servers/download';

const sources = readSources(ROOT);
const tests = testFiles(ROOT);
const mutants = readMutants(ROOT).map((mutant) => [mutant.name, mutant] as const);

test.each(mutants)('the lines that %s replaces are in one file', (_, mutant) => {
  expect(mutate(mutant, sources).size).toBeGreaterThan(0);
});

test.each(mutants.filter(([, { killer }]) => killer.file !== SIMULATOR))(
  'the test file that %s names exists',
  (_, mutant) => {
    expect(tests).toContain(killerFile(mutant, tests));
  },
);

test('a mutant of a function that a later migration replaces is refused', () => {
  const mutant = readMutant(
    'old',
    'It is.\n\nbreaks: R1\nkilled by: a.test.ts: a\n\n@@\n-returns 1\n+returns 2\n',
  );
  const first = ['migrations/0001.sql', 'create function promo.f()\nreturns 1\nlanguage sql'] as const;
  expect(mutate(mutant, new Map([first])).size).toBe(1);
  const other = ['migrations/0002.sql', 'create or replace function promo.fg()'] as const;
  expect(mutate(mutant, new Map([first, other])).size).toBe(1);
  const again = ['migrations/0003.sql', 'drop view v;\ncreate or replace function promo.f()'] as const;
  expect(() => mutate(mutant, new Map([first, other, again]))).toThrow(
    'old breaks nothing: migrations/0003.sql defines again what migrations/0001.sql:2 defines',
  );
});
