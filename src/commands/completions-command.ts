/** The entry of `completions` in the table of commands. */
import type { Command } from '../cli/usage';
import { COMPLETIONS_SETTINGS } from './settings';

export const COMPLETIONS: readonly Command[] = [
  {
    name: 'completions',
    summary: 'publish the completions of promotions, until SIGTERM',
    purpose:
      'Publishes each entry of the ledger of completions on COMPLETION_TOPIC. Of several processes one works, and the others wait for its end.',
    example:
      'DATABASE_URL=postgres://promo_completions@localhost/promo COMPLETION_TOPIC=promo.completion.v1 promo-intake completions',
    options: {},
    settings: COMPLETIONS_SETTINGS,
    exits: {
      0: 'a signal ended it, and it closed in time',
      1: 'it cannot start, or it did not close within SHUTDOWN_SECONDS',
      2: 'a wrong option or setting; nothing was started',
    },
    run: async () => (await import('./completions.js')).completions(),
  },
];
