/**
 * The feed of the benchmark: rounds of four events, some 270 bytes each, keyed by player. It has 5 % resends,
 * 1 % invalid events, and 2 % of the rounds are refunded.
 */
import { randomUUID } from 'node:crypto';
import { makeRandom, type Random } from '../random';

export interface FeedMessage {
  /** Null: a record without a key. */
  readonly key: string | null;
  readonly value: string;
  /** Absent: the key chooses the partition. */
  readonly partition?: number;
  readonly headers?: Readonly<Record<string, string>>;
}

/**
 * Keys of the records: the player's id, random keys, none, or one key for all. Keys by player keep all events
 * of a player, and of a round, in one partition.
 */
export const KEYS = ['player', 'random', 'none', 'one'] as const;
export type Keys = (typeof KEYS)[number];

export function isKeys(text: string): text is Keys {
  return KEYS.some((keys) => keys === text);
}

export interface FeedShape {
  readonly events: number;
  readonly players: number;
  readonly resendShare: number;
  readonly invalidShare: number;
  readonly refundShare: number;
  /** Ids of events and rounds. Random ids scatter over the indexes, time-ordered ids are appended to them. */
  readonly ids: 'time-ordered' | 'random';
  readonly keys: Keys;
  /** Partitions of the topic. */
  readonly partitions: number;
}

export const USUAL_SHAPE: Omit<FeedShape, 'events'> = {
  players: 20_000,
  resendShare: 0.05,
  invalidShare: 0.01,
  refundShare: 0.02,
  ids: 'time-ordered',
  keys: 'player',
  partitions: 8,
};

export const SEED = 1;

/** A resend repeats one of this many events before it. */
const RECENT = 1_000;

/** A time-ordered UUID (version 7). Its random part comes from the system, so no two runs share an id. */
export function uuidV7(now: number): string {
  const time = now.toString(16).padStart(12, '0');
  return `${time.slice(0, 8)}-${time.slice(8)}-7${randomUUID().slice(15)}`;
}

interface EventOf {
  readonly eventId: string;
  readonly player: string;
  readonly kind: string;
  readonly round: string;
  readonly amount: string;
  readonly at: number;
}

/**
 * Yields the messages of a feed, a round at a time, each a millisecond later than the one before. Two feeds
 * of one seed differ only in their ids and times.
 *
 * @param start milliseconds since 1970
 */
export function* makeFeed(shape: FeedShape, seed = SEED, start = Date.now()): Generator<FeedMessage> {
  const random = makeRandom(seed);
  const newId = shape.ids === 'random' ? () => randomUUID() : uuidV7;
  const placeOf = makePlaces(shape, random);
  const recent: { readonly player: string; readonly value: string }[] = [];
  let made = 0;
  while (made < shape.events) {
    const player = `player-${random.below(shape.players)}`;
    const round = newId(start + made);
    for (const [kind, amount] of roundOf(random.chance(shape.refundShare), random)) {
      if (made++ >= shape.events) return;
      const resend = random.chance(shape.resendShare) ? recent[random.below(recent.length)] : undefined;
      if (resend !== undefined) {
        yield { ...placeOf(resend.player, resend.value), value: resend.value };
        continue;
      }
      const at = start + made;
      const stated = random.chance(shape.invalidShare) ? 'ten' : amount;
      const event = { eventId: newId(at), player, kind, round, amount: stated, at };
      const value = eventText(event);
      recent[made % RECENT] = { player, value };
      yield { ...placeOf(player, value), value };
    }
  }
}

/** The default of Java's producer: the bytes of a batch of records. */
const BATCH_SIZE = 16_384;

type Place = Pick<FeedMessage, 'key' | 'partition'>;

/**
 * Chooses keys or partitions. Without keys, it does as Java's producer: it fills a batch for one partition,
 * and goes on with another partition.
 */
function makePlaces(
  { keys, partitions }: FeedShape,
  random: Random,
): (player: string, value: string) => Place {
  if (keys === 'player') return (player) => ({ key: player });
  if (keys === 'one') return () => ({ key: 'one' });
  if (keys === 'random') return () => ({ key: random.hex(8) });
  let partition = random.below(partitions);
  let bytes = 0;
  return (_, value) => {
    if (bytes + value.length > BATCH_SIZE) {
      partition = (partition + 1 + random.below(Math.max(1, partitions - 1))) % partitions;
      bytes = 0;
    }
    bytes += value.length;
    return { key: null, partition };
  };
}

function roundOf(refunded: boolean, random: Random): readonly (readonly [kind: string, amount: string])[] {
  const stake = `${random.between(1, 50)}.50`;
  return [
    ['bet', stake],
    [refunded ? 'refund' : 'win', stake],
    ['settled', stake],
    ['win', '0.10'],
  ];
}

export function eventText({ eventId, player, kind, round, amount, at }: EventOf): string {
  // A template, since no value needs an escape, and the producer shares the machine with the worker that it
  // measures.
  return `{"spec":"promo.event.v1","event_id":"${eventId}","brand":"main","player_ref":"${player}","kind":"${kind}","round_id":"${round}","game":{"id":"g1"},"amount":"${amount}","currency":"EUR","occurred_at":"${new Date(at).toISOString()}"}`;
}

/** The connection of an operator, by its number. */
export const connectionOfOperator = (operator: number): string => `bench-stream-${operator}`;

/** A feed whose players are shared out among operators. Its records name the connections. */
export function* sharedOut(feed: Iterable<FeedMessage>, operators: number): Generator<FeedMessage> {
  for (const message of feed) {
    const player = Number(message.key?.replace('player-', ''));
    yield { ...message, headers: { 'connection-id': connectionOfOperator(player % operators) } };
  }
}

/** Bets and wins of a few rounds: every batch of every partition writes to all of them. */
export function* makeHotRounds(events: number, rounds: number): Generator<FeedMessage> {
  const random = makeRandom(SEED);
  const start = Date.now();
  const ids = Array.from({ length: rounds }, () => uuidV7(start));
  for (let made = 0; made < events; made++) {
    const at = start + made;
    const index = random.below(rounds);
    const event = {
      eventId: uuidV7(at),
      player: `player-${index}`,
      kind: random.chance(0.5) ? 'bet' : 'win',
      round: ids[index] ?? '',
      amount: '1.00',
      at,
    };
    yield { key: random.hex(8), value: eventText(event) };
  }
}

/** Events of a single round. */
export function* makeBetsOf(round: string, bets: number): Generator<FeedMessage> {
  const player = `player-of-${round}`;
  const start = Date.now();
  for (let made = 0; made < bets; made++) {
    const at = start + made;
    yield {
      key: player,
      value: eventText({ eventId: uuidV7(at), player, kind: 'bet', round, amount: '1.00', at }),
    };
  }
}

/** Fresh messages, with a share of them replaced by earlier messages in their order. */
export function* mixResends(
  fresh: Iterable<FeedMessage>,
  before: readonly FeedMessage[],
  share: number,
): Generator<FeedMessage> {
  const random = makeRandom(SEED);
  let next = 0;
  for (const message of fresh) {
    const resend = random.chance(share) ? before[next++ % before.length] : undefined;
    yield resend ?? message;
  }
}
