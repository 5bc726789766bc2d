/** Which rows of progress an entry counts in, and why it counts in none (docs/rules.md, P1, P5-P9, P13). */
import type { Kind } from '../domain/event/event';
import { appended } from '../lib/appended';
import type { PromotionWindow } from './calendar';
import { type CountedEntry, countedTimeOf } from './ledger-entry';
import { type CompiledPromotion, NO_CURRENCY, type Term } from './terms';

/** The reasons why an entry does not count in a promotion of its kind, in the order of precedence. */
export const MISS_REASONS = {
  other_brand: 'the event is of a brand that the promotion does not list',
  outside_window: 'the time of the event is in no window of the promotion',
  late: 'the event was decided too long after its window',
  no_game: 'the promotion lists games, and the event names none',
  game_not_listed: 'the promotion lists games, and not the game of the event',
  below_minimum: 'the amount is below min_amount of its currency',
  currency_without_target: 'the promotion has no amount for the currency of the event',
} as const;
export type MissReason = keyof typeof MISS_REASONS;

/** A row of progress, and the change of its value. */
export interface Credit {
  readonly item: string;
  readonly currency: string;
  readonly amount: bigint;
}

export type Match =
  | { readonly window: PromotionWindow; readonly credits: readonly Credit[] }
  | { readonly miss: MissReason };

const REASONS = Object.keys(MISS_REASONS);

/** @returns undefined where the promotion counts no events of this kind or operator */
export function matchEntry(promotion: CompiledPromotion, entry: CountedEntry): Match | undefined {
  const { terms, brands, calendar, acceptsLate } = promotion;
  if (!hasKind(terms, entry.kind)) return undefined;
  if (promotion.definition.operator !== entry.operatorId) return undefined;
  if (brands !== null && (entry.brand === null || !brands.has(entry.brand))) return { miss: 'other_brand' };
  const window = calendar.at(countedTimeOf(entry));
  if (window === undefined) return { miss: 'outside_window' };
  if (acceptsLate !== null && window.endsAt !== null && entry.decidedAt >= window.endsAt + acceptsLate)
    return { miss: 'late' };
  let credits: readonly Credit[] = [];
  /** Of several terms, the one that came nearest has the reason. */
  let nearest: MissReason | undefined;
  for (const term of terms) {
    if (term.kind !== entry.kind) continue;
    const miss = missOf(term, entry);
    if (miss === undefined) credits = appended(credits, creditOf(promotion, term, entry));
    else if (nearest === undefined || REASONS.indexOf(miss) > REASONS.indexOf(nearest)) nearest = miss;
  }
  if (credits.length > 0) return { window, credits };
  return nearest === undefined ? undefined : { miss: nearest };
}

/** A loop allocates nothing, and there is one call for each event and promotion. */
function hasKind(terms: readonly Term[], kind: Kind): boolean {
  for (const term of terms) if (term.kind === kind) return true;
  return false;
}

function missOf(
  { games, minAmount, adds, unit }: Term,
  { gameId, currency, amountMinor }: CountedEntry,
): MissReason | undefined {
  if (games !== null && gameId === null) return 'no_game';
  if (games !== null && gameId !== null && !games.has(gameId)) return 'game_not_listed';
  const least = currency === null ? undefined : minAmount.get(currency);
  if (least !== undefined && sizeOf(amountMinor) < least) return 'below_minimum';
  if (adds === 'amount' && (currency === null || !unit.has(currency))) return 'currency_without_target';
  return undefined;
}

/** A reversal has the size of its entry, so it meets the same conditions. */
function sizeOf(amount: bigint): bigint {
  return amount < 0n ? -amount : amount;
}

function creditOf({ localDay }: CompiledPromotion, { item, adds }: Term, entry: CountedEntry): Credit {
  const isReversal = entry.reversesEntryId !== null;
  return {
    item: item ?? localDay?.(countedTimeOf(entry)) ?? '',
    currency: adds === 'amount' ? (entry.currency ?? NO_CURRENCY) : NO_CURRENCY,
    amount: adds === 'amount' ? entry.amountMinor : isReversal ? -1n : 1n,
  };
}
