/** The keys of the file of promotions, in the order in which a store keeps them. */
import type { PromotionType } from '../promotions/definition';

const FIRST_KEYS = ['id', 'operator', 'brands', 'type', 'from', 'to', 'time_zone', 'window'] as const;
const LAST_KEYS = ['accepts_late', 'confirm_after'] as const;

/** The keys of each type beside the common ones. */
export const OWN_KEYS: Readonly<Record<PromotionType, readonly string[]>> = {
  login_streak: ['days', 'completes'],
  deposit_target: ['target', 'completes'],
  withdrawal_target: ['target', 'completes'],
  turnover_target: ['counts', 'games', 'min_amount', 'target', 'completes'],
  bet_count: ['games', 'min_amount', 'target', 'completes'],
  round_count: ['games', 'min_amount', 'target', 'completes'],
  collect_items: ['items', 'completes'],
  leaderboard: ['points', 'keep_ranks'],
};

/** The largest numbers of the file, and `keepRanks` for a leaderboard that names none. */
export const FILE_LIMITS = {
  days: 366,
  events: 1_000_000_000,
  points: 1_000_000,
  ranks: 10_000,
  keepRanks: 100,
  startOfMonth: 28,
} as const;

/** The keys of each entry of a list. */
export const ENTRY_KEYS = {
  items: ['id', 'games', 'min_amount', 'need', 'per'],
  points: ['counts', 'games', 'min_amount', 'per', 'points'],
} as const;

export const keysOf = (type: PromotionType): string[] => [...FIRST_KEYS, ...OWN_KEYS[type], ...LAST_KEYS];

export const ALL_KEYS = [...new Set([...FIRST_KEYS, ...LAST_KEYS, ...Object.values(OWN_KEYS).flat()])];
