/** docs/mutants.md: every mutant with its broken rules and the test that notices it. */
import { readMutants, SIMULATOR } from '../mutants';
import { code, document, generatedFrom, paragraph, table } from './markdown';

export function renderMutants(command: string, root: string): string {
  const mutants = readMutants(root);
  return document([
    generatedFrom('test/mutants/', command),
    '# Mutants',
    paragraph(
      `${mutants.length} defects that somebody could really write, as changes of lines. Each breaks a rule of`,
      '[the rules](rules.md), compiles, and is noticed by the test that it names; the layer `mutants` tries them all.',
    ),
    table(
      ['mutant', 'what goes wrong', 'breaks', 'noticed by'],
      mutants.map(({ name, what, breaks, killer: { file, test } }) => [
        `[${name}](../test/mutants/${name}.diff)`,
        what,
        breaks.join(', '),
        file === SIMULATOR ? `the simulator: ${test}` : `${code(file)}: ${test}`,
      ]),
    ),
  ]);
}
