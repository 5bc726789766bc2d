/** The state of a promotion at a time: its version and window then, and the version that follows. */
import type { PromotionWindow } from './calendar';
import { compilePromotion } from './terms';
import { type DefinedVersion, lastOf, type Timeline, windowIn } from './timeline';

export interface PromotionState {
  readonly state: 'counts' | 'begins later' | 'is over' | 'was removed';
  /** The version that counts, or counts next, or counted last. */
  readonly version: DefinedVersion;
  /** The window in progress. */
  readonly window: PromotionWindow | undefined;
  /** The version that takes over with a later window. */
  readonly next: DefinedVersion | undefined;
}

/** @param at microseconds since 1970 */
export function promotionStateOf(timeline: Timeline, at: bigint): PromotionState {
  const last = lastOf(timeline);
  const found = windowIn(timeline, at);
  const version = found?.version ?? last;
  const next = version === last ? undefined : last;
  if (last.removedAt !== null && last.removedAt <= at)
    return { state: 'was removed', version, window: undefined, next: undefined };
  if (found !== undefined) return { state: 'counts', version, window: found.window, next };
  const { from } = compilePromotion(last.definition).calendar;
  const begins = (from !== null && from > at) || (last.since !== null && last.since > at);
  return { state: begins ? 'begins later' : 'is over', version, window: undefined, next };
}
