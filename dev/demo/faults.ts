/**
 * Bets that get no verdict `accepted`, with the reason of each: faults of the demo's senders, and bets that
 * brands set aside.
 */
import type { Reason } from '../../src/domain/verdict/reasons';
import type { EventJson, RoundOptions } from './play';
import type { SenderName } from './world';

export interface FaultyBet {
  /** The fault, as a part of a sentence. */
  readonly name: string;
  readonly reason: Reason;
  /** The relative frequency, once each fault has occurred. */
  readonly weight: number;
  readonly sender?: SenderName;
  /** Differences of the bet from a good one. */
  readonly patch?: EventJson;
  /** Differences that concern the round as a whole. */
  readonly round?: Omit<RoundOptions, 'sender' | 'player'>;
  /** The stake in minor units of any currency. */
  readonly stake?: bigint;
}

const LONG_BRAND = 'nordlys-'.repeat(32);

export const FAULTY_BETS: readonly FaultyBet[] = [
  { name: 'names a later format', reason: 'malformed', weight: 2, patch: { spec: 'promo.event.v2' } },
  {
    name: 'has a time without a zone',
    reason: 'malformed',
    weight: 4,
    patch: { occurred_at: '2026-11-21T12:00:00' },
  },
  { name: 'has a number for a player', reason: 'malformed', weight: 2, patch: { player_ref: 100_482 } },
  { name: 'has no round', reason: 'malformed', weight: 3, patch: { round_id: undefined } },
  { name: 'has no kind', reason: 'malformed', weight: 1, patch: { kind: undefined } },
  { name: 'names its game without an object', reason: 'malformed', weight: 2, patch: { game: 'rune-forge' } },
  {
    name: 'has too long a brand',
    reason: 'malformed',
    weight: 1,
    sender: 'lobby',
    patch: { brand: LONG_BRAND },
  },
  { name: 'is a batch too', reason: 'malformed', weight: 1, patch: { events: [] } },

  { name: 'is a jackpot', reason: 'op_unknown', weight: 4, patch: { kind: 'jackpot' } },
  { name: 'is written BET', reason: 'op_unknown', weight: 2, patch: { kind: 'BET' } },

  { name: 'names no player', reason: 'no_player', weight: 3, patch: { player_ref: undefined } },
  { name: 'has an empty player', reason: 'no_player', weight: 2, patch: { player_ref: '' } },

  { name: 'has a number for an amount', reason: 'bad_amount', weight: 5, patch: { amount: 2.5 } },
  { name: 'has a comma', reason: 'bad_amount', weight: 3, patch: { amount: '2,50' } },
  { name: 'is negative', reason: 'bad_amount', weight: 2, patch: { amount: '-2.50' } },
  { name: 'has no amount', reason: 'bad_amount', weight: 2, patch: { amount: undefined } },
  {
    name: 'has tenths of a cent',
    reason: 'bad_amount',
    weight: 3,
    patch: { amount: '2.500', currency: 'EUR' },
  },
  { name: 'has sen', reason: 'bad_amount', weight: 2, patch: { amount: '250.00', currency: 'JPY' } },
  {
    name: 'has more ETH than 64 bits',
    reason: 'bad_amount',
    weight: 1,
    patch: { amount: '9.3', currency: 'ETH' },
  },

  { name: 'names no brand', reason: 'no_brand', weight: 4, sender: 'lobby', patch: { brand: undefined } },
  {
    name: 'names a brand needlessly',
    reason: 'brand_unexpected',
    weight: 5,
    sender: 'slots',
    patch: { brand: 'hanabi' },
  },
  {
    name: 'names a new brand',
    reason: 'brand_unmapped',
    weight: 6,
    sender: 'lobby',
    patch: { brand: 'nordlys-se' },
  },
  {
    name: 'names a closed brand',
    reason: 'operator_inactive',
    weight: 6,
    sender: 'live',
    patch: { brand: 'polarpoker' },
  },

  {
    name: 'is in a new currency',
    reason: 'currency_unknown',
    weight: 8,
    sender: 'tables',
    patch: { currency: 'PEPE' },
  },
  { name: 'has no currency', reason: 'currency_unknown', weight: 3, patch: { currency: undefined } },

  { name: 'is a free spin', reason: 'zero_amount', weight: 45, sender: 'lobby', stake: 0n },
  { name: 'is a free spin', reason: 'zero_amount', weight: 20, sender: 'slots', stake: 0n },
  {
    name: 'is on a denied game',
    reason: 'game_denied',
    weight: 25,
    sender: 'lobby',
    round: { game: 'baccarat-bergen' },
    patch: { brand: 'nordlys' },
  },
  {
    name: 'is on a denied game',
    reason: 'game_denied',
    weight: 12,
    sender: 'tables',
    round: { game: 'crash-orbit' },
    patch: { brand: 'tsukimi' },
  },
  {
    name: 'is on a game that is not bingo',
    reason: 'game_not_allowed',
    weight: 25,
    sender: 'bingo',
    round: { game: 'aurora-reels' },
  },
  { name: 'names no game', reason: 'game_not_allowed', weight: 8, sender: 'bingo', round: { game: null } },
  { name: 'is very small', reason: 'below_min_bet', weight: 40, sender: 'slots', stake: 5n },
  { name: 'is very small', reason: 'below_min_bet', weight: 40, sender: 'bingo', stake: 5n },
  {
    name: 'is on a game that is new',
    reason: 'game_unknown',
    weight: 14,
    sender: 'live',
    round: { game: 'roulette-bodo' },
  },
  {
    name: 'is on a withdrawn game',
    reason: 'game_unknown',
    weight: 10,
    sender: 'lobby',
    round: { game: 'viking-dice' },
  },
  { name: 'names no game', reason: 'game_unknown', weight: 5, sender: 'live', round: { game: null } },
];
