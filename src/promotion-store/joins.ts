/** Progress that an erasure has joined from two names (docs/rules.md, B6). */
import type { Session, Statement } from '../postgres/transaction';
import type { PlacedEntry } from './completions';
import type { CountedVersion } from './counted-versions';
import { ProgressChanges, SliceCounting } from './slice-counting';
import { type SliceOptions, SlicePart } from './slice-part';
import type { HeldRankChanges } from './slice-ranks';
import { finiteMicrosOf } from './times';
import { WINDOW, type WindowRow, windowRowOf } from './windows';

/** Progress, and the last change of it. */
interface JoinedProgress extends WindowRow {
  readonly playerRef: string;
  readonly changeNo: number;
  /** Microseconds since 1970. */
  readonly at: bigint;
}

const TAKE_JOINED: Statement = {
  name: 'promotions_take_joined',
  text: `with taken as (delete from promo_store.promotion_joins where generation = $1 returning window_no, player_ref)
select ${WINDOW}, p.player_ref, p.changed_no, ${finiteMicrosOf('p.changed_at')} from taken t
join promo_store.promotion_windows w using (window_no)
cross join lateral (select p.player_ref, p.changed_no, p.changed_at from promo_store.promotion_progress p
  where p.generation = $1 and p.window_no = t.window_no and p.player_ref = t.player_ref offset 0) p
order by p.changed_no`,
};

/** Deletes the list of joined progress of a generation. @returns the list, which the slice has to judge */
async function takeJoined(session: Session, generation: number): Promise<JoinedProgress[]> {
  return (await session.query(TAKE_JOINED, [generation])).map((row) => {
    const [window, [playerRef, changeNo, at]] = windowRowOf(row);
    return { ...window, playerRef: playerRef ?? '', changeNo: Number(changeNo), at: BigInt(at ?? 0) };
  });
}

interface JoinedSlice extends SliceOptions {
  readonly versions: readonly CountedVersion[];
  /** All rows from before this time are counted with the slice, in microseconds since 1970. */
  readonly asOf: bigint;
}

/**
 * Judges progress that an erasure has joined, before rows change it: it may be worth other completions than
 * those that hold, and another rank.
 */
export async function countJoined(
  session: Session,
  { versions, asOf, ...options }: JoinedSlice,
  ranked: HeldRankChanges,
): Promise<PlacedEntry[]> {
  const joined = await takeJoined(session, options.generation);
  if (joined.length === 0) return [];
  const part = new SlicePart(session, options, new SliceCounting(versions));
  const changes = new ProgressChanges();
  for (const each of joined) {
    const place = part.counting.placeOf(each);
    if (place === undefined || ranked.takeStep(each, place, each.playerRef)) continue;
    changes.addStep(each, part.counting.progressOf(place.version, place.window, each.playerRef));
  }
  await part.restore();
  part.counting.count(changes.inOrder());
  return part.save(asOf);
}
