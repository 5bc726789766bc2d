/**
 * The plan of a seed: the records of each partition, the workers and their settings, the changes of reference
 * data, the faults.
 */
import { makeRandom, type Random } from '../../dev/random';
import type { ConnectionEntry, ReferenceDocument } from '../../src/domain/reference';
import { STORE_CHECK_MS } from '../../src/stream/stream';
import { makeEvents, type PlannedRecord, REFERENCE } from '../model/plan';
import type { Content, Json } from '../support/ledger';
import { type FaultPlan, PAIRS, type Point } from './faults';

/** The step that fails each time for an event of the record; null for all other events. */
export type Poison = 'judging' | 'deciding' | 'storing' | null;

export interface SimulatedRecord extends PlannedRecord {
  readonly poison: Poison;
  /** Whether the value is in the Confluent wire format, which needs the registry. */
  readonly isFramed: boolean;
}

export interface SimulatedPartition {
  readonly topic: string;
  readonly partition: number;
  /** Null for offsets without a record. */
  readonly entries: readonly (SimulatedRecord | null)[];
  /** The first `first` entries exist at the beginning; the others are produced after `laterMs`. */
  readonly first: number;
  readonly laterMs: number;
  /** Records produced after the topic is deleted and created again: events of their own, each with an id. */
  readonly recreated: readonly (SimulatedRecord | null)[];
}

/** A request to the webhook, which its sender repeats until it is answered. */
export interface PlannedRequest {
  /** The id that the sender gives it. */
  readonly id: string;
  readonly connection: string;
  readonly events: readonly Json[];
  readonly body: Buffer;
  readonly atMs: number;
}

export interface SimulationPlan {
  readonly seed: number;
  /** In the order of their numbers, which follow those of the records. */
  readonly requests: readonly PlannedRequest[];
  /** Processes of the webhook; none where there are no requests. */
  readonly pods: number;
  /** Transactions of a pod at once. */
  readonly slots: number;
  readonly publishesRequests: boolean;
  /** Whether the first messages of each pod are refused, so that its publisher has to wait. */
  readonly refusesFirstMessages: boolean;
  /** Whether each operator has a topic of verdicts of its own. */
  readonly isTopicPerOperator: boolean;
  readonly partitions: readonly SimulatedPartition[];
  readonly workers: number;
  readonly batchEvents: number;
  readonly partitionsAtOnce: number;
  /** Chance that a statement yields to others after one of its rows. */
  readonly betweenRows: number;
  /** The longest time that a fetch takes. */
  readonly fetchMs: number;
  readonly compressed: number;
  readonly chunkBytes: number;
  readonly faults: FaultPlan;
  /** When the offsets of the group are set back; null for never. */
  readonly rewindAtMs: number | null;
  /**
   * When an older store is restored, shortly before records arrive in all partitions at once. The next
   * batches then have several partitions that it is behind in. Null for never.
   */
  readonly restoreAtMs: number | null;
}

/** Records, requests and faults that are left out of a run, to find the smallest run that still fails. */
export interface Without {
  readonly records: ReadonlySet<number>;
  readonly faults: ReadonlySet<number>;
}
export const WITHOUT_NOTHING: Without = { records: new Set(), faults: new Set() };

const PLACES: readonly { topic: string; partition: number; connections: readonly (string | null)[] }[] = [
  { topic: 'acme', partition: 0, connections: ['acme-stream'] },
  { topic: 'acme', partition: 1, connections: ['acme-stream'] },
  { topic: 'shared', partition: 0, connections: ['acme-shared', 'acme-shared', 'bravo-shared', null] },
  { topic: 'acme.solo', partition: 0, connections: ['acme-solo'] },
  { topic: 'bravo', partition: 0, connections: ['bravo-stream'] },
];

/**
 * Partitions whose events arrive at the same moment. They reveal a worker that takes locks in another order.
 * Some crowds share their events, so that all partitions open the same rounds and write the same keys. Others
 * have different events of rounds that the first partition has opened before.
 */
const CROWDS: readonly (typeof PLACES)[] = [
  [0, 1, 2, 3].map((partition) => ({ topic: 'acme', partition, connections: ['acme-stream'] })),
  [0, 1, 2].map((partition) => ({
    topic: 'shared',
    partition,
    connections: ['acme-shared', 'bravo-shared'],
  })),
];

export function makePlan(seed: number, without: Without = WITHOUT_NOTHING): SimulationPlan {
  const random = makeRandom(seed);
  const focus = PAIRS[seed % PAIRS.length] ?? (['connect', 'cut before'] as const);
  const needs = NEEDS[focus[0]] ?? {};
  const crowd = random.pick(['same events', 'same rounds'] as const);
  const isCrowd = random.chance(0.3) && needs.deadLetters !== true && needs.poison !== true;
  // A backlog is complete at the beginning and exceeds one batch, so that a worker looks ahead in it.
  const isBacklog = !isCrowd && needs.idle !== true && random.chance(0.4);
  const some = PLACES.slice(0, (needs.deadLetters ? 3 : 2) + random.below(PLACES.length - 2));
  const places = isCrowd ? random.pick(CROWDS) : some;
  const event = makeEvents(random, {
    eventIds: (isCrowd ? 40 : 8) + random.below(50),
    roundIds: 2 + random.below(5),
    hasManyRefunds: needs.refunds === true,
  });
  let number = 0;
  let poisons = 0;
  const firsts: SimulatedRecord[] = [];
  const firstLogs = places.map(({ topic, partition, connections }, place) => {
    const hasTwins = partition > 0 && !(isCrowd && crowd === 'same rounds');
    const twins = hasTwins ? random.shuffled(firsts) : [];
    const entries = Array.from(
      { length: (isCrowd || isBacklog ? 12 : 4) + random.below(isBacklog ? 30 : 14) },
      (_, index): SimulatedRecord | null => {
        if (random.chance(0.06)) return null;
        const twin = twins[index];
        if (twin !== undefined) return twin;
        const connection = random.pick(connections);
        const claims = connections.length > 1 && connection !== null ? [connection] : [];
        const sound = event(connection === 'acme-solo');
        const made = poisoned(random, sound, place, needs);
        const isTooMany = made.poison !== null && ++poisons > (isCrowd ? 1 : MAX_POISONS);
        const record = isTooMany ? { content: sound, poison: null, isFramed: false } : made;
        return { ...record, claims, connection };
      },
    ).filter(() => !without.records.has(number++));
    if (place === 0) {
      const records = entries.filter((entry) => entry !== null);
      firsts.push(...records.slice(0, isCrowd ? records.length : random.below(records.length + 1)));
    }
    const late = {
      first: random.below(entries.length + 1),
      laterMs: random.below(random.pick([200, 5_000, 20_000])),
    };
    return {
      topic,
      partition,
      entries,
      ...late,
      ...(isBacklog && { first: entries.length }),
      ...(isCrowd && inCrowd(crowd === 'same rounds' && place === 0, entries.length)),
      ...(needs.idle && { laterMs: IDLE_MS }),
    };
  });
  const hasRestore = !isCrowd && !isBacklog && needs.idle !== true && makeRandom(seed * 7 + 15).chance(0.3);
  const recreatedEvents = makeRecreatedEvents(makeRandom(seed * 7 + 6));
  const partitions = firstLogs.map((log, place): SimulatedPartition => {
    const recreated = recreatedEvents(places[place]?.connections ?? []);
    const second = hasRestore && { first: log.entries.length >> 1, laterMs: RESTORE_AT_MS + 500 };
    return { ...log, ...second, recreated: recreated.filter(() => !without.records.has(number++)) };
  });
  const webhook = makeRequests(makeRandom(seed * 7 + 12), needs.webhook === true, partitions).filter(
    () => !without.records.has(number++),
  );
  return {
    seed,
    partitions,
    requests: webhook,
    ...ofPods(makeRandom(seed * 7 + 13), webhook.length, needs),
    isTopicPerOperator: makeRandom(seed * 7 + 14).chance(0.5),
    workers: isCrowd ? 3 : hasRestore ? 1 : 2 + random.below(2),
    batchEvents:
      isCrowd || hasRestore
        ? 8 + random.below(12)
        : 1 + random.below(random.pick(isBacklog ? [4, 8] : [4, 20])),
    partitionsAtOnce: (isCrowd || isBacklog ? 2 : 1) + random.below(3),
    betweenRows: isCrowd ? 0.8 : 0.2,
    fetchMs: isCrowd || isBacklog || hasRestore ? 3 : 30,
    compressed: random.pick([0, 0.3, 1]),
    chunkBytes: random.pick([0, 0, 400_000, 1_000_000]),
    faults: {
      focus,
      rate: random.pick([0, 0.005, 0.02, 0.05, 0.2]),
      most: random.below(random.pick([4, 12, 60])) + 1,
      // No fault strikes a crowd until it has met.
      fromMs: isCrowd ? 2_500 : 0,
      untilMs: random.pick([2_000, 20_000, 120_000]),
      without: without.faults,
    },
    rewindAtMs: needs.rewind || random.chance(0.1) ? 100 + random.below(1_500) : null,
    restoreAtMs: hasRestore ? RESTORE_AT_MS : null,
  };
}

/** The webhook connections of each operator. Each shares its feed with connections of Kafka. */
const HOOKS: Readonly<Record<string, readonly ConnectionEntry[]>> = {
  acme: [
    { id: 'acme-hook', transport: 'webhook' },
    { id: 'acme-hook-solo', transport: 'webhook', brand: 'main' },
  ],
  bravo: [{ id: 'bravo-hook', transport: 'webhook' }],
};

/** Chance that a seed has a webhook. */
const WEBHOOK_CHANCE = 0.35;

/**
 * The requests of a seed. Half of their events also come by Kafka, with the same event_id. Requests of one
 * connection that share an event_id share its content, so that a stored row shows which content was decided.
 */
function makeRequests(
  random: Random,
  isNeeded: boolean,
  partitions: readonly SimulatedPartition[],
): PlannedRequest[] {
  if (!isNeeded && !random.chance(WEBHOOK_CHANCE)) return [];
  const event = makeEvents(random, { eventIds: 30, roundIds: 5 });
  const contents = new Map<string, Json>();
  const ofKafka = new Map<string, Json[]>();
  for (const { topic, entries } of partitions)
    for (const entry of entries) {
      const operator = topic.startsWith('bravo') || entry?.connection === 'bravo-shared' ? 'bravo' : 'acme';
      const { content = null, poison = null } = entry ?? {};
      if (content === null || Buffer.isBuffer(content) || poison !== null) continue;
      const known = ofKafka.get(operator);
      if (known === undefined) ofKafka.set(operator, [content]);
      else known.push(content);
    }
  const spreadMs = random.pick([5, 300, 3_000, 15_000]);
  return Array.from({ length: 1 + random.below(isNeeded ? 10 : 7) }, (_, index): PlannedRequest => {
    const connection = random.pick(['acme-hook', 'acme-hook', 'acme-hook', 'acme-hook-solo', 'bravo-hook']);
    const twins = ofKafka.get(connection.startsWith('bravo') ? 'bravo' : 'acme') ?? [];
    const events = Array.from({ length: random.pick([1, 1, 1, 2, 5]) }, (): Json => {
      const made = twins.length > 0 && random.chance(0.5) ? random.pick(twins) : event(false);
      const content = made === null || Buffer.isBuffer(made) ? { event_id: 7 } : made;
      const key = `${connection} ${content.event_id}`;
      const first = contents.get(key) ?? content;
      contents.set(key, first);
      return first;
    });
    const body = Buffer.from(JSON.stringify(events.length === 1 ? events[0] : { events }));
    return { id: `request-${index}`, connection, events, body, atMs: random.below(spreadMs) };
  });
}

function ofPods(random: Random, requests: number, { webhook, refused }: Needs) {
  const slots = 1 + random.below(3);
  return {
    pods: requests === 0 ? 0 : 1 + random.below(2),
    slots: webhook === true ? 1 : slots,
    publishesRequests: webhook === true || random.chance(0.7),
    refusesFirstMessages: refused === true,
  };
}

/**
 * The prefix of an event id shows which of the topic's two logs holds the event. The store holds no other
 * trace of it.
 */
const RECREATED_PREFIX = 'anew-';
export const isFromRecreatedLog = (eventId: unknown): boolean =>
  typeof eventId === 'string' && eventId.startsWith(RECREATED_PREFIX);

/** Records of logs that are created again, in the same rounds as the first logs. */
function makeRecreatedEvents(random: Random) {
  const event = makeEvents(random, { eventIds: 20, roundIds: 4 });
  return (connections: readonly (string | null)[]): (SimulatedRecord | null)[] =>
    Array.from({ length: 3 + random.below(12) }, (_, index) => {
      const connection = random.pick(connections.filter((each) => each !== null));
      const made = event(connection === 'acme-solo');
      const isKeyed = made !== null && !Buffer.isBuffer(made) && typeof made.event_id === 'string';
      const content = isKeyed ? made : { ...VALID, event_id: `valid-${index}` };
      const claims = connections.length > 1 ? [connection] : [];
      if (random.chance(0.06)) return null;
      const event_id = `${RECREATED_PREFIX}${content.event_id}`;
      return { content: { ...content, event_id }, claims, connection, poison: null, isFramed: false };
    });
}

/**
 * The events of a crowd arrive together, once every worker has its partitions. The early partition is
 * finished by then.
 */
const inCrowd = (isEarly: boolean, entries: number) =>
  isEarly ? { first: entries, laterMs: 0 } : { first: 0, laterMs: 2_000 };

/** By then, workers have decided the first records. Records that follow meet a store that is back. */
const RESTORE_AT_MS = 4_000;

/** Long enough for the worker to check what the store still knows of partitions without new records. */
const IDLE_MS = STORE_CHECK_MS + 5_000;

/** Properties that a run needs to reach its point. */
interface Needs {
  readonly idle?: boolean;
  readonly rewind?: boolean;
  readonly refunds?: boolean;
  readonly deadLetters?: boolean;
  readonly poison?: boolean;
  readonly framed?: boolean;
  readonly webhook?: boolean;
  readonly refused?: boolean;
}
const NEEDS: Partial<Record<Point, Needs>> = {
  decided_up_to: { idle: true },
  find_resends: { rewind: true },
  find_unstored: { rewind: true },
  find_times: { rewind: true },
  find_refunds: { rewind: true, refunds: true },
  record_panic: { poison: true },
  decode: { framed: true },
  write: { deadLetters: true },
  'send dead letters': { deadLetters: true },
  'request body': { webhook: true },
  'wait for a slot': { webhook: true },
  'decide requests': { webhook: true },
  'wait of a publisher': { webhook: true, refused: true },
  'answer a request': { webhook: true },
};

/**
 * Each poisoned event is read again now and then. More than ten panics a minute leave a partition undecided
 * (V9).
 */
const MAX_POISONS = 3;

/** A few events make the code fail. Their ids are their own, and a resent one has the same content. */
function poisoned(
  random: Random,
  content: Content,
  place: number,
  needs: Needs,
): { content: Content; poison: Poison; isFramed: boolean } {
  const isFramed = random.chance(needs.framed ? 0.5 : 0.1) && content !== null && !Buffer.isBuffer(content);
  if (
    !random.chance(needs.poison ? 0.3 : 0.04) ||
    content === null ||
    Buffer.isBuffer(content) ||
    !isRoundEvent(content)
  )
    return { content, poison: null, isFramed };
  const poison = random.pick(['judging', 'deciding', 'storing'] as const);
  const id = `${poison}-${place}-${random.below(3)}`;
  const game = poison === 'deciding' ? { game: { id: BUG } } : {};
  return {
    content: { ...VALID, ...game, event_id: id },
    poison,
    isFramed: poison === 'judging',
  };
}

/** The game whose events cannot be decided. */
export const BUG = 'bug';

const VALID: Json = {
  spec: 'promo.event.v1',
  brand: 'main',
  player_ref: 'p-1',
  kind: 'win',
  round_id: 'round-0',
  amount: '1.00',
  currency: 'EUR',
  occurred_at: '2026-11-21T12:00:00Z',
};

const isRoundEvent = (content: Json) => typeof content.round_id === 'string';

/** The versions of the reference data: a brand is switched on and off, a minimum bet changes. */
export function documentOf(version: number): ReferenceDocument {
  return {
    operators: REFERENCE.operators.map((operator) => ({
      ...operator,
      connections: [...operator.connections, ...(HOOKS[operator.id] ?? [])],
      brands: operator.brands.map((brand) => ({
        ...brand,
        active: brand.id === 'second' ? version % 2 === 1 : brand.active,
        minBet: brand.id === 'main' && version % 3 === 0 ? { ...brand.minBet, EUR: '2.00' } : brand.minBet,
      })),
    })),
  };
}
