/**
 * Reference data: who sends, on behalf of which brands, under which promotion rules (docs/rules.md, C1-C9).
 *
 * A document is what a file holds; a Reference is the document compiled for judging, with the numbers that the store gave to names.
 */
import { type Currency, currencyOf, toMinor } from './event/money';

export interface ReferenceDocument {
  readonly operators: readonly OperatorEntry[];
}

export interface OperatorEntry {
  readonly id: string;
  readonly active: boolean;
  readonly connections: readonly ConnectionEntry[];
  readonly brands: readonly BrandEntry[];
  readonly catalogue: readonly GameEntry[];
}

export interface ConnectionEntry {
  readonly id: string;
  readonly transport: 'kafka' | 'webhook';
  /** Kafka only. */
  readonly topic?: string;
  /** Where the connection carries one brand: its id. Absent where it carries several. */
  readonly brand?: string;
  /** The feed agreed for the connection. Absent: the operator's own feed. */
  readonly feed?: string;
}

export interface BrandEntry {
  readonly id: string;
  readonly active: boolean;
  readonly games: { readonly deny: readonly string[]; readonly allow?: readonly string[] };
  /** Smallest counted bet by currency code, in major units. */
  readonly minBet: Readonly<Record<string, string>>;
}

export interface GameEntry {
  readonly id: string;
  readonly active: boolean;
}

/** Numbers that the store gave to names. A name keeps its number forever. */
export interface Numbers {
  feed(operatorId: string, feedId: string): number;
  connection(connectionId: string): number;
  brand(operatorId: string, brandId: string): number;
}

export interface Brand {
  readonly no: number;
  readonly id: string;
  readonly active: boolean;
  readonly deny: ReadonlySet<string>;
  /** Undefined where the brand lists no games. An empty set allows nothing. */
  readonly allow: ReadonlySet<string> | undefined;
  readonly minBet: ReadonlyMap<Currency, bigint>;
}

export interface Operator {
  readonly id: string;
  readonly active: boolean;
  readonly brands: ReadonlyMap<string, Brand>;
  /** Every game of the catalogue with its being active. Empty where the operator sends no catalogue. */
  readonly catalogue: ReadonlyMap<string, boolean>;
}

export interface Connection {
  readonly no: number;
  readonly id: string;
  readonly transport: 'kafka' | 'webhook';
  readonly topic: string | undefined;
  readonly operator: Operator;
  readonly feedNo: number;
  readonly feedId: string;
  /** The one brand that the connection carries; undefined where it carries several. */
  readonly onlyBrand: Brand | undefined;
}

/** Which reference data it is. */
export interface ReferenceVersion {
  /** Grows by one with every applied change. Stored with each verdict. */
  readonly version: number;
  /** When it was applied, in seconds since 1970 as the store writes them: a store that has lost a version gives its number again. */
  readonly appliedAt: string;
}

export function isSameVersion(a: ReferenceVersion, b: ReferenceVersion): boolean {
  return a.version === b.version && a.appliedAt === b.appliedAt;
}

/** Whether the first was in force before the second. What is applied after a loss may have a smaller number, and a later time. */
export function isBefore(a: ReferenceVersion, b: ReferenceVersion): boolean {
  return a.version < b.version && Number(a.appliedAt) < Number(b.appliedAt);
}

export interface Reference extends ReferenceVersion {
  readonly connections: ReadonlyMap<string, Connection>;
  /** The connections bound to each topic. */
  readonly topics: ReadonlyMap<string, readonly Connection[]>;
}

/**
 * The public name of a feed: an operator's own feed is named as the operator, another one carries the operator's id in front,
 * since two operators may name a feed alike (C3).
 */
export function feedIdOf(operatorId: string, feed: string | undefined): string {
  return feed === undefined ? operatorId : `${operatorId}/${feed}`;
}

/** Compiles a document that was validated when it was applied. */
export function compileReference(
  document: ReferenceDocument,
  { version, appliedAt }: ReferenceVersion,
  numbers: Numbers,
): Reference {
  const connections = new Map<string, Connection>();
  const topics = new Map<string, Connection[]>();
  for (const entry of document.operators) {
    const brands = new Map(
      entry.brands.map((brand) => [brand.id, compileBrand(brand, numbers.brand(entry.id, brand.id))]),
    );
    const catalogue = new Map(entry.catalogue.map((game) => [game.id, game.active]));
    const operator: Operator = { id: entry.id, active: entry.active, brands, catalogue };
    for (const bound of entry.connections) {
      const feedId = feedIdOf(entry.id, bound.feed);
      if (bound.brand !== undefined && !brands.has(bound.brand)) {
        throw new RangeError(
          `connection ${bound.id} was stored although its brand ${bound.brand} is not registered`,
        );
      }
      const connection: Connection = {
        no: numbers.connection(bound.id),
        id: bound.id,
        transport: bound.transport,
        topic: bound.topic,
        operator,
        feedNo: numbers.feed(entry.id, feedId),
        feedId,
        onlyBrand: bound.brand === undefined ? undefined : brands.get(bound.brand),
      };
      connections.set(connection.id, connection);
      if (bound.topic !== undefined)
        topics.set(bound.topic, [...(topics.get(bound.topic) ?? []), connection]);
    }
  }
  return { version, appliedAt, connections, topics };
}

function compileBrand(entry: BrandEntry, no: number): Brand {
  const minBet = new Map<Currency, bigint>();
  for (const [code, amount] of Object.entries(entry.minBet)) {
    const currency = currencyOf(code);
    const minor = currency && toMinor(amount, currency.scale);
    if (currency === undefined || minor === undefined) {
      throw new RangeError(`brand ${entry.id}: min_bet ${code} was stored although it is not valid`);
    }
    minBet.set(currency, minor);
  }
  const { deny, allow } = entry.games;
  return {
    no,
    id: entry.id,
    active: entry.active,
    deny: new Set(deny),
    allow: allow === undefined ? undefined : new Set(allow),
    minBet,
  };
}

/**
 * The connection that a Kafka record belongs to (C4, C5), or undefined where none claims it.
 * @param claims values of the record's `connection-id` header
 */
export function claim(
  reference: Reference,
  topic: string,
  claims: readonly string[],
): Connection | undefined {
  const bound = reference.topics.get(topic);
  if (bound === undefined) return undefined;
  if (bound.length === 1) return bound[0];
  const [first, ...others] = claims;
  if (first === undefined || others.some((other) => other !== first)) return undefined;
  return bound.find((connection) => connection.id === first);
}
