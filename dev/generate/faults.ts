/** docs/faults.md: faults in the worker's surroundings, and their effects. */
import { FAULTS } from '../catalogue/faults';
import { code, document, generatedFrom, paragraph, table } from './markdown';

export function renderFaults(command: string): string {
  return document([
    generatedFrom('dev/catalogue/faults.ts', command),
    '# Faults',
    paragraph(
      'What can go wrong around a worker, what it does then, what you see of it, and the tests that prove it. After each test the store has to be',
      'sound (`promo.check_invariants()`); those of `faults/` also hold it against Kafka (`promo-intake verify`), count that everything sent was',
      'decided once, and want work to go on within 35 s of the end of the fault. `make test-faults` runs them all and prints what came of each;',
      '`make test` runs all but those that take minutes.',
    ),
    paragraph(
      '*Undecided* means that a partition waits 1, 2, 4 ... 30 s and tries again, without end, while the others go on; nothing is stored of it, and',
      'no event id is used up. It is seen by the log line `partition is undecided`, which has the error and the wait, and by the metrics',
      '`promo_intake_undecided_partitions` and `promo_intake_retries_total`. `/livez` stays 200: a restart would not help.',
    ),
    ...FAULTS.flatMap(({ title, faults }) => [
      `## ${title}`,
      table(
        ['fault', 'what the worker does', 'what is seen', 'tests'],
        faults.map(({ fault, does, sees, tests }) => [fault, does, sees, renderTests(tests)]),
      ),
    ]),
  ]);
}

function renderTests(tests: Readonly<Record<string, readonly string[]>>): string {
  return Object.entries(tests)
    .map(([file, names]) => `${code(file.replace(/^test\//, ''))}: ${names.join('; ')}`)
    .join('<br>');
}
