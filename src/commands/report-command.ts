/** The entry of `report` in the table of commands. */
import type { Command } from '../cli/usage';

export const REPORT: readonly Command[] = [
  {
    name: 'report',
    summary: 'make a report with charts, as one HTML file',
    purpose:
      'Reports verdicts over time, reasons, turnover, refunds, resends, time to decide and connections, for one operator or all. Reads the rollups where they are complete, and names no player.',
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
