/** The commands around an operator's wallet: the sandbox, and the check of a test wallet. */
import { interruption } from '../../cli/interruption';
import type { Command } from '../../cli/usage';
import { SANDBOX_SETTINGS } from '../shared/settings';

export const WALLET_COMMANDS: readonly Command[] = [
  {
    name: 'sandbox',
    summary: 'serve operator calls for tests of a client, until SIGTERM',
    purpose:
      'Answers signed operator calls by the rules of the contract, plays rounds against test wallets, and publishes their events. It never belongs into production.',
    example:
      'DATABASE_URL=postgres://postgres@localhost/sandbox promo-intake sandbox --file schemas/examples/sandbox.yaml',
    options: {
      file: {
        value: 'FILE',
        required: true,
        file: 'file',
        help: 'the operators with their keys, games, wallets and intakes (YAML)',
      },
      port: { value: 'N', help: 'the port of the calls; 0: any free port (default 8082)' },
    },
    settings: SANDBOX_SETTINGS,
    exits: {
      0: 'a signal ended it, and it closed in time',
      1: 'it cannot start, or it did not close within SHUTDOWN_SECONDS',
      2: 'a wrong option or setting, or a file with faults; nothing was started',
    },
    run: async ({ options }) => (await import('./sandbox.js')).sandbox(options),
  },
  {
    name: 'wallet-check',
    summary: "check an operator's test wallet against the contract",
    purpose:
      'Plays scenarios of bets, wins, rollbacks and broken connections against a test wallet, and reports each rule that it breaks.',
    example: 'promo-intake wallet-check --profile schemas/examples/wallet.yaml --junit wallet.xml',
    options: {
      profile: {
        value: 'FILE',
        required: true,
        file: 'file',
        help: 'the profile of the wallet (YAML): address, payloads, test players; it must say "environment: test"',
      },
      only: {
        value: 'WORDS',
        help: 'run only scenarios that have each of these words in their id or sentence',
      },
      junit: { value: 'FILE', help: 'write the results as JUnit XML too, for CI' },
      json: { value: 'FILE', help: 'write the results as JSON too, with every problem' },
    },
    settings: [],
    exits: {
      0: 'every scenario that the profile allows passed',
      1: 'a scenario failed, none could run, the wallet is away, or it was interrupted',
      2: 'a wrong option, a profile with faults, or a report that cannot be written; nothing was sent',
    },
    run: async ({ options }) => {
      const { walletCheck } = await import('./wallet-check.js');
      const [profile = '', only] = [options.get('profile'), options.get('only')];
      return walletCheck(
        { profile, only, junit: options.get('junit'), json: options.get('json') },
        interruption(),
      );
    },
  },
];
