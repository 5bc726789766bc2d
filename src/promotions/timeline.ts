/**
 * The versions of one promotion over time, and the version that a new definition makes (docs/rules.md, P17).
 * A store keeps them. No window is ever counted by two versions.
 */
import { BEFORE_ALL, type Calendar, earlier, later, ONLY_WINDOW, type PromotionWindow } from './calendar';
import { isOf } from './counting';
import type { PromotionDefinition } from './definition';
import { differencesOf } from './fields';
import { instantText } from './local-time';
import { compilePromotion } from './terms';

/** A version, and the windows that it counts. Times are microseconds since 1970. */
export interface DefinedVersion {
  /** From 1. */
  readonly version: number;
  readonly definition: PromotionDefinition;
  /** It counts windows that begin at this time or later; null: all. */
  readonly since: bigint | null;
  /** It counts windows that begin before this time; null: all, BEFORE_ALL: none. */
  readonly until: bigint | null;
  /** It counts no event that is decided at this time or later; null: the promotion is not removed. */
  readonly removedAt: bigint | null;
}

/** The versions of a promotion in their order, at least one. */
export type Timeline = readonly [DefinedVersion, ...DefinedVersion[]];

/** The windows that a change concerns. */
export type Effect =
  /** All windows of an added promotion, with the events that are stored already. */
  | { readonly from: 'first_window' }
  /**
   * The windows that begin at this time or later. From `pausedSince` until then no window counts, as after a
   * change from weeks to months. Null: there is no such pause. Microseconds since 1970.
   */
  | { readonly from: 'time'; readonly at: bigint; readonly pausedSince: bigint | null }
  /** The only window has begun, and it never ends. */
  | { readonly from: 'never' }
  /** A removed promotion counts nothing from now on. */
  | { readonly from: 'now' }
  /** A promotion that comes back unchanged counts as if it had not been removed. */
  | { readonly from: 'removal' }
  /** Windows that begin at this time or later are computed again; null: all. Microseconds since 1970. */
  | { readonly from: 'recompute'; readonly at: bigint | null };

/** The reason why a store cannot apply a change. */
export interface Objection {
  readonly message: string;
  readonly remedy: string;
}

export interface TimelineChange {
  readonly timeline: Timeline;
  readonly change: 'added' | 'removed' | 'changed';
  /** `field: old -> new`; empty for other changes. */
  readonly differences: readonly string[];
  readonly effect: Effect;
  readonly objection?: Objection;
}

/** The time of a change, and the time since which history has all events; null: it never lost any. */
export interface Moment {
  readonly at: bigint;
  readonly completeSince: bigint | null;
}

/** When a changed definition begins to count: with the next window, or with all windows, computed again. */
export type Takeover = 'next_window' | 'recompute';

/**
 * Puts a definition into a timeline.
 *
 * @param before undefined for a promotion that was never defined
 * @returns undefined where nothing changes
 */
export function define(
  before: Timeline | undefined,
  definition: PromotionDefinition,
  moment: Moment,
  takeover: Takeover = 'next_window',
): TimelineChange | undefined {
  if (before === undefined) return addAfter([], definition, null, moment);
  const last = lastOf(before);
  const differences = differencesOf(last.definition, definition);
  if (takeover === 'recompute') {
    const isPending = last.since !== null && last.since > moment.at;
    const counting = isPending ? (windowIn(before, moment.at)?.version ?? last) : last;
    const changes = differencesOf(counting.definition, definition);
    if (changes.length > 0) return recompute(before, definition, changes, moment);
  }
  if (last.removedAt !== null) return bringBack(before, definition, last.removedAt, differences, moment);
  return differences.length === 0 ? undefined : changeOf(before, definition, differences, moment.at);
}

/** @returns undefined where the promotion is removed already */
export function remove(before: Timeline, at: bigint): TimelineChange | undefined {
  if (lastOf(before).removedAt !== null) return undefined;
  const timeline = mapped(before, (each) => ({ ...each, removedAt: each.removedAt ?? at }));
  return { timeline, change: 'removed', differences: [], effect: { from: 'now' } };
}

/** The window that contains an instant, and the version that counts it. */
export function windowIn(
  timeline: Timeline,
  at: bigint,
): { readonly version: DefinedVersion; readonly window: PromotionWindow } | undefined {
  for (const version of timeline) {
    const window = compilePromotion(version.definition).calendar.at(at);
    if (window !== undefined && isOf(version, window)) return { version, window };
  }
  return undefined;
}

/** The window in progress ends by its own definition. So no player sees the target move. */
function changeOf(
  before: Timeline,
  definition: PromotionDefinition,
  differences: readonly string[],
  at: bigint,
): TimelineChange {
  const end = endOfWindow(before, at);
  if (end === null) {
    const objection = {
      message: `The change would never count: the window "${ONLY_WINDOW}" has begun, and never ends.`,
      remedy: ANOTHER_ID,
    };
    return { timeline: before, change: 'changed', differences, effect: { from: 'never' }, objection };
  }
  const begin = firstBegin(definition, end);
  const first = begin ?? end;
  const timeline = appended(before, definition, first, end);
  const pausedSince = first > end && windowIn(before, at) !== undefined ? end : null;
  const effect: Effect = { from: 'time', at: first, pausedSince };
  const change = { timeline, change: 'changed', differences, effect } as const;
  return begin === undefined
    ? { ...change, objection: objectionOfNoWindow(end, `${LATER} ${RECOMPUTE}`) }
    : change;
}

/**
 * Equal definitions continue, so that a removal by mistake is undone whole. Otherwise the windows that had
 * begun at the removal stay as they were then.
 */
function bringBack(
  before: Timeline,
  definition: PromotionDefinition,
  removedAt: bigint,
  differences: readonly string[],
  moment: Moment,
): TimelineChange {
  const isKept = moment.completeSince === null || moment.completeSince <= removedAt;
  if (differences.length === 0 && isKept) {
    const timeline = mapped(before, (each) =>
      each.removedAt === removedAt ? { ...each, removedAt: null } : each,
    );
    return { timeline, change: 'added', differences: [], effect: { from: 'removal' } };
  }
  const since = endOfWindow(before, removedAt);
  if (since !== null) return addAfter(before, definition, since, moment);
  const objection = {
    message: `It was removed at ${instantText(removedAt)} in the window "${ONLY_WINDOW}", which never ends.`,
    remedy: ANOTHER_ID,
  };
  return { timeline: before, change: 'added', differences: [], effect: { from: 'never' }, objection };
}

const RECOMPUTE = 'Or compute it again: apply it with --recompute.';
const ANOTHER_ID = `Give the changed promotion another id, and remove the old one. ${RECOMPUTE}`;
const LATER = 'Give the changed promotion another id, or write a later from and to.';

/** @param since the windows that may count; null: all */
function addAfter(
  before: readonly DefinedVersion[],
  definition: PromotionDefinition,
  since: bigint | null,
  { completeSince }: Moment,
): TimelineChange {
  const { from, first, objection } = beginOf(definition, since, completeSince);
  const timeline = appended(before, definition, first, from);
  const effect: Effect =
    first === null ? { from: 'first_window' } : { from: 'time', at: first, pausedSince: null };
  const change = { timeline, change: 'added', differences: [], effect } as const;
  return objection === undefined ? change : { ...change, objection };
}

/**
 * The new version takes over all windows from its own first one on, also one in progress. Windows of which
 * history has lost events stay as they are.
 */
function recompute(
  before: Timeline,
  definition: PromotionDefinition,
  differences: readonly string[],
  { completeSince }: Moment,
): TimelineChange {
  const change = lastOf(before).removedAt === null ? 'changed' : 'added';
  const own = { change, differences: change === 'changed' ? differences : [] } as const;
  const first = compilePromotion(definition).calendar.from;
  const { from, objection } = beginOf(definition, null, completeSince);
  // A window of the version before may hold events of before and after the first instant that counts.
  const since = from === null ? null : endOfWindow(before, from);
  if (from !== null && since === null) {
    const message = `The window "${ONLY_WINDOW}" has events from before ${instantText(from)}, which history no longer has.`;
    const remedy = 'Give the changed promotion another id, and remove the old one.';
    return { ...own, timeline: before, effect: { from: 'never' }, objection: { message, remedy } };
  }
  const until = since ?? (first === null ? BEFORE_ALL : beginOfWindow(before, first));
  const effect: Effect = { from: 'recompute', at: until === BEFORE_ALL ? null : until };
  const made = { ...own, timeline: appended(before, definition, since, until), effect };
  return objection === undefined ? made : { ...made, objection };
}

interface Begin {
  /** The windows that begin at this time or later may count; null: all. */
  readonly from: bigint | null;
  /** When the first one of them begins; `from` where there is none. */
  readonly first: bigint | null;
  /** Why the definition cannot count. */
  readonly objection: Objection | undefined;
}

function beginOf(definition: PromotionDefinition, since: bigint | null, completeSince: bigint | null): Begin {
  const { calendar } = compilePromotion(definition);
  const earliest = later(since, calendar.from);
  const isIncomplete = completeSince !== null && (earliest === null || earliest < completeSince);
  // Windows that repeat without a bound have no begin of their own: they begin with history.
  const isBounded = since === null && (calendar.from !== null || definition.window === undefined);
  if (isIncomplete && isBounded)
    return { from: since, first: since, objection: objectionOfHistory(calendar, completeSince) };
  const from = isIncomplete ? completeSince : since;
  if (from === null) return { from, first: null, objection: undefined };
  const first = firstBegin(definition, from);
  const objection = first === undefined ? objectionOfNoWindow(from, LATER) : undefined;
  return { from, first: first ?? from, objection };
}

function objectionOfHistory({ from }: Calendar, completeSince: bigint): Objection {
  const since = instantText(completeSince);
  const begins = from === null ? 'It counts events of all times' : `It begins at ${instantText(from)}`;
  return {
    message: `${begins}, and history has no events from before ${since}: its months were dropped.`,
    remedy: `Write from: ${since.replace(':00Z', 'Z')} or later.`,
  };
}

function objectionOfNoWindow(since: bigint, remedy: string): Objection {
  return {
    message: `The definition would never count: it has no window that begins at ${instantText(since)} or later.`,
    remedy,
  };
}

/** @returns when the first window begins that begins at `since` or later; undefined: there is none */
function firstBegin(definition: PromotionDefinition, since: bigint): bigint | undefined {
  const { calendar } = compilePromotion(definition);
  const window = calendar.at(later(since, calendar.from) ?? since);
  if (window === undefined) return undefined;
  if (window.startsAt !== null && window.startsAt >= since) return window.startsAt;
  return window.endsAt !== null && calendar.at(window.endsAt) !== undefined ? window.endsAt : undefined;
}

/** @returns when the window that has an instant begins: the instant itself where there is none */
function beginOfWindow(timeline: Timeline, at: bigint): bigint {
  const found = windowIn(timeline, at);
  return found === undefined ? at : (found.window.startsAt ?? BEFORE_ALL);
}

/** @returns when the window in progress ends: `at` where there is none, null where it never ends */
function endOfWindow(timeline: Timeline, at: bigint): bigint | null {
  const found = windowIn(timeline, at);
  return found === undefined ? at : found.window.endsAt;
}

function appended(
  before: readonly DefinedVersion[],
  definition: PromotionDefinition,
  since: bigint | null,
  until = since,
): Timeline {
  const added = { version: before.length + 1, definition, since, until: null, removedAt: null };
  const [first, ...more] = before.map((each) => ({ ...each, until: earlier(each.until, until) }));
  return first === undefined ? [added] : [first, ...more, added];
}

function mapped([first, ...more]: Timeline, change: (version: DefinedVersion) => DefinedVersion): Timeline {
  return [change(first), ...more.map(change)];
}

export function lastOf(timeline: Timeline): DefinedVersion {
  return timeline.at(-1) ?? timeline[0];
}
