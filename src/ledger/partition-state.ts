/**
 * Transactions on partitions beside the deciding one. Each runs one statement of statements/partitions.ts,
 * which describes it.
 */
import { inTransaction, type Store } from '../postgres/transaction';
import * as partitions from './statements/partitions';

/** Creates the tables of this month and the next two, where they are missing. */
export async function ensureMonths(store: Store): Promise<void> {
  await inTransaction(store, partitions.createMissingMonths);
}

/**
 * The offsets up to which partitions are decided, in the list's order; 0 where none is. @throws StoreError
 */
export function readDecidedUpTo(
  store: Store,
  list: readonly partitions.ClusterPartition[],
): Promise<number[]> {
  return inTransaction(store, (session) => partitions.selectDecidedUpTo(session, list));
}

/** The store's name of a Kafka cluster. @throws StoreError */
export function nameOfCluster(store: Store, id: string | null): Promise<string> {
  return inTransaction(store, (session) => partitions.readClusterName(session, id));
}

/** Records the first offset that is read of a partition of this cluster. @throws LostRace, StoreError */
export function recordFirstOffset(
  store: Store,
  partition: partitions.ClusterPartition,
  offset: number,
): Promise<void> {
  return inTransaction(store, (session) => partitions.updateFirstOffset(session, partition, offset));
}
