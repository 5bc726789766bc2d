/** The entry of `rollups` in the table of commands. */
import type { Command } from '../cli/usage';
import { ROLLUPS_SETTINGS } from './settings';

export const ROLLUPS: readonly Command[] = [
  {
    name: 'rollups',
    summary: 'keep the rollups up to date, until SIGTERM',
    purpose:
      'Adds new verdicts to promo.verdicts_hourly, promo.ledger_daily and the counts of players, some four times a second. Of several processes one works, and the others wait for its end.',
    example: 'DATABASE_URL=postgres://promo_rollups@localhost/promo promo-intake rollups',
    options: {
      rebuild: {
        value: 'REASON',
        help: 'count all kept history again beside the rollups that are shown, and then show the result',
      },
    },
    settings: ROLLUPS_SETTINGS,
    exits: {
      0: 'a signal ended it, and it closed in time',
      1: 'it cannot start, or it did not close within SHUTDOWN_SECONDS',
      2: 'a wrong option or setting; nothing was started',
    },
    run: async ({ options }) => (await import('./rollups.js')).rollups(options),
  },
];
