/** The order of a leaderboard (docs/rules.md, P10). */
import type { PlayerProgress } from './player-progress';
import type { CompiledPromotion } from './terms';

/** How many ranks a promotion has; 0 where it is no leaderboard. */
export function keptRanks({ goal }: CompiledPromotion): number {
  return goal.rule === 'rank' ? goal.keepRanks : 0;
}

/**
 * The players with points, the best first, up to the number of ranks that are kept. Of equal points, the
 * player who has had them longer is before the other.
 */
export function ranking(promotion: CompiledPromotion, players: Iterable<PlayerProgress>): PlayerProgress[] {
  return [...players]
    .filter(({ score }) => score > 0n)
    .sort(compareRanked)
    .slice(0, keptRanks(promotion));
}

export function compareRanked(a: PlayerProgress, b: PlayerProgress): number {
  if (a.score !== b.score) return a.score > b.score ? -1 : 1;
  const earlier = (a.scoredNo ?? 0) - (b.scoredNo ?? 0);
  return earlier === 0 ? compareBytes(a.playerRef, b.playerRef) : earlier;
}

/** UTF-16 has code units from here on for characters that UTF-8 sorts behind all others. */
const FIRST_SURROGATE = 0xd800;

/** The order of UTF-8, which Postgres has with collate "C". */
export function compareBytes(a: string, b: string): number {
  const length = Math.min(a.length, b.length);
  for (let place = 0; place < length; place++) {
    const [ofA, ofB] = [a.charCodeAt(place), b.charCodeAt(place)];
    if (ofA === ofB) continue;
    if (ofA >= FIRST_SURROGATE && ofB >= FIRST_SURROGATE)
      return Buffer.compare(Buffer.from(a), Buffer.from(b));
    return ofA - ofB;
  }
  return a.length - b.length;
}
