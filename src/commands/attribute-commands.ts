/** The table of the commands that credit rounds to players. */

import { interruption } from '../cli/interruption';
import type { Command } from '../cli/usage';

const WRONG_USAGE = 'a wrong option, setting or FILE; nothing was started';

const BY = {
  value: 'NAME',
  help: 'the requester, for promo.operations (default USER@HOST of this process)',
} as const;
const ATTRIBUTED = {
  operator: { value: 'ID', required: true, help: 'the operator of the rounds and of the credited players' },
} as const;

export const ATTRIBUTE: readonly Command[] = [
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
      by: BY,
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
      2: WRONG_USAGE,
    },
    run: async ({ file, options }) => {
      const { attributeFile } = await import('./attribute.js');
      return attributeFile({ file, operator: options.get('operator') ?? '' }, interruption());
    },
  },
];
