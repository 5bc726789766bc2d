/** The entry of `wallet-check` in the table of commands. */

import { interruption } from '../cli/interruption';
import type { Command } from '../cli/usage';

export const WALLET_CHECK: readonly Command[] = [
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
        file: true,
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
