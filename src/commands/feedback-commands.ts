/** The table of the commands that show a sender what became of its events, and how to sign them. */
import { interruption } from '../cli/interruption';
import type { Command } from '../cli/usage';
import { REASONS } from '../domain/verdict/reasons';
import { SEND_SETTINGS } from './settings';

const WRONG_USAGE = 'a wrong option, setting or FILE; nothing was started';
/** The verdicts that an event may keep. A duplicate has the verdict of its first delivery. */
const VERDICTS = ['accepted', 'rejected', 'skipped'] as const;

export const FEEDBACK: readonly Command[] = [
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
        file: true,
        help: 'check the request with these headers, one per line, as curl -v prints them; FILE is its body',
      },
    },
    settings: SEND_SETTINGS,
    exits: {
      0: 'signed; with --verify: the webhook would take this signature now',
      1: 'with --verify: a part differs, and is named',
      2: WRONG_USAGE,
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
    name: 'tail',
    summary: 'follow the verdicts as they are decided',
    purpose:
      'Prints each verdict that is decided from now on, once and in one sentence, with the remedy of a rejected or skipped event. Reads the database with the role of a reader.',
    example: 'promo-intake tail --operator acme --verdict rejected',
    options: {
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
      const [operator, connection] = [options.get('operator'), options.get('connection')];
      const [verdict, reason] = [options.get('verdict'), options.get('reason')];
      const filters = { operator, connection, verdict, reason, isTest: options.has('test') };
      return tail({ filters, json: options.has('json') }, interruption());
    },
  },
];
