/** The entry of `sandbox` in the table of commands. */
import type { Command } from '../cli/usage';
import { SANDBOX_SETTINGS } from './settings';

export const SANDBOX: readonly Command[] = [
  {
    name: 'sandbox',
    summary: 'serve operator calls for tests of a client, until SIGTERM',
    purpose:
      'Answers signed operator calls by the rules of the contract, plays rounds against test wallets, and publishes their events. It never belongs into production.',
    example:
      'DATABASE_URL=postgres://postgres@localhost/sandbox promo-intake sandbox --file schemas/examples/sandbox.yaml',
    options: {
      file: {
        value: 'FILE',
        required: true,
        file: true,
        help: 'the operators with their keys, games, wallets and intakes (YAML)',
      },
      port: { value: 'N', help: 'the port of the calls; 0: any free port (default 8082)' },
    },
    settings: SANDBOX_SETTINGS,
    exits: {
      0: 'a signal ended it, and it closed in time',
      1: 'it cannot start, or it did not close within SHUTDOWN_SECONDS',
      2: 'a wrong option or setting, or a file with faults; nothing was started',
    },
    run: async ({ options }) => (await import('./sandbox.js')).sandbox(options),
  },
];
