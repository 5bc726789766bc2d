/** The actions of players as events, and the arrival of events as Kafka records. */
import { SPEC } from '../../src/domain/event/event';
import { currencyOf, toMajor } from '../../src/domain/event/money';
import type { Random } from '../random';
import {
  makeWorld,
  type Player,
  pickDeposit,
  pickStake,
  pickWin,
  type Sender,
  type SenderName,
} from './world';

/** A record of the feed, before it is produced. */
export interface FeedRecord {
  readonly topic: string;
  /** The record's key, which chooses the partition. */
  readonly key: string | null;
  readonly value: string | Buffer | null;
  readonly headers: Readonly<Record<string, string | string[]>>;
}

/** An event as its sender writes it. A field that is undefined is left out. */
export type EventJson = Readonly<Record<string, unknown>>;

/** An event together with its sender and the time when it happened. */
export interface Fact {
  readonly sender: Sender;
  readonly playerRef: string;
  readonly event: EventJson;
  readonly occurredMs: number;
}

export interface Arrival {
  readonly atMs: number;
  readonly record: FeedRecord;
}

/** A round that is being played: each call is the next event of it, some seconds later. */
export interface RoundPlay {
  readonly player: Player;
  bet(minor?: bigint): Fact;
  win(minor?: bigint): Fact;
  /** The sum of the bets so far, unless `minor` gives another amount. */
  settled(minor?: bigint): Fact;
  refund(): Fact;
}

export interface RoundOptions {
  readonly sender?: SenderName;
  readonly player?: Player;
  /** The id of a game; null for no game. */
  readonly game?: string | null;
  /** Replaces the player's own brand. */
  readonly brand?: string;
}

export interface Play {
  readonly random: Random;
  player(sender?: SenderName): Player;
  round(startMs: number, options?: RoundOptions): RoundPlay;
  account(kind: 'login' | 'deposit' | 'withdrawal', atMs: number, player?: Player): Fact;
  /** Another id for an event, such as a corrected one. */
  eventId(sender: Sender, atMs: number): string;
  /** The usual delay of an event until it is in Kafka. */
  delay(): number;
}

export function makePlay(random: Random): Play {
  const world = makeWorld(random);
  let rounds = 0;
  let events = 0;

  function eventId(sender: Sender, atMs: number, label?: string): string {
    events++;
    if (sender.eventIds === 'counter') return `${sender.roundPrefix}${events.toString(36).padStart(7, '0')}`;
    if (sender.eventIds === 'round') return `${label ?? sender.roundPrefix}:${events}`;
    // A UUID of version 7: 48 bits of time, then random bits.
    const time = atMs.toString(16).padStart(12, '0');
    const variant = random.pick(['8', '9', 'a', 'b']);
    return `${time.slice(0, 8)}-${time.slice(8)}-7${random.hex(3)}-${variant}${random.hex(3)}-${random.hex(12)}`;
  }

  function money(player: Player, minor: bigint): EventJson {
    const amount = toMajor(minor, currencyOf(player.currency)?.scale ?? 0);
    // Senders differ in trailing zeros and in letter case.
    const trimmed = amount.includes('.') ? amount.replace(/\.?0+$/, '') : amount;
    return {
      amount: player.sender.eventIds === 'uuid' ? amount : trimmed,
      currency: random.chance(0.03) ? player.currency.toLowerCase() : player.currency,
    };
  }

  function fact(player: Player, kind: string, atMs: number, rest: EventJson, label?: string): Fact {
    const { sender, ref } = player;
    const event = {
      spec: SPEC,
      event_id: eventId(sender, atMs, label),
      brand: sender.onlyBrand ? undefined : player.brand,
      player_ref: ref,
      kind,
      ...rest,
      occurred_at: writeTime(atMs, sender.zoneHours),
    };
    return { sender, playerRef: ref, event, occurredMs: atMs };
  }

  function round(startMs: number, options: RoundOptions = {}): RoundPlay {
    const { brand } = options;
    const found = options.player ?? world.player(random, options.sender);
    const player = brand === undefined ? found : { ...found, brand };
    rounds++;
    const day = new Date(startMs).toISOString().slice(0, 10).replaceAll('-', '');
    const id = `${player.sender.roundPrefix}-${day}-${String(rounds).padStart(6, '0')}`;
    const game = options.game === undefined ? player.pickGame(random) : options.game;
    let atMs = startMs;
    let staked = 0n;
    const next = (kind: string, minor: bigint): Fact => {
      const rest = {
        round_id: id,
        game: game === null ? undefined : { id: game },
        ...money(player, minor),
      };
      const made = fact(player, kind, atMs, rest, id);
      atMs += random.between(400, 6_000);
      return made;
    };
    return {
      player,
      bet(minor = pickStake(random, player.currency)) {
        staked += minor;
        return next('bet', minor);
      },
      win: (minor = pickWin(random, staked)) => next('win', minor),
      settled: (minor = staked) => next('settled', minor),
      refund: () => next('refund', staked),
    };
  }

  return {
    random,
    player: (sender) => world.player(random, sender),
    round,
    account(kind, atMs, player = world.player(random)) {
      const rest = kind === 'login' ? {} : money(player, pickDeposit(random, player.currency));
      return fact(player, kind, atMs, rest);
    },
    eventId,
    delay: () => random.between(15, 350) + (random.chance(0.02) ? random.between(1_000, 20_000) : 0),
  };
}

/** An RFC 3339 time in a zone of whole hours. */
function writeTime(atMs: number, zoneHours: number): string {
  if (zoneHours === 0) return new Date(atMs).toISOString();
  const local = new Date(atMs + zoneHours * 3_600_000).toISOString().slice(0, -1);
  return `${local}+${String(zoneHours).padStart(2, '0')}:00`;
}

/** The same event with some fields changed, left out (undefined) or added. */
export function changed(fact: Fact, patch: EventJson): Fact {
  return { ...fact, event: { ...fact.event, ...patch } };
}

/** The same event by another connection of its feed, in the form that this connection requires. */
export function sentBy(sender: Sender, { event, ...fact }: Fact): Fact {
  const brand = sender.onlyBrand ? undefined : (event.brand ?? fact.sender.brands[0]);
  return { ...fact, sender, event: { ...event, brand } };
}

/** The record of an event: keyed by player, so that the events of a player keep their order. */
export function recordOf({ sender, playerRef, event }: Fact): FeedRecord {
  return rawRecord(sender, playerRef, JSON.stringify(event));
}

export function rawRecord(
  sender: Sender,
  key: string | null,
  value: string | Buffer | null,
  headers: FeedRecord['headers'] = sender.shared ? { 'connection-id': sender.id } : {},
): FeedRecord {
  return { topic: sender.topic, key, value, headers };
}
