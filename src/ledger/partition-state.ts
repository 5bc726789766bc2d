/**
 * Transactions on partitions beside the deciding one. They read decided offsets and the name of a cluster,
 * record the first offset on a cluster, and create the tables of months.
 */
import { arrays } from '../postgres/binary-format';
import { inTransaction, type Session, type Store } from '../postgres/transaction';
import { type ClusterPartition, FIRST_CLUSTER, partitionNoOf } from './statements/find';

const ENSURE_MONTHS = { name: 'ensure_months', text: 'select promo_store.ensure_months()' };

/** Creates the tables of this month and the next two, where they are missing. */
export async function ensureMonths(store: Store): Promise<void> {
  await inTransaction(store, (session) => session.query(ENSURE_MONTHS));
}

const CLAIM_CLUSTER = { name: 'claim_cluster', text: 'select promo_store.claim_cluster($1)' };

/**
 * The store's name of a Kafka cluster: FIRST_CLUSTER for the store's first cluster, else its id. Where the
 * store has no cluster yet, this one becomes the first.
 *
 * @param id null where the brokers report none: all clusters then count as one
 * @throws StoreError
 */
export async function nameOfCluster(store: Store, id: string | null): Promise<string> {
  if (id === null) return FIRST_CLUSTER;
  const [row] = await inTransaction(store, (session) => session.query(CLAIM_CLUSTER, [id]));
  return row?.[0] === id ? FIRST_CLUSTER : id;
}

const DECIDED_UP_TO = {
  name: 'decided_up_to',
  text: `select coalesce(p.decided_up_to, p.next_offset, 0) from unnest($1::text[], $2::int[], $3::text[]) with ordinality w (topic, partition, cluster_id, place)
left join promo_store.partitions p using (topic, partition, cluster_id) order by w.place`,
};

/**
 * The offsets up to which partitions are decided, in the list's order; 0 where none is. @throws StoreError
 */
export function readDecidedUpTo(store: Store, list: readonly ClusterPartition[]): Promise<number[]> {
  return inTransaction(store, (session) => selectDecidedUpTo(session, list));
}

/** The same within a transaction. */
export async function selectDecidedUpTo(
  session: Session,
  list: readonly ClusterPartition[],
): Promise<number[]> {
  const topics = arrays.text(list.map(({ topic }) => topic));
  const rows = await session.query(DECIDED_UP_TO, [
    topics,
    arrays.int4(list.map(({ partition }) => partition)),
    arrays.text(list.map(({ cluster = FIRST_CLUSTER }) => cluster)),
  ]);
  return rows.map(([offset]) => Number(offset));
}

const FIRST_OFFSET = {
  name: 'begin_at',
  text: 'update promo_store.partitions set begins_at = $2 where partition_no = $1',
};

/**
 * Records the first offset that is read of a partition of this cluster. The records before it were decided on
 * another cluster.
 * @throws LostRace, StoreError
 */
export async function recordFirstOffset(
  store: Store,
  partition: ClusterPartition,
  offset: number,
): Promise<void> {
  await inTransaction(store, async (session) =>
    session.query(FIRST_OFFSET, [await partitionNoOf(session, partition), offset]),
  );
}
