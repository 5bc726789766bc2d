/** The id of a Kafka cluster. */

/** Notes beside offsets name the cluster, and their length is limited. */
const MAX_CLUSTER_ID_LENGTH = 200;

/**
 * Null where the brokers report no id, or one that does not fit into a note. All clusters then count as one.
 */
export function clusterIdIn({ clusterId }: { readonly clusterId?: string | null }): string | null {
  const isFit = clusterId != null && clusterId.length <= MAX_CLUSTER_ID_LENGTH && /^[!-~]+$/.test(clusterId);
  return isFit ? clusterId : null;
}
