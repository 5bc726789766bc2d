/** The messages about completions, as JSON Schema. */
import { COMPLETION_CHANGES } from '../promotions/completion';
import { PROMOTION_TYPES } from '../promotions/definition';

export const COMPLETION_SPEC = 'promo.completion.v1';

const INSTANT = '^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}[.][0-9]{6}Z$';

/** schemas/promo.completion.v1.json is generated from here. */
export const COMPLETION_SCHEMA = {
  $schema: 'https://json-schema.org/draft/2020-12/schema',
  $id: 'urn:promo-intake:promo.completion.v1',
  title: 'A completion of a promotion, or a change of one',
  description:
    'Credit once for each completion_id, and take it back when its revoked comes. A message may come again, also behind later ones, with the same completion_id and change. So what is revoked stays revoked, and a completed or confirmed that comes behind it is a repetition.',
  type: 'object',
  required: [
    ...['spec', 'completion_id', 'change', 'operator_id', 'promotion_id', 'version', 'type', 'window'],
    ...['player_ref', 'ordinal', 'attempt', 'rank', 'decided_by', 'at', 'entry_no'],
  ],
  properties: {
    spec: { const: COMPLETION_SPEC },
    completion_id: {
      description:
        'Names the completion: 32 hexadecimal digits. Equal in all its messages, and after a crash, a restore and a new count of the promotion. An erasure of the player replaces it.',
      type: 'string',
      pattern: '^[0-9a-f]{32}$',
    },
    change: {
      description:
        'completed: the player has completed. revoked: the completion holds no longer. A refund took back what it counted, or another player has the rank. confirmed: it has held for as long as confirm_after says. A refund may revoke it even then.',
      enum: COMPLETION_CHANGES,
    },
    operator_id: { description: 'Operator of the promotion.', type: 'string' },
    promotion_id: { description: 'The promotion, unique within the operator.', type: 'string' },
    version: { description: 'Version of its definition, from 1.', type: 'integer', minimum: 1 },
    type: { description: 'Type of the promotion.', enum: PROMOTION_TYPES },
    window: {
      description: 'The window that was completed.',
      type: 'object',
      required: ['key', 'starts_at', 'ends_at'],
      properties: {
        key: {
          description: 'The local day on which the window begins, or once for the only window.',
          type: 'string',
        },
        starts_at: {
          description: 'Its first instant, RFC 3339 in UTC. Null: it has no begin.',
          type: ['string', 'null'],
          pattern: INSTANT,
        },
        ends_at: {
          description: 'The first instant behind it. Null: it has no end.',
          type: ['string', 'null'],
          pattern: INSTANT,
        },
      },
    },
    player_ref: {
      description: 'The player who is credited, or erased:N for an erased one.',
      type: 'string',
    },
    ordinal: {
      description: 'Number of the completion in the window, from 1. The rank, for a leaderboard.',
      type: 'integer',
      minimum: 1,
    },
    attempt: {
      description:
        'How often the player has attained the ordinal, from 1. Each attempt has a completion_id of its own.',
      type: 'integer',
      minimum: 1,
    },
    rank: {
      description: 'Rank in a leaderboard, from 1. Null for all other types.',
      type: ['integer', 'null'],
      minimum: 1,
    },
    decided_by: {
      description:
        'The number of the verdict that decided the change: verdict_id of promo.verdicts. It may be a correction of an attribution, with a number of the same row. Null where the time alone decided.',
      type: ['integer', 'null'],
    },
    at: {
      description: 'When it became so, RFC 3339 in UTC with microseconds.',
      type: 'string',
      pattern: INSTANT,
    },
    entry_no: {
      description:
        'Number of the entry in the ledger of completions. Later entries have higher numbers. A restored store may give an entry another number, so it is no id.',
      type: 'integer',
    },
  },
} as const;
