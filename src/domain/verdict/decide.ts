/**
 * The decision: a fold over a batch in the order of arrival, carrying state from one event to the next (docs/rules.md, V1, D2).
 *
 * Pure but for `known`, which it takes over and updates: a duplicate, or a refund, of an event earlier in the same batch is seen.
 */
import { contentHashOf } from '../event/content-hash';
import { type Fields, isRoundKind } from '../event/event';
import { storedId } from '../event/id-key';
import type { PlayerTags } from '../event/player-tag';
import { differsFromStored } from '../event/stored-content';
import type { FeedMap } from './feed-map';
import { ACCEPTED, type DeadLetterReason, type Outcome, outcomeOf, REASONS } from './reasons';
import {
  type Anomaly,
  anomaliesNow,
  applyToRound,
  newRound,
  type Round,
  type RoundEvent,
  type RoundVerdict,
} from './round';

/** Where a Kafka record stands. A webhook's delivery has none: it is never read again by itself. */
export interface Coordinates {
  readonly partitionNo: number;
  readonly offset: number;
}

/** A judged delivery, ready to be decided. */
export type Item = KeyedItem | UnstoredItem;

export interface KeyedItem {
  readonly type: 'keyed';
  readonly source: Coordinates | null;
  readonly feedNo: number;
  readonly connectionNo: number;
  readonly eventId: string;
  readonly fields: Fields;
  readonly brandNo: number | null;
  /** See Judged. */
  readonly contentHash: number | null;
  readonly restHash: number;
  /** See Tagged. */
  playerTag: number | null;
  readonly refusal: Outcome | null;
}

/** A delivery that gets no verdict row: an event without key, or a dead letter. */
export interface UnstoredItem {
  readonly type: 'unstored';
  readonly source: Coordinates | null;
  readonly connectionNo: number | null;
  readonly valueHash: bigint;
  /** Null: no usable event_id. */
  readonly deadLetter: DeadLetterReason | null;
}

/** What is decided of one delivery. */
export type Decision =
  /** A fresh verdict. */
  | {
      readonly type: 'decided';
      readonly outcome: Outcome;
      readonly counted: boolean;
      readonly redelivered: boolean;
      /** What the event makes of its round; of one that is read again, what its round has now and it takes part in (A4). */
      readonly anomalies?: readonly Anomaly[];
    }
  /** The event had this verdict before. */
  | {
      readonly type: 'duplicate';
      readonly first: Outcome;
      /** How the delivery came that was decided. */
      readonly firstTransport: 'kafka' | 'webhook';
      readonly contentDiffers: boolean;
      readonly redelivered: boolean;
      /** What the event's round has now and the event takes part in; absent where the content differs (A4). */
      readonly anomalies?: readonly Anomaly[];
    }
  | {
      readonly type: 'unstored';
      readonly deadLetter: DeadLetterReason | null;
      readonly redelivered: boolean;
    };

export interface KnownEvent {
  readonly outcome: Outcome;
  /** As it is stored, or the delivery itself where that is of the same batch. */
  readonly content: bigint | KeyedItem;
  readonly source: Coordinates | null;
}

/** What the store knows of a batch, read and locked for it. */
export interface Known {
  /** Decided events, by event id. */
  readonly events: FeedMap<KnownEvent>;
  /** Recorded duplicates by `deliveryKey`, with whether their content differed. */
  readonly resends: ReadonlyMap<string, boolean>;
  /** Recorded unstored deliveries, by `unstoredKey`. */
  readonly unstored: ReadonlySet<string>;
  /** The rounds, by round id. One that is not here is new, and is added. */
  readonly rounds: FeedMap<Round>;
  /** Rounds of decided events alone, read without a lock: answers name their anomalies. */
  readonly decidedRounds?: FeedMap<Round>;
  /** Makes the tags of players, which stored events and rounds are compared by. */
  readonly tags: PlayerTags;
}

/** Key of a duplicate in `Known.resends`: its event, by its id or as that is stored, and its coordinates together (K3). */
export function deliveryKey(feedNo: number, eventId: string, source: Coordinates): string {
  return `${source.partitionNo}/${source.offset}/${feedNo}/${storedId(eventId)}`;
}

/** Key of a delivery without a verdict row in `Known.unstored`: its coordinates and its content together (K3). */
export function unstoredKey(source: Coordinates, valueHash: bigint): string {
  return `${source.partitionNo}/${source.offset}/${valueHash}`;
}

export interface Decided {
  /** One for each item, in the order of the items. */
  readonly decisions: readonly Decision[];
  /** Those of the rounds whose state changed. */
  readonly changedRounds: ReadonlySet<Round>;
}

/**
 * Decides a batch in the order of its items (V1, D2).
 *
 * @param known taken over: what is decided and opened is added to it, and its rounds are changed
 * @throws Error where the event of an item lacks what judging has to have read of it, a defect of ours (V9)
 */
export function decide(items: readonly Item[], known: Known): Decided {
  const changedRounds = new Set<Round>();
  const decisions = items.map((item) =>
    item.type === 'unstored' ? decideUnstored(item, known) : decideKeyed(item, known, changedRounds),
  );
  return { decisions, changedRounds };
}

function decideUnstored(item: UnstoredItem, known: Known): Decision {
  const redelivered = item.source !== null && known.unstored.has(unstoredKey(item.source, item.valueHash));
  return { type: 'unstored', deadLetter: item.deadLetter, redelivered };
}

function decideKeyed(item: KeyedItem, known: Known, changedRounds: Set<Round>): Decision {
  const first = known.events.get(item.feedNo, item.eventId);
  if (first !== undefined) return answerAgain(item, first, known);
  const verdict = decideFresh(item, known, changedRounds);
  const { outcome } = verdict;
  known.events.set(item.feedNo, item.eventId, {
    outcome,
    content: item,
    source: item.source,
  });
  return freshDecision(verdict);
}

/** There are few different ones, and a batch has thousands: each is made once, but for those with anomalies. */
function freshDecision({ outcome, counted, anomalies }: RoundVerdict): Decision {
  return anomalies === undefined
    ? (counted ? COUNTED : NOT_COUNTED).get(outcome)!
    : { type: 'decided', outcome, counted, redelivered: false, anomalies };
}

const OUTCOMES = [ACCEPTED, ...REASONS.map(({ name }) => outcomeOf(name))];
const COUNTED = decisionsOf(true);
const NOT_COUNTED = decisionsOf(false);

function decisionsOf(counted: boolean): ReadonlyMap<Outcome, Decision> {
  return new Map(
    OUTCOMES.map((outcome) => [outcome, { type: 'decided', outcome, counted, redelivered: false }]),
  );
}

/**
 * An event that is decided already: the same record read again is answered as before, anything else is a duplicate (V1, K3).
 * Coordinates count only together with the event's key, since a topic that is made anew starts at offset 0 again.
 */
function answerAgain(item: KeyedItem, first: KnownEvent, known: Known): Decision {
  if (sameSource(first.source, item.source)) {
    return {
      ...{ type: 'decided', outcome: first.outcome, counted: false, redelivered: true },
      ...anomaliesAgain(item, first, known),
    };
  }
  const recorded =
    item.source === null ? undefined : known.resends.get(deliveryKey(item.feedNo, item.eventId, item.source));
  const contentDiffers = recorded ?? differs(first.content, item, known.tags);
  return {
    type: 'duplicate',
    first: first.outcome,
    firstTransport: first.source === null ? 'webhook' : 'kafka',
    contentDiffers,
    redelivered: recorded !== undefined,
    // Of other content the player, brand and currency are not those that were decided.
    ...(!contentDiffers && anomaliesAgain(item, first, known)),
  };
}

/** A first answer may have been lost: the answers after it name the anomalies as well (A4). */
function anomaliesAgain(
  item: KeyedItem,
  { outcome }: KnownEvent,
  { rounds, decidedRounds, tags }: Known,
): { anomalies?: readonly Anomaly[] } {
  const { roundId } = item.fields;
  if (roundId === null || !isOfRound(item)) return {};
  const round = rounds.get(item.feedNo, roundId) ?? decidedRounds?.get(item.feedNo, roundId);
  const anomalies = round && anomaliesNow(round, item, outcome, tags);
  return anomalies === undefined ? {} : { anomalies };
}

function differs(first: KnownEvent['content'], item: KeyedItem, tags: PlayerTags): boolean {
  if (typeof first === 'bigint') return differsFromStored(first, item, tags);
  return contentHashOf(first) !== contentHashOf(item);
}

function sameSource(a: Coordinates | null, b: Coordinates | null): boolean {
  return a !== null && b !== null && a.partitionNo === b.partitionNo && a.offset === b.offset;
}

function decideFresh(item: KeyedItem, known: Known, changedRounds: Set<Round>): RoundVerdict {
  const { feedNo, refusal } = item;
  const { roundId } = item.fields;
  if (refusal?.verdict === 'rejected') return { outcome: refusal, counted: false };
  if (roundId === null) return refusal === null ? ACCOUNT_COUNTED : { outcome: refusal, counted: false };
  if (!isOfRound(item)) throw new Error('a round event lacks kind, player or brand');
  let round = known.rounds.get(feedNo, roundId);
  if (round === undefined) {
    round = newRound();
    known.rounds.set(feedNo, roundId, round);
  }
  changedRounds.add(round);
  return applyToRound(round, item, known.tags);
}

const ACCOUNT_COUNTED = { outcome: ACCEPTED, counted: true };

/** Where it is not, judging let an event pass without what a round needs: a defect, which becomes a panic of this event. */
function isOfRound(item: KeyedItem): item is KeyedItem & RoundEvent {
  const { kind, roundId, playerRef } = item.fields;
  return (
    kind !== null && isRoundKind(kind) && roundId !== null && playerRef !== null && item.brandNo !== null
  );
}
