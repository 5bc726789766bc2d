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
    'One thing a player did: a step of a game round (bet, win, settled, refund) or of the account (deposit, withdrawal, login). One Kafka record carries one event. Fields that are not listed are ignored.',
  type: 'object',
  required: ['spec', 'event_id', 'player_ref', 'kind', 'occurred_at'],
  properties: {
    spec: { title: 'Format', description: 'Names this format.', const: SPEC },
    event_id: {
      title: 'Event id',
      description:
        'Names the event forever within the feed. Send the same id again only to send the same event again; a verdict uses the id up, so a corrected event needs a new one.',
      type: 'string',
      minLength: 1,
      examples: ['0192f0c1-7f3e-7cc0-b9a5-2f1d8a4c9e01'],
    },
    brand: {
      title: 'Brand',
      description: `The brand the player belongs to, up to ${MAX_NAME_BYTES} bytes of UTF-8. Required where the connection carries several brands, forbidden where it carries one.`,
      type: 'string',
      maxLength: MAX_NAME_BYTES,
      examples: ['main'],
    },
    player_ref: {
      title: 'Player',
      description: `The player, by the id that the player tokens carry as external_player_id; up to ${MAX_NAME_BYTES} bytes of UTF-8.`,
      type: 'string',
      minLength: 1,
      maxLength: MAX_NAME_BYTES,
      examples: ['p-1001'],
    },
    kind: {
      title: 'Kind',
      description:
        'bet: a stake is placed. win: a payout is made. settled: the round is over, exactly once a round. refund: the stake of the round is returned, which removes the whole round. deposit, withdrawal: money is credited or paid out. login: the player signs in.',
      type: 'string',
      enum: KINDS,
      examples: ['bet'],
    },
    round_id: {
      title: 'Round',
      description:
        'The same for all events of one round. Required for bet, win, settled and refund; not read for the other kinds.',
      examples: ['r-20261121-7'],
    },
    game: {
      title: 'Game',
      description:
        'The game of the round, by its id in the catalogue. An event without a game counts only in promotions that list no games. Not read for deposit, withdrawal and login.',
      examples: [{ id: 'g1' }],
    },
    amount: {
      title: 'Amount',
      description:
        'The stake, payout, returned amount, or for settled the sum of the bets of the round; a decimal string in major units with no more decimals than the currency has. Required for every kind but login, which does not read it.',
      examples: ['10.50'],
    },
    currency: {
      title: 'Currency',
      description: `A code of the table, in any letter case. Decimals: ${currencyTable}. Required for every kind but login, which does not read it.`,
      examples: ['EUR'],
    },
    occurred_at: {
      title: 'Time',
      description:
        'When it happened: an RFC 3339 date-time with a zone; fractions of a second are kept to the microsecond.',
      type: 'string',
      format: 'date-time',
      examples: ['2026-11-21T12:00:00.250Z'],
    },
  },
  not: { title: 'An object with `events` is a batch, which only the webhook takes.', required: ['events'] },
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
