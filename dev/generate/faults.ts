/** docs/faults.md: faults in the worker's surroundings, and their effects. */
import { FAULTS } from '../catalogue/faults';
import { document, generatedFrom, paragraph, table } from './markdown';

export function renderFaults(command: string): string {
  return document([
    generatedFrom('dev/catalogue/faults.ts', command),
    '# Faults',
    paragraph(
      'Failures around a worker, its reaction, and the signs that you see. Every one was tried by tests, after which the store had to be sound',
      '(`promo.check_invariants()`). The tests of `test/faults/` also compare the store with Kafka (`promo-intake verify`). They count that every',
      'event was decided once, and require progress within 35 s of the end of the fault. The catalogue `dev/catalogue/faults.ts` names the tests of each',
      'fault, and `make test` checks that they ran. Run `make test-faults` for all of them, also those that take minutes, and for the result of each fault.',
    ),
    paragraph(
      '*Undecided* means that a partition waits 1, 2, 4 ... 30 s and retries, without end, while the others go on. Nothing is stored of its',
      'events, and no event id is used up. The log line `partition is undecided` has the error and the wait. The metrics',
      '`promo_intake_undecided_partitions` and `promo_intake_retries_total` count them. `/livez` stays 200: a restart would not help.',
    ),
    ...FAULTS.flatMap(({ title, faults }) => [
      `## ${title}`,
      table(
        ['fault', 'reaction of the worker', 'signs'],
        faults.map(({ fault, does, sees }) => [fault, does, sees]),
      ),
    ]),
  ]);
}
