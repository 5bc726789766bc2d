/** The commands of promotions: definitions, players that rounds are credited to, and completions. */
import { interruption } from '../../cli/interruption';
import type { Command } from '../../cli/usage';
import { COMPLETIONS_SETTINGS, FOLD_SETTINGS } from '../shared/settings';
import { REQUESTED_BY, RULES_OF_CONNECTION, WRONG_USAGE, WRONG_USAGE_OR_FILE } from '../shared/usage-parts';

const RECOMPUTE = {
  help: 'changed promotions count by their new definition from its own from on: windows that have begun or are over are computed again',
} as const;
const CHANGING = {
  'allow-removal': { help: 'allow promotions to be removed' },
  expect: { value: 'N', help: 'the document that has to be in force; with another one, nothing is applied' },
  by: { value: 'NAME', help: 'who applies it, for the history (default USER@HOST of this process)' },
} as const;
const ATTRIBUTED = {
  operator: { value: 'ID', required: true, help: 'the operator of the rounds and of the credited players' },
} as const;
export const PROMOTION_COMMANDS: readonly Command[] = [
  {
    name: 'promotions check',
    file: 'file or -',
    summary: 'check a file of promotions, without a database',
    purpose: 'Reads definitions of promotions, and prints each fault with its line and remedy.',
    example:
      'promo-intake promotions check schemas/examples/promotions.yaml --reference schemas/examples/reference.yaml',
    options: {
      reference: {
        value: 'FILE',
        file: 'file',
        help: 'look operators, brands and games up in this reference data',
      },
      against: {
        value: 'OLD',
        file: 'file',
        help: 'print the changes since this file, and the windows that they concern',
      },
      at: { value: 'TIME', needs: 'against', help: 'the time of the change (default: now)' },
    },
    settings: [],
    exits: {
      0: 'the file has no faults; warnings may be printed',
      1: 'the file has faults',
      2: 'a wrong option or FILE, or reference data or OLD with faults',
    },
    run: async ({ file, options }) => (await import('./check.js')).checkPromotions(file, options),
  },
  {
    name: 'promotions preview',
    file: 'file or -',
    summary: 'compute promotions of a file of events, without a database',
    purpose:
      'Judges the events as the workers do, counts them in the promotions of FILE, and prints progress, completions, leaderboards, and why events did not count.',
    example:
      'promo-intake promotions preview schemas/examples/promotions.yaml --events schemas/examples/promotion-events.ndjson',
    options: {
      events: {
        value: 'FILE',
        required: true,
        file: 'file or -',
        help: 'the events, one on each line or one JSON document, or - for standard input; decided_at of an event is its time of decision (default: occurred_at)',
      },
      ...RULES_OF_CONNECTION,
      attributions: {
        value: 'FILE',
        file: 'file',
        help: 'the rounds of bonus sessions that count for another player, as for attribute file',
      },
      operator: {
        value: 'ID',
        help: 'the operator of the events (default: that of the connection, or of all promotions)',
      },
      'as-of': {
        value: 'TIME',
        help: 'the time at which leaderboards close and completions are confirmed (default: that of the last event)',
      },
      json: { help: 'print one object per line: progress, completion, rank, miss, and a summary at the end' },
    },
    settings: [],
    exits: {
      0: 'computed and printed',
      1: 'it was interrupted, or the file has more than 500,000 events',
      2: 'a wrong option or FILE, or a file with faults; nothing was computed',
    },
    run: async ({ file, options }) => {
      const { previewPromotions } = await import('./preview.js');
      return previewPromotions(file, options, interruption());
    },
  },
  {
    name: 'promotions apply',
    file: 'file or -',
    summary: 'put promotions into force',
    purpose:
      'Applies a file of promotions (YAML or JSON) as a whole, and prints the changes and the windows that they concern.',
    example: 'promo-intake promotions apply schemas/examples/promotions.yaml --reason "December"',
    options: {
      'dry-run': { help: 'only print the changes' },
      recompute: RECOMPUTE,
      ...CHANGING,
      reason: { value: 'TEXT', help: 'why, for the history' },
    },
    settings: ['DATABASE'],
    exits: {
      0: 'in force, or there are no changes',
      1: 'the file has faults, removes something, or another document is in force; nothing was applied',
      2: WRONG_USAGE_OR_FILE,
    },
    run: async ({ file, options }) =>
      (await import('./apply.js')).applyPromotionsFile(file, options, options.has('dry-run')),
  },
  {
    name: 'promotions diff',
    file: 'file or -',
    summary: 'print what promotions apply would change',
    purpose: 'Compares a file of promotions with those in force, as promotions apply --dry-run does.',
    example: 'promo-intake promotions diff schemas/examples/promotions.yaml',
    options: { recompute: RECOMPUTE },
    settings: ['DATABASE'],
    exits: { 0: 'printed', 1: 'the file has faults, or removes something', 2: WRONG_USAGE_OR_FILE },
    run: async ({ file, options }) => (await import('./apply.js')).applyPromotionsFile(file, options, true),
  },
  {
    name: 'promotions verify',
    summary: 'count the ledger again, and compare it with progress and completions',
    purpose:
      'Counts the events of the ledger again in memory, and prints each difference from the stored progress and completions. It changes nothing.',
    example: 'promo-intake promotions verify --sample 100',
    options: {
      sample: {
        value: 'N',
        help: 'count one of N players: needs less memory, and compares no ranks (default 1: all players)',
      },
    },
    settings: ['DATABASE'],
    exits: {
      0: 'sound, or nothing can be compared now',
      1: 'a difference was found, or the check could not run',
      2: WRONG_USAGE,
    },
    run: async ({ options }) => (await import('./verify.js')).verifyPromotions(options),
  },
  {
    name: 'promotions list',
    summary: 'list the promotions in force, with their versions and windows',
    purpose: 'Lists each promotion with its version, its state, and its window at this time.',
    example: 'promo-intake promotions list --json',
    options: { json: { help: 'print one JSON document, for scripts' } },
    settings: ['DATABASE'],
    exits: { 0: 'listed, or there are none', 1: 'the database cannot be read', 2: WRONG_USAGE },
    run: async ({ options }) => (await import('./list.js')).listPromotions(options),
  },
  {
    name: 'promotions history',
    summary: 'list the documents of promotions that were applied',
    purpose:
      'Lists all documents, newest first, each with its time, its number of promotions, and who applied it.',
    example: 'promo-intake promotions history',
    options: {},
    settings: ['DATABASE'],
    exits: { 0: 'listed', 1: 'the database cannot be read', 2: WRONG_USAGE },
    run: async () => (await import('./list.js')).promotionsHistory(),
  },
  {
    name: 'promotions export',
    summary: 'print the promotions in force, or an earlier document',
    purpose: 'Prints a document as JSON, in the form that promotions apply reads.',
    example: 'promo-intake promotions export --version 3',
    options: { version: { value: 'N', help: 'the document to print (default: the one in force)' } },
    settings: ['DATABASE'],
    exits: { 0: 'printed', 1: 'there is no such document', 2: WRONG_USAGE },
    run: async ({ options }) => (await import('./list.js')).exportPromotions(options),
  },
  {
    name: 'promotions rollback',
    summary: 'put an earlier document of promotions into force',
    purpose:
      'Applies an earlier document as a new one, and prints the changes and the windows that they concern.',
    example: 'promo-intake promotions rollback --to 3 --dry-run',
    options: {
      to: { value: 'N', required: true, help: 'the document to apply' },
      'dry-run': { help: 'only print the changes' },
      recompute: RECOMPUTE,
      ...CHANGING,
      reason: { value: 'TEXT', help: 'why, for the history (default: rollback to document N)' },
    },
    settings: ['DATABASE'],
    exits: {
      0: 'in force, or there are no changes',
      1: 'there is no such document, it has faults today or removes something, or another one is in force',
      2: WRONG_USAGE,
    },
    run: async ({ options }) => (await import('./apply.js')).rollbackPromotions(options),
  },
  {
    name: 'promotions',
    summary: 'count promotions, until SIGTERM',
    purpose:
      'Adds new verdicts to the progress of players twice a second, and enters completions. Of several processes one works, and the others wait for its end.',
    example: 'DATABASE_URL=postgres://promo_promotions@localhost/promo promo-intake promotions',
    options: {
      rebuild: {
        value: 'REASON',
        help: 'count all kept history again beside the progress that is shown, and then show the result',
      },
    },
    settings: FOLD_SETTINGS,
    exits: {
      0: 'a signal ended it, and it closed in time',
      1: 'it cannot start, or it did not close within SHUTDOWN_SECONDS',
      2: WRONG_USAGE,
    },
    run: async ({ options }) => (await import('./count.js')).promotions(options),
  },
  {
    name: 'completions',
    summary: 'publish the completions of promotions, until SIGTERM',
    purpose:
      'Publishes each entry of the ledger of completions on COMPLETION_TOPIC. Of several processes one works, and the others wait for its end.',
    example:
      'DATABASE_URL=postgres://promo_completions@localhost/promo COMPLETION_TOPIC=promo.completion.v1 promo-intake completions',
    options: {},
    settings: COMPLETIONS_SETTINGS,
    exits: {
      0: 'a signal ended it, and it closed in time',
      1: 'it cannot start, or it did not close within SHUTDOWN_SECONDS',
      2: WRONG_USAGE,
    },
    run: async () => (await import('./completions.js')).completions(),
  },
  {
    name: 'attribute round',
    summary: 'credit one round to another player of the operator',
    purpose:
      'Sets the player to whom promotions credit a round (promo_player_ref of its launch). Verdicts and the player_ref of events stay.',
    example: 'cat player.txt | promo-intake attribute round --operator acme --round r-2',
    options: {
      ...ATTRIBUTED,
      round: { value: 'ID', required: true, help: 'the round_id of its events, which may come later' },
      player: {
        value: 'PLAYER_REF',
        help: 'the credited player; without it, the name is read from standard input and no shell history keeps it',
      },
      feed: { value: 'ID', help: "the feed of the round, as feed_id in promo (default the operator's own)" },
      brand: { value: 'ID', help: 'credit only events of this brand (default: of any brand)' },
    },
    settings: ['DATABASE'],
    exits: {
      0: 'set, or it was set before, or a player of the round is erased',
      1: 'it is an InvalidArgument, or the round is attributed to another player; nothing was changed',
      2: WRONG_USAGE,
    },
    run: async ({ options }) => (await import('./attribute.js')).attributeRound(options),
  },
  {
    name: 'attribute correct',
    summary: 'correct the player of a round that was attributed by mistake',
    purpose:
      'Replaces the player to whom promotions credit a round. The log of operations keeps the requester, the round and the words, and no player.',
    example:
      'cat players.txt | promo-intake attribute correct --operator acme --round r-2 --words wrong-session',
    options: {
      ...ATTRIBUTED,
      round: { value: 'ID', required: true, help: 'the round_id of its events' },
      words: {
        value: 'TEXT',
        required: true,
        help: 'the reason, for promo.operations, without data of players',
      },
      was: {
        value: 'PLAYER_REF',
        help: 'the credited player to replace; without it, both names are two lines of standard input: this one, then the right one',
      },
      player: { value: 'PLAYER_REF', help: 'the right player, together with --was' },
      feed: { value: 'ID', help: "the feed of the round, as feed_id in promo (default the operator's own)" },
      by: REQUESTED_BY,
    },
    settings: ['DATABASE'],
    exits: {
      0: 'corrected, or the round has the player already, or a player of the round is erased',
      1: 'the round has no attribution or another player, or it is an InvalidArgument; nothing was changed',
      2: WRONG_USAGE,
    },
    run: async ({ options }) => (await import('./attribute.js')).attributeCorrect(options),
  },
  {
    name: 'attribute file',
    file: 'file or -',
    summary: 'credit the rounds of a file to other players of the operator',
    purpose:
      'Sets the player of each line: {"round_id":"r-2","promo_player_ref":"p-7"}, with feed_id and brand where needed. It may run again.',
    example: 'promo-intake attribute file attributions.ndjson --operator acme',
    options: ATTRIBUTED,
    settings: ['DATABASE'],
    exits: {
      0: 'each line was set, or was set before, or has a round of an erased player',
      1: 'some lines are InvalidArguments or have another player than the round; the others are set',
      2: WRONG_USAGE_OR_FILE,
    },
    run: async ({ file, options }) => {
      const { attributeFile } = await import('./attribute.js');
      return attributeFile({ file, operator: options.get('operator') ?? '' }, interruption());
    },
  },
];
