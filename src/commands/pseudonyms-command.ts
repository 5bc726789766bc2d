/** The entry of `pseudonyms` in the table of commands. */
import type { Command } from '../cli/usage';
import { PSEUDONYMS_SETTINGS } from './settings';

export const PSEUDONYMS: readonly Command[] = [
  {
    name: 'pseudonyms',
    summary: 'give each player a pseudonym for readers, until SIGTERM',
    purpose:
      'Computes the pseudonyms of new players by PSEUDONYM_KEYS twice a second. Of several processes one works, and the others wait for its end.',
    example:
      'DATABASE_URL=postgres://promo_pseudonyms@localhost/promo PSEUDONYM_KEYS_FILE=pseudonym.keys promo-intake pseudonyms',
    options: {
      'replace-lost-key': {
        help: 'begin pseudonyms of a new key without the former key, which is lost or known to others',
      },
    },
    settings: PSEUDONYMS_SETTINGS,
    exits: {
      0: 'a signal ended it, and it closed in time',
      1: 'it cannot start, the stored pseudonyms are of another key, or it did not close within SHUTDOWN_SECONDS',
      2: 'a wrong option or setting; nothing was started',
    },
    run: async ({ options }) => (await import('./pseudonyms.js')).pseudonyms(options),
  },
];
