/** How often rows of progress reach the goal of a promotion (docs/rules.md, P7-P10). */

import { DAY_MS } from '../lib/time-zone';
import { type CompiledPromotion, NO_CURRENCY, type Term } from './terms';

/** One value of a player's progress in a window. */
export interface ProgressRow {
  /** An item, the number of a leaderboard's points, a local day, or empty. */
  readonly item: string;
  /** A code, or NO_CURRENCY for a number of events. */
  readonly currency: string;
  /** Minor units, or a number of events. */
  value: bigint;
}

/** The completions that the rows are worth. */
export function attainedBy(promotion: CompiledPromotion, rows: readonly ProgressRow[]): number {
  const { goal, mostCompletions } = promotion;
  const most = BigInt(mostCompletions);
  const attained = (): bigint => {
    switch (goal.rule) {
      case 'days_in_a_row':
        return runsOf(rows).reduce((sum, { length }) => sum + BigInt(Math.floor(length / goal.days)), 0n);
      case 'units':
        return unitsIn(promotion, rows);
      case 'every_item':
        return [...goal.need].reduce((least, [item, need]) => {
          const sets = unitsIn(promotion, rows, item) / need;
          return sets < least ? sets : least;
        }, most);
      case 'rank':
        return 0n;
    }
  };
  const found = attained();
  return Number(found < most ? found : most);
}

/** The points of a leaderboard. */
export function scoreOf(promotion: CompiledPromotion, rows: readonly ProgressRow[]): bigint {
  return unitsIn(promotion, rows);
}

/**
 * The units of the rows, each worth its term's points. They are taken of the sum of each currency, never of
 * single events: a refund could not take back a part of a unit.
 */
export function unitsIn(
  { terms }: CompiledPromotion,
  rows: readonly ProgressRow[],
  item: string | null = null,
): bigint {
  return rows.reduce((sum, row) => {
    if (item !== null && row.item !== item) return sum;
    const term = terms.find((each) => each.item === row.item);
    return term === undefined ? sum : sum + unitsOf(term, row) * term.worth;
  }, 0n);
}

function unitsOf({ unit }: Term, { currency, value }: ProgressRow): bigint {
  const size = unit.get(currency);
  return size === undefined || value <= 0n ? 0n : value / size;
}

/** Days with a login that follow one another. */
export interface Run {
  readonly first: string;
  readonly length: number;
}

/** The runs of rows by day, the earliest first. */
export function runsOf(rows: readonly ProgressRow[]): Run[] {
  const days = rows
    .filter(({ currency, value }) => currency === NO_CURRENCY && value > 0n)
    .map(({ item }) => item)
    .sort();
  const runs: { first: string; length: number }[] = [];
  let previous = Number.NaN;
  for (const day of days) {
    const number = Date.parse(day) / DAY_MS;
    const last = runs.at(-1);
    if (last !== undefined && number === previous + 1) last.length++;
    else runs.push({ first: day, length: 1 });
    previous = number;
  }
  return runs;
}
