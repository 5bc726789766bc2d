/** The entry of `try` in the table of commands. */
import type { Command } from '../cli/usage';

export const TRY: readonly Command[] = [
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
        file: true,
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
