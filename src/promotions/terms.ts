/**
 * A promotion as terms: the form in which events are counted. Each term adds an event to one row of progress,
 * and a goal says how rows make completions (docs/rules.md, P5-P10). A store can fold all types by one
 * statement over the terms.
 */
import { currencyOf, toMinor } from '../domain/event/money';
import { TimeZone } from '../lib/time-zone';
import { type Calendar, makeCalendar, makeLocalDays } from './calendar';
import type { Amounts, PromotionDefinition, StakeKind, Stakes } from './definition';
import { readBound, readDuration } from './local-time';

export type CountedKind = StakeKind | 'deposit' | 'withdrawal' | 'login';

export interface Term {
  readonly kind: CountedKind;
  /** The row's item. Null: the local day of the event. */
  readonly item: string | null;
  /** Null: every game, and events without a game. */
  readonly games: ReadonlySet<string> | null;
  /** Minor units by currency code. */
  readonly minAmount: ReadonlyMap<string, bigint>;
  /** The row adds up the amounts in each currency, or else it counts events. */
  readonly adds: 'amount' | 'one';
  /** How much makes one unit: minor units by currency code, or a number of events under NO_CURRENCY. */
  readonly unit: ReadonlyMap<string, bigint>;
  /** The points of a unit in a leaderboard; 1 for other goals. */
  readonly worth: bigint;
}

/** The currency of rows that count events. */
export const NO_CURRENCY = '';

/** The rule that makes completions of units. */
export type Goal =
  /** Each run of so many local days without a gap. */
  | { readonly rule: 'days_in_a_row'; readonly days: number }
  /** Each unit. */
  | { readonly rule: 'units' }
  /** Each set of all items, so many units of each. */
  | { readonly rule: 'every_item'; readonly need: ReadonlyMap<string, bigint> }
  /** One rank a player, at the close of the window. */
  | { readonly rule: 'rank'; readonly keepRanks: number };

export interface CompiledPromotion {
  readonly definition: PromotionDefinition;
  readonly calendar: Calendar;
  readonly terms: readonly Term[];
  readonly goal: Goal;
  /** The most completions of a player in a window. */
  readonly mostCompletions: number;
  readonly brands: ReadonlySet<string> | null;
  /** Microseconds. */
  readonly acceptsLate: bigint | null;
  readonly confirmAfter: bigint | null;
  /** The local day of an instant, for rows by day. */
  readonly localDay: ((micros: bigint) => string) | null;
}

/**
 * The most completions of one player in one window: a target of a cent would fill a store. Further ones are
 * not made.
 */
export const MOST_COMPLETIONS = 1_000;

/** @throws RangeError for a definition that no file may have */
export function compilePromotion(definition: PromotionDefinition): CompiledPromotion {
  const zone = definition.timeZone === undefined ? undefined : new TimeZone(definition.timeZone);
  const from = boundOf(definition, 'from');
  const to = boundOf(definition, 'to');
  const repeats = definition.type !== 'leaderboard' && definition.completes === 'each';
  const isDaily = definition.type === 'login_streak';
  if (isDaily && zone === undefined) throw new RangeError(`${definition.id}: a streak needs a time zone`);
  return {
    definition,
    calendar: makeCalendar(from, to, definition.window, zone),
    ...rulesOf(definition),
    mostCompletions: repeats ? MOST_COMPLETIONS : 1,
    brands: definition.brands === undefined ? null : new Set(definition.brands),
    acceptsLate: durationOf(definition, 'acceptsLate'),
    confirmAfter: durationOf(definition, 'confirmAfter'),
    localDay: isDaily && zone !== undefined ? makeLocalDays(zone) : null,
  };
}

function rulesOf(definition: PromotionDefinition): Pick<CompiledPromotion, 'terms' | 'goal'> {
  switch (definition.type) {
    case 'login_streak': {
      const term = termOf('login', null, {}, events(1));
      return { terms: [term], goal: { rule: 'days_in_a_row', days: definition.days } };
    }
    case 'deposit_target':
      return { terms: [termOf('deposit', '', {}, amounts(definition.target))], goal: { rule: 'units' } };
    case 'withdrawal_target':
      return { terms: [termOf('withdrawal', '', {}, amounts(definition.target))], goal: { rule: 'units' } };
    case 'turnover_target': {
      const term = termOf(definition.counts, '', definition, amounts(definition.target));
      return { terms: [term], goal: { rule: 'units' } };
    }
    case 'bet_count':
      return { terms: [termOf('bet', '', definition, events(definition.target))], goal: { rule: 'units' } };
    case 'round_count': {
      const term = termOf('settled', '', definition, events(definition.target));
      return { terms: [term], goal: { rule: 'units' } };
    }
    case 'collect_items': {
      const { items } = definition;
      return {
        terms: items.map((item) => termOf('settled', item.id, item, unitOf(item.per))),
        goal: { rule: 'every_item', need: new Map(items.map(({ id, need }) => [id, BigInt(need)])) },
      };
    }
    case 'leaderboard':
      return {
        terms: definition.points.map((points, index) => ({
          ...termOf(points.counts, String(index + 1), points, unitOf(points.per)),
          worth: BigInt(points.points),
        })),
        goal: { rule: 'rank', keepRanks: definition.keepRanks },
      };
  }
}

type Unit = Pick<Term, 'adds' | 'unit'>;

function termOf(kind: CountedKind, item: string | null, { games, minAmount }: Stakes, unit: Unit): Term {
  return {
    kind,
    item,
    games: games === undefined ? null : new Set(games),
    minAmount: minorsOf(minAmount ?? {}),
    ...unit,
    worth: 1n,
  };
}

function events(count: number): Unit {
  return { adds: 'one', unit: new Map([[NO_CURRENCY, BigInt(count)]]) };
}

function amounts(target: Amounts): Unit {
  return { adds: 'amount', unit: minorsOf(target) };
}

function unitOf(per: Amounts | undefined): Unit {
  return per === undefined ? events(1) : amounts(per);
}

function minorsOf(listed: Amounts): Map<string, bigint> {
  return new Map(
    Object.entries(listed).map(([code, text]) => {
      const currency = currencyOf(code);
      const minor = currency && toMinor(text, currency.scale);
      if (currency === undefined || minor === undefined)
        throw new RangeError(`${code} ${text} is no amount of a currency`);
      return [currency.code, minor];
    }),
  );
}

function boundOf({ id, timeZone, ...definition }: PromotionDefinition, key: 'from' | 'to'): bigint | null {
  const text = definition[key];
  const bound = text === undefined ? null : readBound(text, timeZone);
  if (typeof bound === 'string') throw new RangeError(`${id}: ${key} is no time (${bound})`);
  return bound;
}

function durationOf(definition: PromotionDefinition, key: 'acceptsLate' | 'confirmAfter'): bigint | null {
  const text = definition[key];
  const duration = text === undefined ? null : readDuration(text);
  if (duration === undefined) throw new RangeError(`${definition.id}: ${key} is no duration`);
  return duration;
}
