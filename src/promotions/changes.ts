/**
 * The difference of two documents, and when it takes effect (docs/rules.md, P17). It is printed before a
 * document is applied.
 */

import { plain } from '../lib/printable';
import { ONLY_WINDOW } from './calendar';
import type { PromotionDefinition, PromotionDocument } from './definition';
import { fieldsOf } from './fields';
import { instantText } from './local-time';
import { compareBytes } from './ranking';
import {
  define,
  type Effect,
  type Moment,
  type Objection,
  remove,
  type Takeover,
  type Timeline,
  type TimelineChange,
} from './timeline';

/** The versions of all promotions by `promotionKey`. */
export type Timelines = ReadonlyMap<string, Timeline>;

export interface PromotionChange {
  readonly operator: string;
  readonly id: string;
  readonly change: 'added' | 'removed' | 'changed';
  /** `field: old -> new` for a change, `field: new` for an addition, and nothing for a removal. */
  readonly details: readonly string[];
  readonly effect: Effect;
  /** The versions afterwards. */
  readonly timeline: Timeline;
  /** Why a store cannot apply the change. */
  readonly objection?: Objection;
}

export const promotionKey = ({ operator, id }: Pick<PromotionDefinition, 'operator' | 'id'>): string =>
  `${operator}/${id}`;

/**
 * Returns every promotion that a document changes, by operator and id. The order of lists is no difference,
 * except for the points of a leaderboard.
 */
export function planChanges(
  stored: Timelines,
  { promotions }: PromotionDocument,
  moment: Moment,
  takeover: Takeover = 'next_window',
): PromotionChange[] {
  const wanted = new Map(promotions.map((each) => [promotionKey(each), each]));
  const removed = [...stored].flatMap(([key, timeline]) => {
    if (wanted.has(key)) return [];
    const change = remove(timeline, moment.at);
    return change === undefined ? [] : [described(timeline[0].definition, change)];
  });
  const defined = [...wanted].flatMap(([key, definition]) => {
    const change = define(stored.get(key), definition, moment, takeover);
    return change === undefined ? [] : [described(definition, change)];
  });
  return [...defined, ...removed].sort(
    (a, b) => compareBytes(a.operator, b.operator) || compareBytes(a.id, b.id),
  );
}

/**
 * The difference of two files: the first one is in force since ever.
 *
 * @param at the time of the change, in microseconds since 1970
 */
export function describePromotionChanges(
  before: PromotionDocument,
  after: PromotionDocument,
  at: bigint,
): PromotionChange[] {
  const stored = new Map(
    before.promotions.map((definition): [string, Timeline] => [
      promotionKey(definition),
      [{ version: 1, definition, since: null, until: null, removedAt: null }],
    ]),
  );
  return planChanges(stored, after, { at, completeSince: null });
}

/** The reasons why a store cannot apply changes, each with the `promotionKey`. */
export function objectionsTo(changes: readonly PromotionChange[]): (Objection & { readonly key: string })[] {
  return changes.flatMap(({ objection, ...change }) =>
    objection === undefined ? [] : [{ key: promotionKey(change), ...objection }],
  );
}

/** One line for each change. */
export function printPromotionChanges(changes: readonly PromotionChange[]): string[] {
  return changes.map(({ operator, id, change, details, effect }) => {
    const shown = details.length === 0 ? '' : `: ${details.join('; ')}`;
    return `${change} promotion ${plain(operator)}/${plain(id)}${shown} (${effectText(effect)})`;
  });
}

function described(
  definition: PromotionDefinition,
  { change, differences, ...same }: TimelineChange,
): PromotionChange {
  const { operator, id } = definition;
  const fields = change === 'added' ? [...fieldsOf(definition)].map(([name, is]) => `${name}: ${is}`) : [];
  return { operator, id, change, details: [...fields, ...differences], ...same };
}

function effectText(effect: Effect): string {
  switch (effect.from) {
    case 'first_window':
      return 'counts from its first window on, with the events that came before';
    case 'now':
      return 'counts nothing from now on; its completions stay';
    case 'never':
      return `without effect until it is recomputed: its window "${ONLY_WINDOW}" has begun and never ends`;
    case 'removal':
      return 'counts as if it had not been removed';
    case 'recompute': {
      const windows =
        effect.at === null ? 'all its windows' : `windows that begin at ${instantText(effect.at)} or later`;
      return `computes ${windows} again, also those that have begun or are over; earlier versions no longer count there`;
    }
    case 'time': {
      const { at, pausedSince } = effect;
      const pause =
        pausedSince === null ? '' : `; no window counts from ${instantText(pausedSince)} until then`;
      return `for windows that begin at ${instantText(at)} or later${pause}`;
    }
  }
}
