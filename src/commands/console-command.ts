/** The entry of `console` in the table of commands. */
import type { Command } from '../cli/usage';
import { CONSOLE_SETTINGS } from './settings';

export const CONSOLE: readonly Command[] = [
  {
    name: 'console',
    summary: 'show each operator its own events in a browser, until SIGTERM',
    purpose:
      'Serves read-only pages: overview, one event, one round, duplicates that differ, anomalies, connections. A token shows the data of one operator.',
    example:
      'CONSOLE_TOKENS_FILE=tokens.json DATABASE_URL=postgres://analysts@localhost/promo promo-intake console',
    options: {},
    settings: CONSOLE_SETTINGS,
    exits: {
      0: 'a signal ended it, and it closed in time',
      1: 'it cannot start, or it did not close within SHUTDOWN_SECONDS',
      2: 'a wrong option or setting; nothing was started',
    },
    run: async () => (await import('./console.js')).serveOperators(),
  },
];
