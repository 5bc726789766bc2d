/**
 * Offsets of a group that has moved to another Kafka cluster: a mirror has translated them, and has copied the note of the cluster that they come from. Whether
 * the store still has the records before them is then a question about its partition of that cluster (docs/rules.md, U9).
 */
import type { TopicPartition } from '../lib/topic-partition';
import { type CommitNote, mirroredFrom } from './commit-note';

/** The Kafka cluster that a process reads. */
export interface ReadCluster {
  /** As its brokers give it; null where they give none. */
  readonly id: string | null;
  /** The name by which the store knows it (see `nameOfCluster`), and its notes. */
  readonly name: string;
}

/** A partition of the cluster that is read, or of another one that is named. */
export interface PartitionOfCluster extends TopicPartition {
  readonly cluster?: string;
}

/** How far the store has decided partitions, in the order of the list; 0 where nothing. @throws where it cannot say now */
export type ReadDecidedUpTo = (partitions: readonly PartitionOfCluster[]) => Promise<number[]>;

/** What the store says of an offset with a note of another cluster. */
export interface MovedOffset {
  /** The store has decided what the note says, on that cluster. */
  readonly isKnown: boolean;
  /** So far the store knows the partition to be decided on the cluster that is read. */
  readonly decidedUpTo: number;
}

export async function readMovedOffset(
  readDecidedUpTo: ReadDecidedUpTo,
  { id }: ReadCluster,
  { topic, partition }: TopicPartition,
  { cluster, upTo }: CommitNote,
): Promise<MovedOffset> {
  const sources = mirroredFrom(topic).map((name) => ({ topic: name, partition, cluster }));
  const [here = 0, ...there] = await readDecidedUpTo([{ topic, partition }, ...sources]);
  const isKnown = (there.find((decided) => decided > 0) ?? 0) >= upTo;
  // Notes name the store's first cluster only where another store had begun elsewhere. This store has no row of the records that such a note is about.
  return { isKnown, decidedUpTo: cluster === id && !isKnown ? 0 : here };
}
