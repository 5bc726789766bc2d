/** The table of the commands that credit rounds to players. */

import { interruption } from '../cli/interruption';
import type { Command } from '../cli/usage';

const WRONG_USAGE = 'a wrong option, setting or FILE; nothing was started';

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
