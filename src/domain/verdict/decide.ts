/**
 * The decision: goes through a batch in the order of arrival, and carries state from one event to the next
 * (docs/rules.md, V1, D2).
 *
 * Pure, except that it updates `known`. So it sees a duplicate or a refund of an event earlier in the same
 * batch.
 */
import { contentHashOf, differsFromStored } from '../event/content-hash';
import { type Fault, type Fields, isRoundKind } from '../event/event';
import { storedId } from '../event/id-key';
import type { PlayerTags } from '../event/player-tag';
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

/**
 * The position of a Kafka record. A webhook's delivery has none, since no transport reads it a second time.
 */
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
  /** Every fault, the deciding one first; absent where the faults are not stored. */
  readonly faults?: readonly Fault[];
  /** The delivery, for the time at which it was sent. */
  readonly sent?: SentTime;
}

/** The envelope of a delivery keeps its time. A number in each item would be an allocation. */
export interface SentTime {
  /** Timestamp of the Kafka record, in milliseconds since 1970. */
  readonly sentAtMs?: number | undefined;
}

/** A delivery that gets no verdict row: an event without a key, or a dead letter. */
export interface UnstoredItem {
  readonly type: 'unstored';
  readonly source: Coordinates | null;
  readonly connectionNo: number | null;
  readonly valueHash: bigint;
  /** Null where the event has no usable event_id. */
  readonly deadLetter: DeadLetterReason | null;
}

/** The decision about one delivery. */
export type Decision =
  /** The event's first verdict, or the same record read again. */
  | {
      readonly type: 'decided';
      readonly outcome: Outcome;
      readonly counted: boolean;
      readonly redelivered: boolean;
      /**
       * The anomalies that the event makes in its round (A4). For a record that is read again: the anomalies
       * that the round has now and the event takes part in.
       */
      readonly anomalies?: readonly Anomaly[];
    }
  /** The event already had the verdict `first`. */
  | {
      readonly type: 'duplicate';
      readonly first: Outcome;
      /** The transport of the delivery that got the verdict. */
      readonly firstTransport: 'kafka' | 'webhook';
      readonly contentDiffers: boolean;
      readonly redelivered: boolean;
      /**
       * The anomalies that the round has now and the event takes part in (A4). Absent where the content
       * differs.
       */
      readonly anomalies?: readonly Anomaly[];
    }
  | {
      readonly type: 'unstored';
      readonly deadLetter: DeadLetterReason | null;
      readonly redelivered: boolean;
    };

export interface KnownEvent {
  readonly outcome: Outcome;
  /** The stored content hash, or the delivery itself where it belongs to the same batch. */
  readonly content: bigint | KeyedItem;
  readonly source: Coordinates | null;
  /** Absent where the event belongs to the same batch. */
  readonly verdictId?: number;
}

/** The stored state that concerns a batch, read and locked for it. */
export interface Known {
  /** Decided events, by event id. */
  readonly events: FeedMap<KnownEvent>;
  /** Recorded duplicates by `deliveryKey`. The value says whether their content differed. */
  readonly resends: ReadonlyMap<string, boolean>;
  /** Recorded unstored deliveries, by `unstoredKey`. */
  readonly unstored: ReadonlySet<string>;
  /** When each of both was answered, by the same keys, in microseconds since 1970. */
  readonly answeredAt?: ReadonlyMap<string, bigint>;
  /** The rounds, by round id. A round that is missing here is new; deciding adds it. */
  readonly rounds: FeedMap<Round>;
  /**
   * Rounds that appear in this batch only with decided events, read without a lock. They supply the anomalies
   * of repeated answers.
   */
  readonly decidedRounds?: FeedMap<Round>;
  /** Makes the players' tags, which events and rounds are compared by. */
  readonly tags: PlayerTags;
}

/**
 * Key of a duplicate in `Known.resends`: event key and coordinates together (K3). `eventId` may be the whole
 * id or its stored form.
 */
export function deliveryKey(feedNo: number, eventId: string, source: Coordinates): string {
  return `${source.partitionNo}/${source.offset}/${feedNo}/${storedId(eventId)}`;
}

/** Key of a delivery without a verdict row in `Known.unstored`: coordinates and content together (K3). */
export function unstoredKey(source: Coordinates, valueHash: bigint): string {
  return `${source.partitionNo}/${source.offset}/${valueHash}`;
}

export interface BatchDecision {
  /** One decision for each item, in the order of the items. */
  readonly decisions: readonly Decision[];
  /** The rounds whose state changed. */
  readonly changedRounds: ReadonlySet<Round>;
}

/**
 * Decides a batch in the order of its items (V1, D2).
 *
 * @param known changed in place: decided events and new rounds are added, and rounds are updated
 * @throws Error where judging accepted a round event without a field that a round needs, a defect of ours
 * (V9)
 */
export function decide(items: readonly Item[], known: Known): BatchDecision {
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

/**
 * Reuses one object for each outcome, since a batch has thousands of decisions and few of them differ. Only a
 * decision with anomalies is a new object.
 */
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
 * Answers an event that already has a verdict. The same record read again gets that verdict again; any other
 * delivery is a duplicate (V1, K3).
 *
 * Coordinates count only together with the event's key, since a topic that is deleted and created again
 * starts at offset 0.
 */
function answerAgain(item: KeyedItem, first: KnownEvent, known: Known): Decision {
  if (sameSource(first.source, item.source)) {
    return {
      type: 'decided',
      outcome: first.outcome,
      counted: false,
      redelivered: true,
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
    // Where the content differs, its player, brand and currency are not the decided ones.
    ...(!contentDiffers && anomaliesAgain(item, first, known)),
  };
}

/** The first answer may have been lost, so the later answers name the anomalies too (A4). */
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

/**
 * Whether the event has every field that a round needs. If judging let one without them pass, that is a
 * defect, and the event becomes a panic.
 */
function isOfRound(item: KeyedItem): item is KeyedItem & RoundEvent {
  const { kind, roundId, playerRef } = item.fields;
  return (
    kind !== null && isRoundKind(kind) && roundId !== null && playerRef !== null && item.brandNo !== null
  );
}

/** Ids of one feed. */
export interface FeedIds {
  readonly feedNo: number;
  readonly ids: readonly string[];
}

/**
 * Compares ids in the order that all writers share: by the feed's number, then by UTF-16. Never returns 0,
 * since no id is listed twice.
 */
export function compareIds(feedNo: number, id: string, otherFeedNo: number, otherId: string): number {
  if (feedNo !== otherFeedNo) return feedNo - otherFeedNo;
  return id < otherId ? -1 : 1;
}

/** Values by feed and id, the key of an event or a round (docs/rules.md, K1). */
export class FeedMap<V> {
  private readonly feeds = new Map<number, Map<string, V>>();
  /** The feed of the last call. The next call nearly always names the same feed. */
  private lastNo = Number.NaN;
  private last: Map<string, V> | undefined;

  get(feedNo: number, id: string): V | undefined {
    return this.feed(feedNo)?.get(id);
  }

  has(feedNo: number, id: string): boolean {
    return this.feed(feedNo)?.has(id) === true;
  }

  set(feedNo: number, id: string, value: V): void {
    let feed = this.feed(feedNo);
    if (feed === undefined) {
      feed = new Map();
      this.feeds.set(feedNo, feed);
      this.last = feed;
    }
    feed.set(id, value);
  }

  private feed(feedNo: number): Map<string, V> | undefined {
    if (feedNo !== this.lastNo) {
      this.lastNo = feedNo;
      this.last = this.feeds.get(feedNo);
    }
    return this.last;
  }

  isEmpty(): boolean {
    return this.feeds.size === 0;
  }

  values(): V[] {
    return [...this.feeds.values()].flatMap((feed) => [...feed.values()]);
  }

  forEach(visit: (feedNo: number, id: string, value: V) => void): void {
    for (const [feedNo, values] of this.feeds) {
      values.forEach((value, id) => {
        visit(feedNo, id, value);
      });
    }
  }

  /** The feeds in ascending order, each with its ids in ascending order, as `compareIds` orders them. */
  inOrder(): FeedIds[] {
    return [...this.feeds]
      .sort(([a], [b]) => a - b)
      .map(([feedNo, values]) => ({ feedNo, ids: [...values.keys()].sort() }));
  }
}
