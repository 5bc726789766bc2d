/**
 * The definition of a promotion, as its file has it. `compilePromotion` turns it into terms
 * (docs/rules.md, P1-P20).
 */

export const PROMOTION_TYPES = [
  'login_streak',
  'deposit_target',
  'withdrawal_target',
  'turnover_target',
  'bet_count',
  'round_count',
  'collect_items',
  'leaderboard',
] as const;
export type PromotionType = (typeof PROMOTION_TYPES)[number];

export const PERIODS = ['day', 'week', 'month'] as const;
export const WEEKDAYS = [
  'monday',
  'tuesday',
  'wednesday',
  'thursday',
  'friday',
  'saturday',
  'sunday',
] as const;
/** The kinds of events that turnover and points may count. */
export const STAKE_KINDS = ['bet', 'settled'] as const;
export type StakeKind = (typeof STAKE_KINDS)[number];

/** Decimal texts in major units, by currency code. */
export type Amounts = Readonly<Record<string, string>>;

export type Repetition =
  | { readonly every: 'day' }
  | { readonly every: 'week'; readonly starts: (typeof WEEKDAYS)[number] }
  /** `starts` is a day of the month, from 1 to 28. */
  | { readonly every: 'month'; readonly starts: number };

/** The part that all types share. Absent keys are absent from the file. */
interface Common {
  /** Unique within the operator. */
  readonly id: string;
  readonly operator: string;
  /** Absent: all brands of the operator. */
  readonly brands?: readonly string[];
  readonly timeZone?: string;
  /** The first instant that counts. Absent: no bound. */
  readonly from?: string;
  /** The instant from which nothing counts any more. Absent: no bound. */
  readonly to?: string;
  /** Absent: one window, from `from` to `to`. */
  readonly window?: Repetition;
  /** How long after its window an event may be decided and still count. Absent: for ever. */
  readonly acceptsLate?: string;
  /** How long a completion has to hold until it is confirmed. Absent: it is never confirmed. */
  readonly confirmAfter?: string;
}

/** The conditions on a bet or settled. */
export interface Stakes {
  /** Absent: every game, and events without a game. */
  readonly games?: readonly string[];
  /** Smaller amounts do not count. A currency that is not listed has no minimum. */
  readonly minAmount?: Amounts;
}

/** Whether a player completes a promotion once in a window, or again with each further target. */
export interface Repeatable {
  readonly completes: 'once' | 'each';
}

export interface CollectedItem extends Stakes {
  readonly id: string;
  readonly need: number;
  /** The amount of one item. Absent: each round is one. */
  readonly per?: Amounts;
}

export interface Points extends Stakes {
  readonly counts: StakeKind;
  /** The amount that gives the points. Absent: each event gives them. */
  readonly per?: Amounts;
  readonly points: number;
}

export type PromotionDefinition = Common &
  (
    | (Repeatable & { readonly type: 'login_streak'; readonly days: number })
    | (Repeatable & { readonly type: 'deposit_target' | 'withdrawal_target'; readonly target: Amounts })
    | (Repeatable &
        Stakes & { readonly type: 'turnover_target'; readonly counts: StakeKind; readonly target: Amounts })
    | (Repeatable & Stakes & { readonly type: 'bet_count' | 'round_count'; readonly target: number })
    | (Repeatable & { readonly type: 'collect_items'; readonly items: readonly CollectedItem[] })
    | { readonly type: 'leaderboard'; readonly points: readonly Points[]; readonly keepRanks: number }
  );

export interface PromotionDocument {
  readonly promotions: readonly PromotionDefinition[];
}
