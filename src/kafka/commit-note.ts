/**
 * The note that workers write beside a committed offset. Other tools that set offsets write none. A mirror
 * copies the note to another cluster.
 */

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
