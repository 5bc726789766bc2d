/** The services that decide events. */
import type { Command } from '../../cli/usage';
import { PUBLISHING_WEBHOOK_SETTINGS, WORKER_SETTINGS } from '../shared/settings';
import { WRONG_USAGE } from '../shared/usage-parts';

export const INTAKE_COMMANDS: readonly Command[] = [
  {
    name: 'worker',
    summary: 'read the topics and decide their events, until SIGTERM',
    purpose:
      'Joins the consumer group, reads the topics of the connections, and decides a verdict for each event.',
    example:
      'KAFKA_BROKERS=localhost:9092 DATABASE_URL=postgres://postgres@localhost/promo promo-intake worker',
    options: {
      drain: { help: 'end once the group has decided all records that the topics held at the start' },
    },
    settings: WORKER_SETTINGS,
    exits: {
      0: 'a signal ended it, and it closed in time; with --drain: everything is decided',
      1: 'it cannot start or continue, it did not close within SHUTDOWN_SECONDS, or a signal ended --drain early',
      2: WRONG_USAGE,
    },
    run: async ({ options }) => (await import('./worker.js')).worker({ drain: options.has('drain') }),
  },
  {
    name: 'webhook',
    summary: 'receive events over HTTP and decide them, until SIGTERM',
    purpose:
      'Serves POST /v1/events/CONNECTION_ID, decides the events of each signed request, and answers with their verdicts.',
    example:
      'WEBHOOK_SECRETS_FILE=secrets.json DATABASE_URL=postgres://postgres@localhost/promo promo-intake webhook',
    options: {},
    settings: PUBLISHING_WEBHOOK_SETTINGS,
    exits: {
      0: 'a signal ended it, and it closed in time',
      1: 'it cannot start, or it did not close within SHUTDOWN_SECONDS',
      2: WRONG_USAGE,
    },
    run: async () => (await import('./webhook.js')).webhook(),
  },
  {
    name: 'try',
    summary: 'serve a throwaway intake for your own tests, until Ctrl-C',
    purpose:
      'Serves the webhook over a Postgres of its own, with a page and lists of the events as they come. It needs no server, and keeps nothing: its data is gone when it ends. It never belongs into production.',
    example: 'promo-intake try --port 8081',
    options: {
      port: { value: 'N', help: 'the port; 0: any free port (default 8081)' },
      address: {
        value: 'IP',
        help: 'the address to listen on, such as 0.0.0.0 in a container (default 127.0.0.1: this machine alone)',
      },
      reference: {
        value: 'FILE',
        file: 'file',
        help: 'operators, connections, brands and rules (default: the operator acme with the connection acme-hook)',
      },
    },
    settings: [],
    exits: {
      0: 'a signal ended it, and its data is removed',
      1: 'it cannot start or go on, or a second signal ended it at once',
      2: 'a wrong option, or reference data with faults; nothing was started',
    },
    run: async ({ options }) => (await import('./try.js')).tryIntake(options),
  },
];
