/** The commands that look at a running intake, and name what is wrong. */
import type { Command } from '../../cli/usage';
import { STATUS_SETTINGS } from '../shared/settings';
import { WRONG_USAGE } from '../shared/usage-parts';

export const DIAGNOSIS_COMMANDS: readonly Command[] = [
  {
    name: 'status',
    summary: 'report the state of the service, and whether a person has to act',
    purpose:
      'Reports versions, group, lag, undecided partitions, balance of counters and settings in effect, and names each problem.',
    example: 'promo-intake status --json',
    options: {
      json: { help: 'print one JSON document, for scripts' },
      check: { help: 'also run promo.check_invariants(), as a reader; it reads everything stored' },
    },
    settings: STATUS_SETTINGS,
    exits: {
      0: 'no person has to act',
      1: 'a person has to act, or a part cannot be read; each is named',
      2: WRONG_USAGE,
    },
    run: async ({ options }) =>
      (await import('./status.js')).status({ json: options.has('json'), check: options.has('check') }),
  },
  {
    name: 'verify',
    summary: 'check that the stored data is sound, and agrees with Kafka',
    purpose:
      'Checks the invariants of the database, compares decided with committed offsets and with Kafka, and prints each damage.',
    example:
      'KAFKA_BROKERS=localhost:9092 DATABASE_URL=postgres://postgres@localhost/promo promo-intake verify',
    options: {},
    settings: ['KAFKA', 'KAFKA_GROUP_ID', 'DATABASE'],
    exits: { 0: 'sound', 1: 'damage was found, or a check could not run', 2: WRONG_USAGE },
    run: async () => (await import('./verify.js')).verify(),
  },
  {
    name: 'health',
    summary: 'ask a running worker whether it is alive',
    purpose: 'Requests /livez of the worker on this machine, or another URL, and prints the answer.',
    example: 'promo-intake health --url http://promo-intake-worker:8080/readyz',
    options: {
      url: { value: 'URL', help: 'the address to request (default http://127.0.0.1:HTTP_PORT/livez)' },
    },
    settings: ['HTTP_PORT'],
    exits: { 0: 'the answer is 200', 1: 'there is another answer, or none within 4 s', 2: WRONG_USAGE },
    run: async ({ options }) => (await import('./health.js')).health(options.get('url')),
  },
];
