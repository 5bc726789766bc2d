/**
 * Offsets of a group that reads another Kafka cluster than before. A mirror has translated them, and copied
 * the notes of the cluster that they come from. The store is then asked about its partition of that cluster:
 * whether it still has the records before the offset (docs/rules.md, U9).
 */
import type { TopicPartition } from '../lib/topic-partition';
import type { CommitNote } from './port';

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
