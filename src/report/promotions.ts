/** The figures of promotions in a report, made of the rows of their queries. Pure. */
import type { TextRow } from '../postgres/texts';
import { sum } from './sum';

export interface MissCount {
  readonly reason: string;
  readonly events: number;
}

export interface PromotionFigures {
  readonly operator: string;
  readonly promotion: string;
  readonly type: string;
  readonly state: string;
  /** Values of players in windows that overlap the range: a value for each item and currency. */
  readonly values: number;
  /** The values by their share of the target; all are 0 for a leaderboard. */
  readonly shares: {
    readonly below_half: number;
    readonly below_target: number;
    readonly reached: number;
  };
  /** Completions of the range. */
  readonly completed: number;
  /** Those that no entry has revoked since. */
  readonly held: number;
  /** Revocations of the range, also of earlier completions. */
  readonly revoked: number;
  /** The most frequent first. */
  readonly misses: readonly MissCount[];
}

export interface CompletionCounts {
  readonly held: number;
  readonly taken_back: number;
}

export interface PromotionsReport {
  readonly list: readonly PromotionFigures[];
  /** The completions of each bucket of the verdicts, of all promotions. */
  readonly buckets: readonly CompletionCounts[];
}

/** Rows of the queries; null where a query was too slow. */
export interface PromotionRows {
  readonly promotions: readonly TextRow[] | null;
  readonly shares: readonly TextRow[] | null;
  readonly completions: readonly TextRow[] | null;
  readonly misses: readonly TextRow[] | null;
}

/** @param buckets their number */
export function promotionsOf(rows: PromotionRows, buckets: number): PromotionsReport {
  const completions = (rows.completions ?? []).map(([bucket, operator, promotion, ...counts]) => {
    const [completed = 0, held = 0, revoked = 0] = counts.map(Number);
    return { bucket: Number(bucket), operator, promotion, completed, held, revoked };
  });
  const list = (rows.promotions ?? []).map(([operator, promotion, type, state]): PromotionFigures => {
    const isOwn = (of: Pick<(typeof completions)[number], 'operator' | 'promotion'>) =>
      of.operator === operator && of.promotion === promotion;
    const own = completions.filter(isOwn);
    const shares = rows.shares?.find(([of, id]) => isOwn({ operator: of, promotion: id }));
    const [values = 0, belowHalf = 0, belowTarget = 0, reached = 0] = (shares ?? []).slice(2).map(Number);
    return {
      operator: operator ?? '',
      promotion: promotion ?? '',
      type: type ?? '',
      state: state ?? '',
      values,
      shares: { below_half: belowHalf, below_target: belowTarget, reached },
      completed: sum(own.map(({ completed }) => completed)),
      held: sum(own.map(({ held }) => held)),
      revoked: sum(own.map(({ revoked }) => revoked)),
      misses: (rows.misses ?? [])
        .filter(([of, id]) => isOwn({ operator: of, promotion: id }))
        .map(([, , reason, events]) => ({ reason: reason ?? '', events: Number(events) }))
        .sort((one, other) => other.events - one.events),
    };
  });
  return {
    list,
    buckets: Array.from({ length: buckets }, (_, index) => {
      const here = completions.filter(({ bucket }) => bucket === index + 1);
      const held = sum(here.map((each) => each.held));
      return { held, taken_back: sum(here.map(({ completed }) => completed)) - held };
    }),
  };
}
