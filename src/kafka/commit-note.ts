/** The note that workers write beside an offset that they commit. Others who set offsets leave it out, and a mirror copies it to another cluster. */

export interface CommitNote {
  /** One past the last record that was decided: the store has to have decided the partition so far. 0 where an older version did not say. */
  readonly upTo: number;
  /** The store's name of the Kafka cluster that the offset belongs to. Empty for its first cluster, which older versions do not name. */
  readonly cluster: string;
}

/** @param note null where the store has not been asked yet: then the offset counts as one that somebody else has set */
export const commitNote = (note: CommitNote | null) =>
  note === null ? '' : ['promo-intake', note.upTo, ...(note.cluster === '' ? [] : [note.cluster])].join(' ');

/** Null where no worker has written it. */
export function readCommitNote(note: string | null): CommitNote | null {
  const [ours, upTo = 0, cluster = ''] = OURS.exec(note ?? '') ?? [];
  return ours === undefined ? null : { upTo: Number(upTo), cluster };
}

const OURS = /^promo-intake(?: (\d+)(?: (\S+))?)?$/;

/**
 * The topics that a mirror may have copied a topic from: the one of the same name, and those whose name it has put a cluster's name and a dot
 * before, the longest first.
 */
export function mirroredFrom(topic: string): string[] {
  const parts = topic.split('.');
  return parts.map((_, index) => parts.slice(index).join('.')).slice(0, MAX_RENAMED);
}

/** A topic that was copied from cluster to cluster by mirrors that rename has so many names before its own, at most. */
const MAX_RENAMED = 8;
