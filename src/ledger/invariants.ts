/**
 * What `verify` asks of the store, all in one snapshot: the damages that promo.check_invariants() finds, and how far partitions are decided.
 */
import { Client } from 'pg';
import { clientConfig, type StoreAccess } from './connection';
import { StoreError } from './failures';

/** Everything stored is read once, which takes minutes for a hundred million events. */
const CHECK_TIMEOUT_MS = 3 * 3_600_000;

export interface Damage {
  /** I1 to I5; docs/operations.md says what each of them is. */
  readonly invariant: string;
  readonly what: string;
  /** Of what: the feed and the event or round, or the partition, as far as it is one. */
  readonly where: readonly string[];
  /** How many damages of this invariant there are; not all of them are told. */
  readonly inAll: number;
}

/** A partition as the store knows it. */
export interface StoredPartition {
  readonly topic: string;
  readonly partition: number;
  /** One past the highest offset that was decided. */
  readonly nextOffset: number;
  /** Records read, without those that were read again. */
  readonly records: number;
  /** Offsets that rows stand for, from the one asked for on. */
  readonly offsets: number;
}

/** An offset that Kafka still has everything from. */
export interface Beginning {
  readonly topic: string;
  readonly partition: number;
  readonly low: number;
}

export interface Inspection {
  readonly damages: readonly Damage[];
  readonly partitions: readonly StoredPartition[];
}

const TOPICS = 'select distinct topic from promo.partitions order by topic';

const DAMAGES = `select invariant, what, array_remove(array[feed_id, event_id, round_id, source], null), in_all::int
from promo.check_invariants()`;

const PARTITIONS = `select topic, partition, next_offset::text, records::text, offsets::int
from promo_store.decided_offsets($1, $2, $3) order by topic, partition`;

/** @throws StoreError */
export async function storedTopics(database: string | StoreAccess): Promise<string[]> {
  return withStore(database, async (query) =>
    (await query('topics', TOPICS)).map(([topic]) => String(topic)),
  );
}

/** @param beginnings where rows are counted from; a partition that is not named is counted from 0 @throws StoreError */
export async function inspect(
  database: string | StoreAccess,
  beginnings: readonly Beginning[],
): Promise<Inspection> {
  return withStore(database, async (query) => {
    const damages = await query('check_invariants', DAMAGES);
    const partitions = await query('partitions', PARTITIONS, [
      beginnings.map(({ topic }) => topic),
      beginnings.map(({ partition }) => partition),
      beginnings.map(({ low }) => low),
    ]);
    return {
      damages: damages.map(([invariant, what, where, inAll]) => ({
        invariant: String(invariant),
        what: String(what),
        where: Array.isArray(where) ? where.map(String) : [],
        inAll: Number(inAll),
      })),
      partitions: partitions.map(([topic, partition, nextOffset, records, offsets]) => ({
        topic: String(topic),
        partition: Number(partition),
        nextOffset: Number(nextOffset),
        records: Number(records),
        offsets: Number(offsets),
      })),
    };
  });
}

type Query = (name: string, text: string, values?: readonly unknown[]) => Promise<unknown[][]>;

/** Runs statements in one snapshot that nothing is written in: a replica will do. */
async function withStore<T>(database: string | StoreAccess, work: (query: Query) => Promise<T>): Promise<T> {
  const client = new Client({
    ...clientConfig(database),
    application_name: 'promo-intake-verify',
  });
  // A connection that ends is reported by the statement under way; an event without a listener ends the process.
  client.on('error', () => undefined);
  const query: Query = async (name, text, values = []) => {
    try {
      const { rows } = await client.query<unknown[]>({ text, values: [...values], rowMode: 'array' });
      return rows;
    } catch (error) {
      throw new StoreError(name, error);
    }
  };
  await client.connect();
  try {
    await query('begin', 'begin isolation level repeatable read read only');
    await query('settings', `set local statement_timeout = ${CHECK_TIMEOUT_MS}`);
    return await work(query);
  } finally {
    await client.end();
  }
}
