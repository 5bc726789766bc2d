/** The commands that judge events without any server, as data: help loads this file, and not their code. */
import { interruption } from '../cli/interruption';
import type { Command } from '../cli/usage';

export const CHECK: readonly Command[] = [
  {
    name: 'check',
    file: 'file or -',
    summary: 'judge each event of a file, without Kafka and without a database',
    purpose:
      'Judges each event of FILE by the rules of the worker, and prints each fault with its line, field and remedy.',
    example:
      'promo-intake check events.ndjson --reference schemas/examples/reference.yaml --connection acme-stream',
    options: {
      reference: {
        value: 'FILE',
        file: true,
        needs: 'connection',
        help: 'apply the brand and game rules of this reference data',
      },
      connection: {
        value: 'ID',
        needs: 'reference',
        help: 'the connection of the reference data by which the events come',
      },
      json: {
        help: 'print one object per event: line, event_id, verdict, reason, faults; a duplicate adds first_line and content_differs, an event that the webhook refuses adds warning',
      },
    },
    settings: [],
    exits: {
      0: 'every event is accepted',
      1: 'some events are rejected, skipped or duplicates, the webhook would refuse some, or it was interrupted',
      2: 'a wrong option or FILE, or reference data with faults',
    },
    run: async ({ file, options }) => {
      const { check } = await import('./check.js');
      const [reference, connection] = [options.get('reference'), options.get('connection')];
      const rules =
        reference === undefined || connection === undefined ? undefined : { reference, connection };
      return check({ file, json: options.has('json'), rules }, interruption());
    },
  },
  {
    name: 'check-page',
    summary: 'print a page that checks events in a browser',
    purpose:
      'Prints one HTML file that judges pasted events by the rules of check. It has the examples, needs no network, and sends nothing. Redirect it into a file.',
    example: 'promo-intake check-page',
    options: {},
    settings: [],
    exits: { 0: 'the page is printed', 1: 'the page is missing in this installation', 2: 'a wrong option' },
    run: async () => (await import('./check-page.js')).checkPage(),
  },
];
