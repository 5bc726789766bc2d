/** The commands of promotions, as data: help loads this file, and not the code of the commands. */
import { interruption } from '../cli/interruption';
import type { Command } from '../cli/usage';

const REFERENCE = {
  value: 'FILE',
  file: true,
  help: 'look operators, brands and games up in this reference data',
} as const;

export const PROMOTIONS: readonly Command[] = [
  {
    name: 'promotions check',
    file: 'file or -',
    summary: 'check a file of promotions, without a database',
    purpose: 'Reads definitions of promotions, and prints each fault with its line and remedy.',
    example:
      'promo-intake promotions check schemas/examples/promotions.yaml --reference schemas/examples/reference.yaml',
    options: {
      reference: REFERENCE,
      against: {
        value: 'OLD',
        file: true,
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
    run: async ({ file, options }) => (await import('./promotions-check.js')).checkPromotions(file, options),
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
        file: true,
        help: 'the events, one on each line or one JSON document; decided_at of an event is its time of decision (default: occurred_at)',
      },
      reference: {
        ...REFERENCE,
        needs: 'connection',
        help: 'apply the brand and game rules of this reference data',
      },
      connection: {
        value: 'ID',
        needs: 'reference',
        help: 'the connection of the reference data by which the events come',
      },
      attributions: {
        value: 'FILE',
        file: true,
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
      const { previewPromotions } = await import('./promotions-preview.js');
      return previewPromotions(file, options, interruption());
    },
  },
];
