/**
 * What `verify` asks of the store, all in one snapshot: the damages that promo.check_invariants() finds, and how far partitions are decided.
 */
import type { StoreAccess } from '../postgres/pool';
import { CHECK_TIMEOUT_MS, inStore } from './operations';

const SNAPSHOT = { timeoutMs: CHECK_TIMEOUT_MS, isSnapshot: true };

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
  /** One past the last offset that is decided of the log as it is now. */
  readonly decidedUpTo: number;
  /** Its log begins anew, or was cut off: offsets are not one record's alone. */
  readonly isAnew: boolean;
  /** Records read, without those that were read again. */
  readonly records: number;
  /** Offsets that rows stand for, from the one asked for on. */
  readonly offsets: number;
  /** Those in between that none stands for, in their order: the last MAX_GAPS. */
  readonly gaps: readonly Gap[];
  /** After a move from another Kafka cluster: where it is read from on this one. Else null, or absent. */
  readonly beginsAt?: number | null;
}

/** Offsets from `from` on, up to but without `to`. */
export interface Gap {
  readonly from: number;
  readonly to: number;
}

/** A topic that is written in transactions has a gap for each of them. */
const MAX_GAPS = 1_000;

/** An offset that Kafka still has everything from. */
export interface Beginning {
  readonly topic: string;
  readonly partition: number;
  readonly low: number;
}

export interface Inspection {
  /** Rows of what was received before were dropped, since 1970; 0 where none were. */
  readonly keptSinceMs: number;
  readonly damages: readonly Damage[];
  /** Of the cluster that was asked for. */
  readonly partitions: readonly StoredPartition[];
  /** Of the other clusters. */
  readonly elsewhere: readonly ElsewherePartition[];
}

/** How far a partition of another Kafka cluster is decided. */
export interface ElsewherePartition {
  readonly topic: string;
  readonly partition: number;
  readonly decidedUpTo: number;
  /** Id of the cluster. */
  readonly cluster: string;
  /** It is the first cluster of the store, which notes beside offsets do not name. */
  readonly isFirst: boolean;
}

const TOPICS = `select distinct topic from promo.partitions
where $1::text is null or coalesce(kafka_cluster, $1) = $1 order by topic`;

const DAMAGES = `select invariant, what, array_remove(array[feed_id, event_id, round_id, source], null), in_all::int
from promo.check_invariants()`;

const KEPT_SINCE = `select extract(epoch from max((request ->> 'first_kept')::timestamp at time zone 'utc'))::text
from promo.operations where operation = 'retention'`;

const PARTITIONS = `select topic, partition, decided_up_to::text, is_anew, records::text, offsets::text, gaps_from::text[], gaps_to::text[], begins_at::text
from promo_store.decided_offsets($1, $2, $3, $4, $5) order by topic, partition`;

const ELSEWHERE = `select topic, partition, decided_up_to::text, kafka_cluster, is_first_cluster
from promo.partitions where kafka_cluster <> $1 order by topic, partition`;

/** @param clusterId of whose partitions; null: of all @throws StoreError */
export async function storedTopics(
  database: string | StoreAccess,
  clusterId: string | null = null,
): Promise<string[]> {
  return inStore(database, SNAPSHOT, async (query) =>
    (await query(TOPICS, [clusterId])).map(([topic]) => String(topic)),
  );
}

/**
 * @param beginnings where rows are counted from; a partition that is not named is counted from 0
 * @param clusterId of whose partitions; null: of all
 * @throws StoreError
 */
export async function inspect(
  database: string | StoreAccess,
  beginnings: readonly Beginning[],
  clusterId: string | null = null,
): Promise<Inspection> {
  return inStore(database, SNAPSHOT, async (query) => {
    const damages = await query(DAMAGES);
    const [[keptSince] = []] = await query(KEPT_SINCE);
    const partitions = await query(PARTITIONS, [
      beginnings.map(({ topic }) => topic),
      beginnings.map(({ partition }) => partition),
      beginnings.map(({ low }) => low),
      MAX_GAPS,
      clusterId,
    ]);
    const elsewhere = clusterId === null ? [] : await query(ELSEWHERE, [clusterId]);
    return {
      keptSinceMs: Number(keptSince ?? 0) * 1000,
      damages: damages.map(([invariant, what, where, inAll]) => ({
        invariant: String(invariant),
        what: String(what),
        where: Array.isArray(where) ? where.map(String) : [],
        inAll: Number(inAll),
      })),
      partitions: partitions.map(
        ([topic, partition, decidedUpTo, isAnew, records, offsets, from, to, beginsAt]) => ({
          topic: String(topic),
          partition: Number(partition),
          decidedUpTo: Number(decidedUpTo),
          isAnew: isAnew === true,
          records: Number(records),
          offsets: Number(offsets),
          gaps: gapsOf(from, to),
          beginsAt: beginsAt === null ? null : Number(beginsAt),
        }),
      ),
      elsewhere: elsewhere.map(([topic, partition, decidedUpTo, cluster, isFirst]) => ({
        ...{ topic: String(topic), partition: Number(partition), decidedUpTo: Number(decidedUpTo) },
        ...{ cluster: String(cluster), isFirst: isFirst === true },
      })),
    };
  });
}

function gapsOf(from: unknown, to: unknown): Gap[] {
  if (!Array.isArray(from) || !Array.isArray(to)) throw new Error('the store told no gaps');
  return from.map((offset, index) => ({ from: Number(offset), to: Number(to[index]) }));
}
