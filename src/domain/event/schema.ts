/**
 * The format of an event as JSON Schema 2020-12 (docs/rules.md, F1-F9). schemas/promo.event.v1.json is
 * generated from it.
 *
 * judge.ts has the rules that JSON Schema cannot express: bytes of UTF-8, storable text, the scale of a
 * currency, precedence of reasons. A field that only some kinds read has its constraints under those kinds.
 */
import { ACCOUNT_KINDS, KINDS, MAX_NAME_BYTES, ROUND_KINDS, SPEC } from './event';
import { AMOUNT_PATTERN, CURRENCIES } from './money';

const scales = [...new Set(CURRENCIES.map((currency) => currency.scale))];
const currencyTable = scales
  .map(
    (scale) =>
      `${scale}: ${CURRENCIES.filter((c) => c.scale === scale)
        .map((c) => c.code)
        .join(' ')}`,
  )
  .join('; ');

const moneyFields = { amount: { $ref: '#/$defs/amount' }, currency: { $ref: '#/$defs/currency' } };

export const EVENT_SCHEMA = {
  $schema: 'https://json-schema.org/draft/2020-12/schema',
  $id: 'urn:promo-intake:promo.event.v1',
  title: 'Promotion event',
  description:
    'One action of a player: a step of a game round (bet, win, settled, refund), or of the account (deposit, withdrawal, login). One Kafka record has one event. Other fields are ignored.',
  type: 'object',
  required: ['spec', 'event_id', 'player_ref', 'kind', 'occurred_at'],
  properties: {
    spec: { title: 'Format', description: 'The name of this format.', const: SPEC },
    event_id: {
      title: 'Event id',
      description:
        'The name of the event within the feed, forever. Send the same id again only with the same event. A verdict uses the id up, so a corrected event needs a new id.',
      type: 'string',
      minLength: 1,
      examples: ['0192f0c1-7f3e-7cc0-b9a5-2f1d8a4c9e01'],
    },
    brand: {
      title: 'Brand',
      description: `The brand of the player, up to ${MAX_NAME_BYTES} bytes of UTF-8. Required if the connection carries several brands, forbidden if it carries one.`,
      type: 'string',
      maxLength: MAX_NAME_BYTES,
      examples: ['main'],
    },
    player_ref: {
      title: 'Player',
      description: `The player, by the id that player tokens have as external_player_id; up to ${MAX_NAME_BYTES} bytes of UTF-8.`,
      type: 'string',
      minLength: 1,
      maxLength: MAX_NAME_BYTES,
      examples: ['p-1001'],
    },
    kind: {
      title: 'Kind',
      description:
        'A bet places a stake. A win pays out. A settled event ends its round, exactly once. A refund returns the stake of the round, which removes the whole round. A deposit credits money, and a withdrawal pays it out. A login signs the player in.',
      type: 'string',
      enum: KINDS,
      examples: ['bet'],
    },
    round_id: {
      title: 'Round',
      description:
        'The same for all events of one round. Required for bet, win, settled and refund; ignored for all other kinds.',
      examples: ['r-20261121-7'],
    },
    game: {
      title: 'Game',
      description:
        'The game of the round, by its id in the catalogue. An event without a game counts only in promotions that list no games. Ignored for deposit, withdrawal and login.',
      examples: [{ id: 'g1' }],
    },
    amount: {
      title: 'Amount',
      description:
        'The stake, the payout, the returned amount, or, for settled, the sum of the bets of the round. A decimal string in major units, with at most the decimals of the currency. Required for every kind except login, which ignores it.',
      examples: ['10.50'],
    },
    currency: {
      title: 'Currency',
      description: `A code of the table, in any letter case. Decimals: ${currencyTable}. Required for every kind except login, which ignores it.`,
      examples: ['EUR'],
    },
    occurred_at: {
      title: 'Time',
      description:
        'The time of the action: an RFC 3339 date-time with a zone. Fractions of a second are kept to the microsecond.',
      type: 'string',
      format: 'date-time',
      examples: ['2026-11-21T12:00:00.250Z'],
    },
  },
  not: { title: 'An object with `events` is a batch, which only the webhook accepts.', required: ['events'] },
  allOf: [
    {
      if: { properties: { kind: { enum: ROUND_KINDS } }, required: ['kind'] },
      // biome-ignore lint/suspicious/noThenProperty: `then` is a keyword of JSON Schema
      then: {
        required: ['round_id', 'amount', 'currency'],
        properties: {
          round_id: { $ref: '#/$defs/round_id' },
          game: { $ref: '#/$defs/game' },
          ...moneyFields,
        },
      },
    },
    {
      if: {
        properties: { kind: { enum: ACCOUNT_KINDS.filter((kind) => kind !== 'login') } },
        required: ['kind'],
      },
      // biome-ignore lint/suspicious/noThenProperty: `then` is a keyword of JSON Schema
      then: { required: ['amount', 'currency'], properties: moneyFields },
    },
  ],
  $defs: {
    round_id: { type: 'string', minLength: 1 },
    game: { type: 'object', properties: { id: { type: 'string' } } },
    amount: { type: 'string', pattern: AMOUNT_PATTERN },
    currency: { type: 'string' },
  },
  examples: [
    {
      spec: SPEC,
      event_id: '0192f0c1-7f3e-7cc0-b9a5-2f1d8a4c9e01',
      brand: 'main',
      player_ref: 'p-1001',
      kind: 'bet',
      round_id: 'r-20261121-7',
      game: { id: 'g1' },
      amount: '10.50',
      currency: 'EUR',
      occurred_at: '2026-11-21T12:00:00.250Z',
    },
    {
      spec: SPEC,
      event_id: '0192f0c1-8a10-7d21-8c55-6a3be0f7d402',
      brand: 'main',
      player_ref: 'p-1001',
      kind: 'login',
      occurred_at: '2026-11-21T13:00:00+01:00',
    },
  ],
} as const;
