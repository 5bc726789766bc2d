/** What workers write beside an offset that they commit: whoever else sets offsets does not know it. */

/** @param expectedUpTo see Progress; without it the offset is as one that somebody else has set */
export const commitNote = (expectedUpTo: number | null) =>
  expectedUpTo === null ? '' : `promo-intake ${expectedUpTo}`;

/** How far the partition was decided by this note; 0 by that of an older version, which did not say. Null: no worker has written it. */
export function readCommitNote(note: string | null): number | null {
  const ours = OURS.exec(note ?? '');
  return ours === null ? null : Number(ours[1] ?? 0);
}

const OURS = /^promo-intake(?: (\d+))?$/;
