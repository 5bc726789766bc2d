/**
 * The reads of `verify`, all in one snapshot: the damages that promo.check_invariants() finds, and the
 * offsets up to which partitions are decided.
 */
import type { StoreAccess } from '../postgres/pool';
import { CHECK_TIMEOUT_MS, inStore } from './in-store';

const SNAPSHOT = { timeoutMs: CHECK_TIMEOUT_MS, isSnapshot: true };

export interface Damage {
  /** I1 to I7; docs/operations/verification.md defines each of them. */
  readonly invariant: string;
  readonly what: string;
  /** The damaged object: the feed and the event or round, or the partition, or the window. */
  readonly where: readonly string[];
  /** The number of damages of this invariant. Not all of them are listed. */
  readonly inAll: number;
}

/** The state of a partition in the store. */
export interface StoredPartition {
  readonly topic: string;
  readonly partition: number;
  /** One past the last decided offset of the current log. */
  readonly decidedUpTo: number;
  /** The topic was created again or cut off, so an offset may belong to several records. */
  readonly isRecreated: boolean;
  /** Records read, without those that were read again. */
  readonly records: number;
  /** The number of offsets with a row, from the requested offset on. */
  readonly offsets: number;
  /** Ranges of offsets without a row, in ascending order: the last MAX_GAPS. */
  readonly gaps: readonly Gap[];
  /**
   * The first offset to read on this cluster, where the group read another one before. Otherwise null or
   * absent.
   */
  readonly beginsAt?: number | null;
}

/** Offsets from `from` (included) to `to` (excluded). */
export interface Gap {
  readonly from: number;
  readonly to: number;
}

/** The largest number of gaps. A topic with transactions has a gap for each transaction. */
const MAX_GAPS = 1_000;

/** The first offset that Kafka still has. */
export interface Beginning {
  readonly topic: string;
  readonly partition: number;
  readonly low: number;
}

export interface Inspection {
  /** Rows received before this time were dropped; milliseconds since 1970, 0 where none were. */
  readonly keptSinceMs: number;
  readonly damages: readonly Damage[];
  /** Of the requested cluster. */
  readonly partitions: readonly StoredPartition[];
  /** Of the other clusters. */
  readonly elsewhere: readonly ElsewherePartition[];
}

/** The offset up to which a partition of another Kafka cluster is decided. */
export interface ElsewherePartition {
  readonly topic: string;
  readonly partition: number;
  readonly decidedUpTo: number;
  /** The id of the cluster. */
  readonly cluster: string;
  /**
   * Whether it is the store's first cluster. The metadata of committed offsets does not name the first
   * cluster.
   */
  readonly isFirst: boolean;
}

const TOPICS = 'select distinct topic, kafka_cluster from promo.partitions order by topic';

const DAMAGES = `select invariant, what, array_remove(array[feed_id, event_id, round_id, source], null), in_all::int
from promo.check_invariants()`;

const KEPT_SINCE = `select extract(epoch from max((request ->> 'first_kept')::timestamp at time zone 'utc'))::text
from promo.operations where operation = 'retention'`;

const PARTITIONS = `select topic, partition, decided_up_to::text, is_anew, records::text, offsets::text, gaps_from::text[], gaps_to::text[], begins_at::text
from promo_store.decided_offsets($1, $2, $3, $4, $5) order by topic, partition`;

const ELSEWHERE = `select topic, partition, decided_up_to::text, kafka_cluster, is_first_cluster
from promo.partitions where kafka_cluster <> $1 order by topic, partition`;

/** A topic of which the store has a partition, in one Kafka cluster. */
export interface StoredTopic {
  readonly topic: string;
  /** The id of the cluster; null where the store knows none. */
  readonly cluster: string | null;
}

/** @throws StoreError */
export async function storedTopics(database: string | StoreAccess): Promise<StoredTopic[]> {
  return inStore(database, SNAPSHOT, async (query) =>
    (await query(TOPICS)).map(([topic, cluster]) => ({
      topic: String(topic),
      cluster: typeof cluster === 'string' ? cluster : null,
    })),
  );
}

/**
 * @param beginnings the offsets from which rows are counted; an unnamed partition is counted from 0
 * @param clusterId the cluster of the partitions; null for all clusters
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
        ([topic, partition, decidedUpTo, isRecreated, records, offsets, from, to, beginsAt]) => ({
          topic: String(topic),
          partition: Number(partition),
          decidedUpTo: Number(decidedUpTo),
          isRecreated: isRecreated === true,
          records: Number(records),
          offsets: Number(offsets),
          gaps: gapsOf(from, to),
          beginsAt: beginsAt === null ? null : Number(beginsAt),
        }),
      ),
      elsewhere: elsewhere.map(([topic, partition, decidedUpTo, cluster, isFirst]) => ({
        topic: String(topic),
        partition: Number(partition),
        decidedUpTo: Number(decidedUpTo),
        cluster: String(cluster),
        isFirst: isFirst === true,
      })),
    };
  });
}

function gapsOf(from: unknown, to: unknown): Gap[] {
  if (!Array.isArray(from) || !Array.isArray(to)) throw new Error('the store returned no gaps');
  return from.map((offset, index) => ({ from: Number(offset), to: Number(to[index]) }));
}
