/** The commands for operators: check and send events, and see what became of them. */
import { interruption } from '../../cli/interruption';
import type { Command } from '../../cli/usage';
import { REASONS } from '../../domain/verdict/reasons';
import { CONSOLE_SETTINGS, RECONCILE_SETTINGS, SEND_SETTINGS } from '../shared/settings';
import { RULES_OF_CONNECTION, WRONG_USAGE, WRONG_USAGE_OR_FILE } from '../shared/usage-parts';

/** The verdicts that an event may keep. A duplicate has the verdict of its first delivery. */
const VERDICTS = ['accepted', 'rejected', 'skipped'] as const;
export const OPERATOR_COMMANDS: readonly Command[] = [
  {
    name: 'check',
    file: 'file or -',
    summary: 'judge each event of a file, without Kafka and without a database',
    purpose:
      'Judges each event of FILE by the rules of the worker, and prints each fault with its line, field and remedy.',
    example:
      'promo-intake check events.ndjson --reference schemas/examples/reference.yaml --connection acme-stream',
    options: {
      ...RULES_OF_CONNECTION,
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
    run: async () => (await import('../shared/check-page.js')).checkPage(),
  },
  {
    name: 'sign',
    file: 'file',
    summary: 'sign a request to a webhook, and explain the signature',
    purpose:
      'Signs FILE as the body of a request, and prints its headers, the signed bytes and a curl command. With --verify it names the part of a given request that differs.',
    example: 'WEBHOOK_SECRETS_FILE=secrets.json promo-intake sign event.json --connection acme-hook',
    options: {
      connection: {
        value: 'ID',
        required: true,
        help: 'the sending connection; WEBHOOK_SECRETS has its secret',
      },
      url: {
        value: 'URL',
        help: 'the address of the webhook, for the curl command (default http://127.0.0.1:8081)',
      },
      reconcile: { help: 'FILE asks for the standing of events: the curl command has that path' },
      id: { value: 'ID', help: 'the webhook-id (default: a new one)' },
      timestamp: { value: 'SECONDS', help: 'the webhook-timestamp, in seconds since 1970 (default: now)' },
      verify: {
        value: 'HEADERS',
        file: 'file',
        help: 'check the request with these headers, one per line, as curl -v prints them; FILE is its body',
      },
    },
    settings: SEND_SETTINGS,
    exits: {
      0: 'signed; with --verify: the webhook would take this signature now',
      1: 'with --verify: a part differs, and is named',
      2: WRONG_USAGE_OR_FILE,
    },
    run: async ({ file, options }) => {
      const { signRequest } = await import('./sign.js');
      const [connection = '', url = 'http://127.0.0.1:8081'] = [
        options.get('connection'),
        options.get('url'),
      ];
      const [id, timestamp, verify] = [options.get('id'), options.get('timestamp'), options.get('verify')];
      const isQuestion = options.has('reconcile');
      return signRequest({ file, connection, url, isQuestion, id, timestamp, verify });
    },
  },
  {
    name: 'send',
    file: 'file or -',
    summary: 'send events to a webhook, and print their verdicts',
    purpose:
      'Sends the events of FILE to a webhook, 500 per request, and prints the result of each event that is not simply accepted.',
    example:
      'WEBHOOK_SECRETS_FILE=secrets.json promo-intake send events.ndjson --url https://events.example.com --connection acme-hook',
    options: {
      url: { value: 'URL', required: true, help: 'the address of the webhook; /v1/events/ID is appended' },
      connection: {
        value: 'ID',
        required: true,
        help: 'the sending connection; WEBHOOK_SECRETS has its secret',
      },
      'dry-run': {
        help: 'rehearse: print the verdicts that the events would get, and store nothing; 500 events see one another',
      },
      json: { help: 'print one object per event: its line, and the answer of the webhook' },
    },
    settings: SEND_SETTINGS,
    exits: {
      0: 'every event is decided, and none is rejected; with --dry-run: none would be rejected',
      1: 'some events are rejected or were not sent, the webhook refused them, or it was interrupted',
      2: WRONG_USAGE_OR_FILE,
    },
    run: async ({ file, options }) => {
      const { send } = await import('./send.js');
      const [url = '', connection = ''] = [options.get('url'), options.get('connection')];
      const isRehearsal = options.has('dry-run');
      return send({ file, url, connection, json: options.has('json'), isRehearsal }, interruption());
    },
  },
  {
    name: 'tail',
    summary: 'follow the verdicts as they are decided',
    purpose:
      'Prints each verdict that is decided from now on, once and in one sentence, with the remedy of a rejected or skipped event. Reads the database with the role of a reader.',
    example: 'promo-intake tail --operator acme --verdict rejected --since 10m',
    options: {
      since: {
        value: 'TIME',
        help: 'begin with the verdicts of this time or later, such as 2026-11-22T10:00:00Z, or of the last 10m, 2h or 1d',
      },
      operator: { value: 'ID', help: 'only verdicts of this operator' },
      connection: { value: 'ID', help: 'only verdicts of events that came by this connection' },
      verdict: {
        value: 'VERDICT',
        choices: VERDICTS,
        help: `only verdicts of this value: ${VERDICTS.join(', ')}`,
      },
      reason: {
        value: 'REASON',
        choices: REASONS.map(({ name }) => name),
        help: 'only verdicts with this reason',
      },
      test: { help: 'follow the verdicts of connections for tests, and no others' },
      json: { help: 'print one object per verdict, without the player' },
    },
    settings: ['DATABASE'],
    exits: {
      0: 'a signal ended it',
      1: 'the database cannot be read, or lacks a permission',
      2: WRONG_USAGE,
    },
    run: async ({ options }) => {
      const { tail } = await import('./tail.js');
      const { readPast } = await import('../../cli/option-values.js');
      const [operator, connection] = [options.get('operator'), options.get('connection')];
      const [verdict, reason] = [options.get('verdict'), options.get('reason')];
      const filters = { operator, connection, verdict, reason, isTest: options.has('test') };
      const sinceMs = readPast(options, 'since');
      return tail({ filters, json: options.has('json'), sinceMs }, interruption());
    },
  },
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
      2: WRONG_USAGE_OR_FILE,
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
  {
    name: 'console',
    summary: 'show each operator its own events in a browser, until SIGTERM',
    purpose:
      'Serves read-only pages: overview, one event, one round, duplicates that differ, anomalies, connections, promotions. A token shows the data of one operator.',
    example:
      'CONSOLE_TOKENS_FILE=tokens.json DATABASE_URL=postgres://analysts@localhost/promo promo-intake console',
    options: {},
    settings: CONSOLE_SETTINGS,
    exits: {
      0: 'a signal ended it, and it closed in time',
      1: 'it cannot start, or it did not close within SHUTDOWN_SECONDS',
      2: WRONG_USAGE,
    },
    run: async () => (await import('./console.js')).serveOperators(),
  },
];
