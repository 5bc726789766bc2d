/** The command `reconcile`, as data: help loads this file, and not the code of the command. */
import { interruption } from '../cli/interruption';
import type { Command } from '../cli/usage';
import { RECONCILE_SETTINGS } from './settings';

export const RECONCILE: readonly Command[] = [
  {
    name: 'reconcile',
    file: 'file or -',
    summary: 'compare a file of events with the verdicts of the intake',
    purpose:
      'Looks each event of FILE up in the feed of a connection, changes nothing, and prints the events to send again and to correct.',
    example: 'promo-intake reconcile events.ndjson --connection acme-stream --resend again.ndjson',
    options: {
      connection: {
        value: 'ID',
        required: true,
        help: 'the connection that sent the events: only its feed is read',
      },
      url: {
        value: 'URL',
        help: 'ask the webhook at this address, signed with WEBHOOK_SECRETS, and not the database',
      },
      resend: {
        value: 'OUT',
        help: 'write the events that were never received to this file, byte for byte',
      },
      mend: {
        value: 'OUT',
        help: 'write the events to correct to this file: one object a line, with its fault and remedy',
      },
      csv: { help: 'read FILE as CSV of ids; a name that ends with .csv has the same effect' },
      json: { help: 'print one object per event, and the totals as the last one' },
    },
    settings: RECONCILE_SETTINGS,
    exits: {
      0: 'every event is accounted for',
      1: 'some events have to be sent again, corrected or asked again, or it failed or was interrupted: it writes no file then',
      2: 'a wrong option, setting or FILE; nothing was started',
    },
    run: async ({ file, options }) => {
      const { reconcile } = await import('./reconcile.js');
      const [connection = '', url, resend, mend] = ['connection', 'url', 'resend', 'mend'].map((name) =>
        options.get(name),
      );
      return reconcile(
        { file, connection, url, resend, mend, csv: options.has('csv'), json: options.has('json') },
        interruption(),
      );
    },
  },
];
