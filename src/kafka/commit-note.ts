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
