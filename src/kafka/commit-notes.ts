/**
 * The note that is committed beside each offset: how far the store must have decided the partition, and on
 * which Kafka cluster.
 */
import type { TopicPartition } from '../lib/topic-partition';

export interface CommitNote {
  /**
   * One past the last decided record: the store must have decided the partition up to here. 0 where an older
   * version left it out.
   */
  readonly upTo: number;
  /**
   * The store's name of the Kafka cluster that the offset belongs to. Empty for the store's first cluster,
   * which older versions do not name.
   */
  readonly cluster: string;
}

/** @param note null where the store has not been asked yet: the offset then counts as set by another tool */
export const commitNote = (note: CommitNote | null) =>
  note === null ? '' : ['promo-intake', note.upTo, ...(note.cluster === '' ? [] : [note.cluster])].join(' ');

/** Null where no worker has written the note. */
export function readCommitNote(note: string | null): CommitNote | null {
  const [ours, upTo = 0, cluster = ''] = OURS.exec(note ?? '') ?? [];
  return ours === undefined ? null : { upTo: Number(upTo), cluster };
}

const OURS = /^promo-intake(?: (\d+)(?: (\S+))?)?$/;

/** Notes beside offsets name the cluster, and their length is limited. */
const MAX_CLUSTER_ID_LENGTH = 200;

/**
 * The id of a Kafka cluster. Null where the brokers report no id, or one that does not fit into a note. All
 * clusters then count as one.
 */
export function clusterIdIn({ clusterId }: { readonly clusterId?: string | null }): string | null {
  const isFit = clusterId != null && clusterId.length <= MAX_CLUSTER_ID_LENGTH && /^[!-~]+$/.test(clusterId);
  return isFit ? clusterId : null;
}

// --- offsets of another cluster

/*
 * A group may read another Kafka cluster than before. A mirror has translated its offsets, and copied the
 * notes of the cluster that they come from. The store is then asked about its partition of that cluster:
 * whether it still has the records before the offset (docs/rules.md, U9).
 */

/** The Kafka cluster that a process reads. */
export interface ReadCluster {
  /** The id that the brokers report; null where they report none. */
  readonly id: string | null;
  /** The name of the cluster in the store (see `nameOfCluster`) and in notes. */
  readonly name: string;
}

/** A partition of the cluster that is read, or of the named cluster. */
export interface PartitionOfCluster extends TopicPartition {
  readonly cluster?: string;
}

/**
 * Returns how far the store has decided each partition, in the order of the list; 0 for none.
 *
 * @throws where the store cannot answer now
 */
export type ReadDecidedUpTo = (partitions: readonly PartitionOfCluster[]) => Promise<number[]>;

/** The store's answer about an offset with a note of another cluster. */
export interface MirroredOffset {
  /** Whether the store has decided the other cluster's partition as far as the note claims. */
  readonly isKnown: boolean;
  /** How far the store has decided the partition of the cluster that is read. */
  readonly decidedUpTo: number;
}

export async function readMirroredOffset(
  readDecidedUpTo: ReadDecidedUpTo,
  { id }: ReadCluster,
  { topic, partition }: TopicPartition,
  { cluster, upTo }: CommitNote,
): Promise<MirroredOffset> {
  const sources = mirroredFrom(topic).map((name) => ({ topic: name, partition, cluster }));
  const [here = 0, ...there] = await readDecidedUpTo([{ topic, partition }, ...sources]);
  const isKnown = (there.find((decided) => decided > 0) ?? 0) >= upTo;
  // A note names the store's first cluster only where another store began on a different cluster. This store
  // then has no row of the note's records.
  return { isKnown, decidedUpTo: cluster === id && !isKnown ? 0 : here };
}

/**
 * The topics that a mirror may have copied a topic from, the longest name first. Either the name is the same,
 * or the mirror has put a cluster's name and a dot before it.
 */
export function mirroredFrom(topic: string): string[] {
  const parts = topic.split('.');
  return parts.map((_, index) => parts.slice(index).join('.')).slice(0, MAX_RENAMED);
}

/**
 * The most prefixes of a topic's name that are considered, for a topic that several mirrors have copied and
 * renamed.
 */
const MAX_RENAMED = 8;
