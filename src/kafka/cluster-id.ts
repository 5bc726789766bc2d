/** The id of a Kafka cluster. */

/** Notes beside offsets name the cluster, and are bounded. */
const MAX_CLUSTER_ID_LENGTH = 200;

/** Null where the brokers give no id, or none that can be noted: then all clusters count as one. */
export function clusterIdIn({ clusterId }: { readonly clusterId?: string | null }): string | null {
  const isFit = clusterId != null && clusterId.length <= MAX_CLUSTER_ID_LENGTH && /^[!-~]+$/.test(clusterId);
  return isFit ? clusterId : null;
}
