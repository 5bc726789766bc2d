/**
 * Events and reference data with valid defaults: a test names only the fields that matter to it.
 *
 * An event is the operator's JSON, before anything has judged it. `aConnection()` accepts the defaults.
 */
import { randomUUID } from 'node:crypto';
import { NO_TAGS } from '../../src/domain/event/player-tag';
import {
  type BrandEntry,
  type Connection,
  type ConnectionEntry,
  compileReference,
  type Numbers,
  type OperatorEntry,
  type Reference,
  type ReferenceDocument,
} from '../../src/domain/reference';
import { FeedMap, type Known } from '../../src/domain/verdict/decide';

/** Any JSON object in the place of an event, valid or not. */
export type EventJson = { readonly [field: string]: unknown };

/** An event with a usable id. */
export interface AnEvent extends EventJson {
  readonly event_id: string;
}

/** An event of a round. */
export interface ARoundEvent extends AnEvent {
  readonly round_id: string;
  readonly amount: string;
  readonly currency: string;
}

type Changes<T> = Partial<T> & EventJson;

const common = () => ({
  spec: 'promo.event.v1',
  event_id: randomUUID(),
  brand: 'main',
  player_ref: 'p-1',
  occurred_at: '2026-11-21T12:00:00.250Z',
});
const roundEvent = (kind: string, amount: string) => ({
  ...common(),
  kind,
  round_id: `round-${randomUUID()}`,
  game: { id: 'g1' },
  amount,
  currency: 'EUR',
});

export const aBet = (changes: Changes<ARoundEvent> = {}): ARoundEvent => ({
  ...roundEvent('bet', '10.50'),
  ...changes,
});
export const aWin = (changes: Changes<ARoundEvent> = {}): ARoundEvent => ({
  ...roundEvent('win', '25.00'),
  ...changes,
});
export const aSettled = (changes: Changes<ARoundEvent> = {}): ARoundEvent => ({
  ...roundEvent('settled', '10.50'),
  ...changes,
});

/**
 * Another event of the round of `event`: the same round, brand, player, game, amount and currency under a new
 * id.
 */
const another = (kind: string, event: ARoundEvent, changes: Changes<ARoundEvent>): ARoundEvent => ({
  ...event,
  event_id: randomUUID(),
  kind,
  ...changes,
});
export const anotherBet = (event: ARoundEvent, changes: Changes<ARoundEvent> = {}) =>
  another('bet', event, changes);
export const aWinOf = (event: ARoundEvent, changes: Changes<ARoundEvent> = {}) =>
  another('win', event, changes);
export const aSettledOf = (event: ARoundEvent, changes: Changes<ARoundEvent> = {}) =>
  another('settled', event, changes);
export const aRefund = (event: ARoundEvent = aBet(), changes: Changes<ARoundEvent> = {}) =>
  another('refund', event, changes);

export const aDeposit = (changes: Changes<AnEvent> = {}): AnEvent => ({
  ...common(),
  kind: 'deposit',
  amount: '100.00',
  currency: 'EUR',
  ...changes,
});
export const aWithdrawal = (changes: Changes<AnEvent> = {}): AnEvent => ({
  ...aDeposit(),
  kind: 'withdrawal',
  ...changes,
});
export const aLogin = (changes: Changes<AnEvent> = {}): AnEvent => ({
  ...common(),
  kind: 'login',
  ...changes,
});

/** A valid event of a kind. */
export function anEvent(kind: string, changes: EventJson = {}): EventJson {
  const valid: { readonly [kind: string]: () => EventJson } = {
    bet: aBet,
    win: aWin,
    settled: aSettled,
    refund: aRefund,
    deposit: aDeposit,
    withdrawal: aWithdrawal,
    login: aLogin,
  };
  const make = valid[kind];
  if (make === undefined) throw new RangeError(`no builder for the kind ${kind}`);
  return { ...make(), ...changes };
}

/** The event without a field. */
export function without(event: EventJson, ...fields: readonly string[]): EventJson {
  return Object.fromEntries(Object.entries(event).filter(([field]) => !fields.includes(field)));
}

/** The bytes that an operator would send. */
export function bytesOf(event: unknown): Buffer {
  return Buffer.from(JSON.stringify(event));
}

// --- what a store knows

/** The knowledge of an empty store, or only the given knowledge. */
export const nothingKnown = (more: Partial<Known> = {}): Known => ({
  events: new FeedMap(),
  resends: new Map(),
  unstored: new Set(),
  rounds: new FeedMap(),
  tags: NO_TAGS,
  ...more,
});

// --- reference data

/** An active brand without rules of its own. */
export const aBrand = (changes: Partial<BrandEntry> = {}): BrandEntry => ({
  id: 'main',
  active: true,
  games: { deny: [] },
  minBet: {},
  ...changes,
});

/** An active operator with one brand, no catalogue, and one topic that carries several brands. */
export const anOperator = (changes: Partial<OperatorEntry> = {}): OperatorEntry => ({
  id: 'acme',
  active: true,
  connections: [{ id: 'acme-stream', transport: 'kafka', topic: 'promo.event.v1' }],
  brands: [aBrand()],
  catalogue: [],
  ...changes,
});

export const aDocument = (...operators: readonly OperatorEntry[]): ReferenceDocument => ({
  operators: operators.length === 0 ? [anOperator()] : operators,
});

/** A document compiled for judging, with numbers given out in order from 1. */
export function aReference(document: ReferenceDocument = aDocument()): Reference {
  return compileReference(document, { version: 1, appliedAt: '' }, countingNumbers());
}

function countingNumbers(): Numbers {
  const given = new Map<string, number>();
  const numberOf = (...names: readonly string[]) => {
    const name = JSON.stringify(names);
    const number = given.get(name) ?? given.size + 1;
    given.set(name, number);
    return number;
  };
  return {
    feed: (operatorId, feedId) => numberOf('feed', operatorId, feedId),
    connection: (connectionId) => numberOf('connection', connectionId),
    brand: (operatorId, brandId) => numberOf('brand', operatorId, brandId),
  };
}

/** A connection of an operator of its own. It carries several brands unless `bound` names one. */
export function aConnection(
  operator: Partial<OperatorEntry> = {},
  bound: Partial<ConnectionEntry> = {},
): Connection {
  const entry: ConnectionEntry = {
    id: 'acme-stream',
    transport: 'kafka',
    topic: 'promo.event.v1',
    ...bound,
  };
  const reference = aReference(aDocument(anOperator({ ...operator, connections: [entry] })));
  const connection = reference.connections.get(entry.id);
  if (connection === undefined) throw new Error(`the reference has no connection ${entry.id}`);
  return connection;
}
