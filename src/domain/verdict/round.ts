/**
 * One round: its counted sums, whether it is refunded, and the effect of each further event (docs/rules.md,
 * R1-R9).
 */

import type { ROUND_KINDS } from '../event/event';
import { ContentHash } from '../event/id-key';
import type { Currency } from '../event/money';
import { monthOfTag, type PlayerTags } from '../event/player-tag';
import { ACCEPTED, type Outcome, outcomeOf } from './reasons';

/** Sums of a round in one currency, in minor units. They may exceed 64 bits. */
export interface Sums {
  bet: bigint;
  win: bigint;
  settled: bigint;
  /**
   * Bets that were skipped as `below_min_bet`. They count nothing, but the settled amount has to include
   * them.
   */
  belowMinBet: bigint;
}

/** The state of a round. Deciding changes it, and the store writes a changed round back. */
export interface Round {
  /** The round's number in the store; null until the store gives it one. */
  no: number | null;
  /** Whether the round was refunded. Nothing of a refunded round counts. */
  refunded: boolean;
  /**
   * The refund's event_id, if the refund is in this batch. For an earlier refund only `refunded` is kept,
   * since an id may have any length.
   */
  refundedBy: string | null;
  /** Whether a settled was accepted. Only the first one counts. */
  settled: boolean;
  sums: Map<Currency, Sums>;
  /**
   * Tag of the player of the round's first event (A3). Null in a month without tags, and after the player is
   * erased.
   */
  playerTag: number | null;
  /** The player that `playerTag` belongs to, if an event of this batch named that player. Not stored. */
  taggedPlayer: string | null;
  /** The first player as a hash without a key, stored by versions that knew no tags. */
  playerHash: number | null;
  brandNo: number | null;
  secondSettled: boolean;
  playerMismatch: boolean;
  brandMismatch: boolean;
}

export function newRound(): Round {
  return {
    no: null,
    refunded: false,
    refundedBy: null,
    settled: false,
    sums: new Map(),
    playerTag: null,
    taggedPlayer: null,
    playerHash: null,
    brandNo: null,
    secondSettled: false,
    playerMismatch: false,
    brandMismatch: false,
  };
}

/** The fields of an event that a round needs. The event was not rejected. */
export interface RoundEvent {
  readonly eventId: string;
  readonly fields: {
    readonly kind: (typeof ROUND_KINDS)[number];
    readonly roundId: string;
    readonly playerRef: string;
    readonly amountMinor: bigint | null;
    readonly currency: Currency | null;
  };
  /** See Tagged. */
  playerTag: number | null;
  readonly brandNo: number;
  /** The verdict that needed no state, always a skip. Null for a candidate. */
  readonly refusal: Outcome | null;
}

/** How a round can contradict itself (A1-A3), in the order in which an answer lists them. */
export const ANOMALIES = [
  'second_settled',
  'settled_mismatch',
  'player_mismatch',
  'brand_mismatch',
  'currency_mismatch',
] as const;
export type Anomaly = (typeof ANOMALIES)[number];

export interface RoundVerdict {
  readonly outcome: Outcome;
  /** Whether the event is an entry of the ledger. */
  readonly counted: boolean;
  /**
   * The anomalies that the event makes in its round (A4). Absent where there are none, as for nearly all
   * events.
   */
  readonly anomalies?: readonly Anomaly[];
}

const ROUND_REFUNDED: RoundVerdict = { outcome: outcomeOf('round_refunded'), counted: false };
const COUNTED: RoundVerdict = { outcome: ACCEPTED, counted: true };
const NOT_COUNTED: RoundVerdict = { outcome: ACCEPTED, counted: false };
const SECOND_SETTLED: RoundVerdict = { outcome: ACCEPTED, counted: false };

/** Decides an event of a round, applies it to the round, and names the anomalies that the event makes. */
export function applyToRound(round: Round, event: RoundEvent, tags: PlayerTags): RoundVerdict {
  const wasMismatched = isMismatched(round);
  const isOtherPlayer = noteMismatch(round, event, tags);
  const verdict = applyEvent(round, event);
  const anomalies = anomaliesOf(
    round,
    event,
    verdict === SECOND_SETTLED,
    !wasMismatched && isMismatched(round),
    isOtherPlayer,
  );
  return anomalies === undefined ? verdict : { ...verdict, anomalies };
}

/**
 * The anomalies that a round has now and an already decided event takes part in. The store does not keep
 * which event made them.
 *
 * @param outcome the event's own outcome
 */
export function anomaliesNow(
  round: Round,
  event: RoundEvent,
  outcome: Outcome,
  tags: PlayerTags,
): readonly Anomaly[] | undefined {
  if (outcome.verdict === 'rejected') return undefined;
  const { kind } = event.fields;
  const isSummed = outcome.verdict === 'accepted' || outcome.reason === 'below_min_bet';
  const isSettled = kind === 'settled' && outcome.verdict === 'accepted';
  const isMismatch = isSummed && (kind === 'bet' || kind === 'settled') && isMismatched(round);
  return anomaliesOf(
    round,
    event,
    isSettled && round.secondSettled,
    isMismatch,
    isFirstPlayer(round, event, tags) === false,
  );
}

function anomaliesOf(
  round: Round,
  { brandNo, fields: { currency } }: RoundEvent,
  isSecondSettled: boolean,
  isSettledMismatch: boolean,
  isOtherPlayer: boolean,
): readonly Anomaly[] | undefined {
  const isOtherBrand = brandNo !== round.brandNo;
  const isOtherCurrency = currency !== null && round.sums.size > 1 && currency !== firstCurrency(round);
  // Nearly every event ends here, without an object of its own.
  if (!(isSecondSettled || isSettledMismatch || isOtherPlayer || isOtherBrand || isOtherCurrency))
    return undefined;
  const isPresent: Readonly<Record<Anomaly, boolean>> = {
    second_settled: isSecondSettled,
    settled_mismatch: isSettledMismatch,
    player_mismatch: isOtherPlayer,
    brand_mismatch: isOtherBrand,
    currency_mismatch: isOtherCurrency,
  };
  return ANOMALIES.filter((anomaly) => isPresent[anomaly]);
}

/**
 * Whether the settled amount differs from the sum of the bets, in a round that is not refunded (A2). The view
 * promo.anomalies uses the same condition.
 */
function isMismatched({ settled, refunded, sums }: Round): boolean {
  if (!settled || refunded) return false;
  for (const each of sums.values()) if (each.settled !== each.bet + each.belowMinBet) return true;
  return false;
}

/** The currency of the round's first event that had one. The store has columns of their own for its sums. */
export function firstCurrency({ sums }: Round): Currency | undefined {
  return sums.keys().next().value;
}

/** The sums that a refund reverses in one currency, in minor units: those that counted until then. */
export interface Reversed {
  readonly currency: Currency;
  readonly bet: bigint;
  readonly win: bigint;
  readonly settled: bigint;
}

/** The sums of a refunded round that no longer count. */
export function reversedIn({ sums }: Round): readonly Reversed[] {
  return [...sums]
    .filter(([, { bet, win, settled }]) => bet !== 0n || win !== 0n || settled !== 0n)
    .map(([currency, { bet, win, settled }]) => ({ currency, bet, win, settled }));
}

function applyEvent(round: Round, event: RoundEvent): RoundVerdict {
  if (event.refusal !== null) {
    if (event.refusal.reason === 'below_min_bet') addTo(round, event, 'belowMinBet');
    return { outcome: event.refusal, counted: false };
  }
  switch (event.fields.kind) {
    case 'refund':
      if (!round.refunded) round.refundedBy = event.eventId;
      round.refunded = true;
      return NOT_COUNTED;
    case 'win':
      if (round.refunded) return NOT_COUNTED;
      addTo(round, event, 'win');
      return COUNTED;
    case 'bet':
      if (round.refunded) return ROUND_REFUNDED;
      addTo(round, event, 'bet');
      return COUNTED;
    case 'settled':
      if (round.refunded) return ROUND_REFUNDED;
      if (round.settled) {
        round.secondSettled = true;
        return SECOND_SETTLED;
      }
      round.settled = true;
      addTo(round, event, 'settled');
      return COUNTED;
  }
}

function addTo(round: Round, { fields: { currency, amountMinor } }: RoundEvent, sum: keyof Sums): void {
  if (currency === null || amountMinor === null) return;
  sumsOf(round, currency)[sum] += amountMinor;
}

function sumsOf(round: Round, currency: Currency): Sums {
  let sums = round.sums.get(currency);
  if (sums === undefined) {
    sums = { bet: 0n, win: 0n, settled: 0n, belowMinBet: 0n };
    round.sums.set(currency, sums);
  }
  return sums;
}

/**
 * Compares each event with the round's first event. Two events disagree in either order, so the order of
 * arrival does not matter. A second currency appears as a second entry of the sums.
 *
 * @returns whether the event names another player
 */
function noteMismatch(round: Round, event: RoundEvent, tags: PlayerTags): boolean {
  const { roundId, playerRef, currency } = event.fields;
  const isFirst = isFirstPlayer(round, event, tags);
  if (isFirst === false) round.playerMismatch = true;
  if (isFirst === null) {
    // This is the round's first event, or the first player is unknown: erased, or dropped with the month.
    round.playerTag = tags.of(event);
    round.taggedPlayer = playerRef;
    if (round.playerTag === null) round.playerHash = playerHashOf(roundId, playerRef);
  }
  round.brandNo ??= event.brandNo;
  if (round.brandNo !== event.brandNo) round.brandMismatch = true;
  if (currency !== null) sumsOf(round, currency);
  return isFirst === false;
}

/**
 * Whether the event names the round's first player. Null where the round knows neither tag nor hash of that
 * player.
 *
 * The tag decides. Where a version without tags opened or continued the round, the hash decides, or both do.
 */
function isFirstPlayer(round: Round, event: RoundEvent, tags: PlayerTags): boolean | null {
  const { playerTag, playerHash } = round;
  const { roundId, playerRef } = event.fields;
  // Events of one round and one player share a tag. Making the tag for each event costs a worker 3 % of its
  // CPU time.
  if (playerTag !== null && playerHash === null && round.taggedPlayer === playerRef) {
    if (monthOfTag(playerTag) === tags.month) event.playerTag = playerTag;
    return true;
  }
  const made = playerTag === null ? null : tags.ofMonth(monthOfTag(playerTag), event);
  const hasTag = made === null ? null : made === playerTag;
  const hasHash = playerHash === null ? null : playerHash === playerHashOf(roundId, playerRef);
  if (hasTag === false || hasHash === false) return false;
  if (hasTag === true) round.taggedPlayer = playerRef;
  return hasTag ?? hasHash;
}

const hash = new ContentHash();

function playerHashOf(roundId: string, playerRef: string): number {
  return hash.begin().text(roundId).text(playerRef).value();
}
