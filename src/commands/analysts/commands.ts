/** The commands for analysts: results that are kept up to date, and the report. */
import type { Command } from '../../cli/usage';
import { FOLD_SETTINGS, PSEUDONYMS_SETTINGS } from '../shared/settings';
import { WRONG_USAGE } from '../shared/usage-parts';

export const ANALYST_COMMANDS: readonly Command[] = [
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
    settings: FOLD_SETTINGS,
    exits: {
      0: 'a signal ended it, and it closed in time',
      1: 'it cannot start, or it did not close within SHUTDOWN_SECONDS',
      2: WRONG_USAGE,
    },
    run: async ({ options }) => (await import('./rollups.js')).rollups(options),
  },
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
      2: WRONG_USAGE,
    },
    run: async ({ options }) => (await import('./pseudonyms.js')).pseudonyms(options),
  },
  {
    name: 'report',
    summary: 'make a report with charts, as one HTML file',
    purpose:
      'Reports verdicts over time, reasons, turnover, refunds, promotions, resends, time to decide and connections, for one operator or all. Reads the rollups where they are complete, and names no player.',
    example:
      'DATABASE_URL=postgres://analysts@localhost/promo promo-intake report --operator acme --from 2026-11-01 --out report.html',
    options: {
      operator: { value: 'ID', help: 'only the events of this operator (default: of all operators)' },
      from: {
        value: 'TIME',
        help: 'the begin: a date such as 2026-11-01, or a time such as 2026-11-01T10:00:00Z (default: 30 days with today)',
      },
      to: { value: 'TIME', help: 'the end, which is not included (default: now)' },
      'time-zone': {
        value: 'NAME',
        help: 'the time zone of dates and days, such as Europe/Warsaw (default UTC)',
      },
      out: { value: 'FILE', help: 'write the report to this file (default: standard output)' },
      json: { help: 'write the figures as one JSON document instead' },
      within: { value: 'SECONDS', help: 'the most time of each query (default 60)' },
    },
    settings: ['DATABASE'],
    exits: {
      0: 'the report is written',
      1: 'it is not written, or the query of a part was ended and the report says so',
      2: 'a wrong option or setting; nothing was read',
    },
    run: async ({ options }) => (await import('./report.js')).report(options),
  },
];
