/**
 * The plan of a seed: the reference data, the records of every partition, their readers, and the times of the
 * kills.
 */

import { makeRandom, type Random } from '../../dev/random';
import type { ReferenceDocument } from '../../src/domain/reference';
import type { Content, Json } from '../support/ledger';

/**
 * Two operators. One has connections of every kind in one feed, brands with rules, and a separate feed. The
 * other has a catalogue.
 */
export const REFERENCE: ReferenceDocument = {
  operators: [
    {
      id: 'acme',
      active: true,
      connections: [
        { id: 'acme-stream', transport: 'kafka', topic: 'acme' },
        { id: 'acme-solo', transport: 'kafka', topic: 'acme.solo', brand: 'main' },
        { id: 'acme-apart', transport: 'kafka', topic: 'acme.apart', feed: 'apart' },
        { id: 'acme-shared', transport: 'kafka', topic: 'shared' },
      ],
      brands: [
        {
          id: 'main',
          active: true,
          games: { deny: ['g9'] },
          minBet: { EUR: '0.10', ETH: '0.000000000000000002' },
        },
        { id: 'second', active: true, games: { deny: [], allow: ['g1', 'g2'] }, minBet: {} },
        { id: 'closed', active: false, games: { deny: [] }, minBet: {} },
      ],
      catalogue: [],
    },
    {
      id: 'bravo',
      active: true,
      connections: [
        { id: 'bravo-stream', transport: 'kafka', topic: 'bravo' },
        { id: 'bravo-shared', transport: 'kafka', topic: 'shared' },
      ],
      brands: [{ id: 'main', active: true, games: { deny: [] }, minBet: {} }],
      catalogue: [
        { id: 'g1', active: true },
        { id: 'g2', active: false },
      ],
    },
  ],
};

export interface PlannedRecord {
  readonly content: Content;
  /** Values of the `connection-id` header. */
  readonly claims: readonly string[];
  /** The connection that the record belongs to; null where none claims it. */
  readonly connection: string | null;
}

/** A reader of a partition, from an offset to its end, in batches of the given sizes, again and again. */
export interface PlannedReader {
  readonly from: number;
  readonly sizes: readonly number[];
  readonly pauseMs: number;
  /** Milliseconds after which the reader's own process is killed; null for a reader that reads to the end. */
  readonly killedAfterMs: number | null;
}

export interface PlannedPartition {
  readonly topic: string;
  readonly partition: number;
  readonly records: readonly PlannedRecord[];
  readonly readers: readonly PlannedReader[];
}

export interface Plan {
  readonly seed: number;
  readonly partitions: readonly PlannedPartition[];
  /** Pauses between the kills of connections of writers that are in a transaction. */
  readonly backendKillsMs: readonly number[];
}

/** Topics and partitions that carry the feeds' events. */
const PLACES: readonly { topic: string; partition: number; connections: readonly (string | null)[] }[] = [
  { topic: 'acme', partition: 0, connections: ['acme-stream'] },
  { topic: 'acme', partition: 1, connections: ['acme-stream'] },
  { topic: 'acme.solo', partition: 0, connections: ['acme-solo'] },
  { topic: 'acme.apart', partition: 0, connections: ['acme-apart'] },
  { topic: 'bravo', partition: 0, connections: ['bravo-stream'] },
  { topic: 'shared', partition: 0, connections: ['acme-shared', 'acme-shared', 'bravo-shared', null] },
];

const RECORDS_A_PARTITION = 150;
/**
 * Number of the first partition's records that also begin the second, in another order. Both partitions begin
 * with them at once.
 */
const SENT_TWICE = 60;
const IDS = { eventIds: 260, roundIds: 16 };

export function makePlan(seed: number): Plan {
  const random = makeRandom(seed);
  const event = makeEvents(random, IDS);
  const twin: PlannedRecord[] = [];
  const partitions = PLACES.map(({ topic, partition, connections }, place) => {
    const records = Array.from({ length: RECORDS_A_PARTITION }, (_, offset): PlannedRecord => {
      const connection = random.pick(connections);
      const claims = connections.length > 1 && connection !== null ? [connection] : [];
      const sent = topic === 'acme' && partition === 1 ? twin[offset] : undefined;
      return sent ?? { content: event(connection === 'acme-solo'), claims, connection };
    });
    if (place === 0) twin.push(...random.shuffled(records.slice(0, SENT_TWICE)));
    return { topic, partition, records, readers: makeReaders(random, place) };
  });
  const backendKillsMs = Array.from({ length: 3 + random.below(10) }, () => 10 + random.below(150));
  return { seed, partitions, backendKillsMs };
}

/**
 * An owner of each partition, and some readers that believe to own it: with other batches, from other
 * offsets, at the same time.
 */
function makeReaders(random: Random, place: number): PlannedReader[] {
  const reader = (): PlannedReader => ({
    from: 0,
    sizes: Array.from({ length: 5 }, () => 1 + random.below(random.pick([3, 20, 80]))),
    pauseMs: random.below(6),
    killedAfterMs: null,
  });
  const readers = [reader()];
  if (random.chance(0.7)) readers.push({ ...reader(), from: random.below(RECORDS_A_PARTITION / 2) });
  if (random.chance(0.3)) readers.push(reader());
  // Only one process to kill: starting one takes longer than all the rest.
  if (place === 0) readers.push({ ...reader(), killedAfterMs: 100 + random.below(700) });
  return readers;
}

export interface EventsOptions {
  readonly eventIds: number;
  readonly roundIds: number;
  /** Half of the events are refunds, instead of some. */
  readonly hasManyRefunds?: boolean;
}

/**
 * Events of few ids and few rounds, so that they collide: resends with equal or other content, refunds
 * anywhere, every reason.
 */
export function makeEvents(
  random: Random,
  { eventIds, roundIds, hasManyRefunds = false }: EventsOptions,
): (isSolo: boolean) => Content {
  const firsts = new Map<string, Json>();
  return (isSolo) => {
    if (random.chance(0.03)) return random.pick([null, Buffer.from('{'), Buffer.from('[]'), { event_id: 7 }]);
    const id = `event-${random.below(eventIds)}`;
    const first = firsts.get(id);
    const event =
      first === undefined || random.chance(0.2) ? anEvent(random, { id, roundIds, hasManyRefunds }) : first;
    firsts.set(id, first ?? event);
    return written(random, event, isSolo);
  };
}

interface EventOptions {
  readonly id: string;
  readonly roundIds: number;
  readonly hasManyRefunds: boolean;
}

function anEvent(random: Random, { id: event_id, roundIds, hasManyRefunds }: EventOptions): Json {
  const kind = random.pick([
    ...['bet', 'bet', 'bet', 'bet', 'win', 'win', 'settled', 'deposit', 'withdrawal', 'login'],
    ...(random.chance(0.35) ? ['refund'] : ['bet']),
    ...(hasManyRefunds ? Array.from({ length: 11 }, () => 'refund') : []),
  ]);
  const currency = random.pick(['EUR', 'EUR', 'EUR', 'EUR', 'USD', 'JPY', 'ETH']);
  const amounts: Readonly<Record<string, readonly string[]>> = {
    JPY: ['1', '500', '9223372036854775807', '0'],
    ETH: ['0.000000000000000001', '1.5', '9.223372036854775807'],
  };
  const player = random.chance(0.95) ? 'p-1' : 'p-2';
  const round = random.below(roundIds);
  const event: Json = {
    spec: 'promo.event.v1',
    event_id,
    brand: random.pick(['main', 'main', 'main', 'main', 'main', 'second']),
    player_ref: player,
    kind,
    round_id: random.pick([
      `round-${round}`,
      `round-${round}`,
      `round-${round}-with-a-longer-id`,
      `rare-${random.below(1000)}`,
    ]),
    ...(random.chance(0.7) ? { game: { id: random.pick(['g1', 'g1', 'g1', 'g2', 'g9']) } } : {}),
    amount: random.pick(amounts[currency] ?? ['1.00', '2.50', '10', '0.09', '0.10', '0']),
    currency,
    occurred_at: '2026-11-21T12:00:00Z',
  };
  return random.chance(0.15) ? { ...event, ...aFault(random) } : event;
}

function aFault(random: Random): Json {
  return random.pick<Json>([
    { kind: 'jump' },
    { kind: 5 },
    { spec: 'promo.event.v2' },
    { occurred_at: 'yesterday' },
    { round_id: '' },
    { player_ref: '' },
    { player_ref: undefined },
    { amount: 5 },
    { amount: '1.0000000000000000000' },
    { amount: '01' },
    { brand: undefined },
    { brand: 'closed' },
    { brand: 'nobody' },
    { currency: 'XXX' },
    { currency: undefined },
  ]);
}

/**
 * The same event in another notation, equal by value. A connection of one brand mostly leaves the brand out.
 */
function written(random: Random, event: Json, isSolo: boolean): Json {
  const { amount, currency } = event;
  const isPlain = typeof amount === 'string' && currency === 'EUR' && /^\d+\.\d0$/.test(amount);
  return {
    ...event,
    ...(isPlain && random.chance(0.3) ? { amount: amount.slice(0, -1) } : {}),
    ...(currency === 'EUR' && random.chance(0.2) ? { currency: 'eur' } : {}),
    ...(event.occurred_at === '2026-11-21T12:00:00Z' && random.chance(0.2)
      ? { occurred_at: '2026-11-21T14:00:00.000+02:00' }
      : {}),
    ...(isSolo && random.chance(0.9) ? { brand: undefined } : {}),
    ...(random.chance(0.2) ? { note: random.below(1000) } : {}),
  };
}
