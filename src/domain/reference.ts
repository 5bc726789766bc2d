/**
 * Reference data: who sends, on behalf of which brands, under which promotion rules (docs/rules.md, C1-C9).
 *
 * A document is the content of a reference file. A Reference is the document compiled for judging, with the
 * numbers that the store gave to names.
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
  /** Present for Kafka only. */
  readonly topic?: string;
  /** The id of the one brand that the connection carries. Absent where it carries several. */
  readonly brand?: string;
  /** The feed agreed for the connection. Absent for the operator's own feed. */
  readonly feed?: string;
  /** Present for a connection for tests: it decides into a feed of its own, which nothing counts (C11). */
  readonly test?: true;
}

export interface BrandEntry {
  readonly id: string;
  readonly active: boolean;
  readonly games: { readonly deny: readonly string[]; readonly allow?: readonly string[] };
  /** The smallest counted bet by currency code, in major units. */
  readonly minBet: Readonly<Record<string, string>>;
}

export interface GameEntry {
  readonly id: string;
  readonly active: boolean;
}

/** The numbers that the store gave to names. A name keeps its number forever. */
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
  /** Whether each game of the catalogue is active. Empty where the operator sends no catalogue. */
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
  /** Absent: false. */
  readonly isTest?: boolean;
}

/** Identifies one applied version of the reference data. */
export interface ReferenceVersion {
  /** Grows by one with every applied change. Stored with each verdict. */
  readonly version: number;
  /**
   * The time of `reference apply`, in seconds since 1970 as the store writes them. A store that has lost a
   * version assigns its number again, so the number alone does not identify it.
   */
  readonly appliedAt: string;
}

export function isSameVersion(a: ReferenceVersion, b: ReferenceVersion): boolean {
  return a.version === b.version && a.appliedAt === b.appliedAt;
}

/**
 * Whether `a` was in force before `b`. After a store has lost data, a later version may have a smaller
 * number.
 */
export function isBefore(a: ReferenceVersion, b: ReferenceVersion): boolean {
  return a.version < b.version && Number(a.appliedAt) < Number(b.appliedAt);
}

export interface Reference extends ReferenceVersion {
  readonly connections: ReadonlyMap<string, Connection>;
  /** The connections bound to each topic. */
  readonly topics: ReadonlyMap<string, readonly Connection[]>;
}

/**
 * The public name of a feed. An operator's own feed has the operator's name. Any other feed has the
 * operator's id in front, since two operators may use one name for a feed (C3).
 */
export function feedIdOf(operatorId: string, feed: string | undefined, isTest = false): string {
  // Names have no slash, so no other feed has two of them. The store knows test feeds by these.
  const own = isTest ? `${operatorId}//test` : operatorId;
  return feed === undefined ? own : `${own}/${feed}`;
}

/** Compiles a document. It was validated when it was applied. */
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
      const feedId = feedIdOf(entry.id, bound.feed, bound.test);
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
        isTest: bound.test === true,
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
 * The connection that a Kafka record belongs to (C4, C5); undefined where no connection claims it.
 *
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
